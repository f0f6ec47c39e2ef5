"""`ohforge doctor` on this machine, with an SDK whose hdc reaches an emulated board as a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.emulator.board.boards import create_board, stop_board
from tests.shared.standin_sdk import standin_sdk
from tests.support.command_line import Said, invoke


def checks(said: Said) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in said.answer["checks"]}


def test_what_is_here_is_found_and_the_hdc_of_another_release_is_told(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sdk = standin_sdk(shared_cache, "5.0.0")
    monkeypatch.setenv("OHFORGE_DATA_DIR", str(tmp_path / "data"))
    board = create_board(home=tmp_path / "data/boards")
    try:
        here = invoke("doctor", INVOKE_OHFORGE_SDK=str(sdk), OHFORGE_HDC=str(sdk / "toolchains/hdc"))
        broken = invoke("doctor", INVOKE_OHFORGE_SDK=str(tmp_path), OHFORGE_HDC="/nowhere/hdc")
    finally:
        stop_board(board)
    found = checks(here)
    assert (here.status, here.answer["ok"], here.answer["missing"]) == (0, True, []), here.text
    assert "ohos-sdk 5.0.0.71 (API 12" in found["ohos-sdk"]["found"]
    assert "aarch64" in found["emulated board"]["found"]
    assert "qemu-arm-static" in found["qemu and tools"]["found"]
    assert found["hdc"]["found"].endswith("3.1.0b")
    assert found["hdc and emulated-dayu200"]["state"] in ("ok", "optional")
    assert "hdc" in found["hdc and emulated-dayu200"]["found"]
    assert (broken.status, broken.answer["missing"]) == (77, ["ohos-sdk", "hdc"])
    assert "/nowhere/hdc" in checks(broken)["hdc"]["found"]
