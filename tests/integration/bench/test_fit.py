"""`model.fit` as a user types it, with the emulated board."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.command_line import invoke
from tests.support.emulated import emulated_home


def test_the_emulated_board_is_asked_what_it_has_and_gets_nothing(tmp_path: Path) -> None:
    model = write_tiny_gguf(tmp_path / "tiny.gguf")
    with emulated_home(tmp_path / "home") as home, pytest.MonkeyPatch.context() as patch:
        for name, value in home.items():
            patch.setenv(name, value)
        said = invoke("model.fit", model, "--board", "dayu200", "--arch", "arm64", "--toolchain", "zig")
        there = invoke("board.shell", "find /data/local/tmp/ohforge -type f", "--board", "dayu200")
    assert (said.status, said.answer["verdict"], said.answer["emulated"]) == (0, "fits", True)
    # what the profile's /proc/meminfo shows
    assert said.answer["available"] == 1310720 * 1024
    assert said.text.splitlines()[-1].startswith("Q2_K")
    assert "tiny" not in there.answer["output"]
