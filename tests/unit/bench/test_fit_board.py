"""`model.fit`: which settings it takes, what it asks the board, and that it sends nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench import fit_board
from bench.fit_board import FitRequest, fit_on_board
from commands.show import show_fit
from core.console import Console
from core.errors import ModelError, UsageError
from core.session import Session
from deploy.board.profiles import load_profile
from tests.shared.shape_gguf import write_shapes
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.local_board import LocalBoard
from tests.unit.native.formats.test_ms_format import GOOD
from tests.unit.native.models.test_llama_memory import Q2_K, llama_8b
from toolchains.host_toolchain import ToolchainChoice

ZIG = ToolchainChoice(toolchain="zig", arch="arm64")


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalBoard:
    """This computer, with the profile of a DAYU200."""
    board = LocalBoard(tmp_path / "board")
    board.profile = dataclasses.replace(load_profile("dayu200"), device_dir=board.profile.device_dir)
    monkeypatch.setattr(fit_board, "choose_board", lambda *_: board)
    return board


def memory_of_this_computer() -> int:
    (line,) = [line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:")]
    return int(line.split()[1]) * 1024


def test_the_answer_has_what_scripts_rely_on(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", "Q8_0")
    answer = fit_on_board(session, FitRequest(model=str(path), choice=ZIG, context=256, ubatch=32))
    assert set(answer["bytes"]) == {"weights", "kv", "compute", "output", "repack", "process", "read_per_token"}
    assert (answer["verdict"], answer["bound_by"], answer["largest_context"]) == ("fits", "memory", 512)
    assert answer["available"] == pytest.approx(memory_of_this_computer(), rel=0.5)
    # by hand: 512 tokens of 64 numbers are read with one row only; 4 bytes for each of 256 x 2 layers x 2 heads x 16 x 2
    assert answer["bytes"]["weights"] - answer["bytes"]["read_per_token"] == 512 * 64 * 34 // 32
    assert answer["bytes"]["kv"] == 256 * 2 * 2 * (16 + 16) * 2
    assert answer["seconds_per_token"] == pytest.approx(answer["bytes"]["read_per_token"] / 6.2e9)
    # the tuning of the profile has dot products, for which Q8_0 is rearranged: all but the table of tokens and the norms
    assert answer["bytes"]["repack"] == answer["bytes"]["read_per_token"] - 5 * 64 * 4
    assert answer["flags"] == ["-c", "256", "-ub", "32"]
    plain = fit_on_board(session, FitRequest(model=str(path), choice=ZIG, repack=False))
    assert (plain["bytes"]["repack"], plain["flags"][-1]) == (0, "--no-repack")


def test_nothing_is_sent_to_the_board(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    fit_on_board(session, FitRequest(model=str(path), choice=ZIG))
    assert not [file for file in (tmp_path / "board").rglob("*") if file.is_file()]


def test_people_are_told_the_verdict_first_and_what_would_help(
    session: Session, board: LocalBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_shapes(tmp_path / "8b.gguf", *llama_8b(Q2_K))
    answer = fit_on_board(session, FitRequest(model=str(path), choice=ZIG, context=131_072))
    capsys.readouterr()
    show_fit(Console(), answer)
    said = capsys.readouterr()
    lines = (said.out + said.err).splitlines()
    assert lines[0].startswith(answer["verdict"])
    assert any(line.startswith("KV q8_0 ") for line in lines)
    assert any(line.startswith("Q4_K_M ") for line in lines)


def test_a_32_bit_program_cannot_map_a_large_model(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    path = write_shapes(tmp_path / "8b.gguf", *llama_8b(Q2_K))
    choice = ToolchainChoice(toolchain="zig", arch="arm32")
    notes = fit_on_board(session, FitRequest(model=str(path), choice=choice))["notes"]
    assert [note for note in notes if "32-bit program" in note and "--arch arm64" in note]


@pytest.mark.parametrize("request_", [{"context": 0}, {"ubatch": -1}, {"kv_type": "q9_9"}])
def test_settings_that_cannot_be_are_refused(
    session: Session, board: LocalBoard, tmp_path: Path, request_: dict[str, int | str]
) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    with pytest.raises(UsageError):
        fit_on_board(session, FitRequest(model=str(path), **request_))  # type: ignore[arg-type]
    assert board.calls == []


def test_a_model_of_another_kind_is_refused_before_the_board_is_asked(
    session: Session, board: LocalBoard, tmp_path: Path
) -> None:
    path = tmp_path / "model.ms"
    path.write_bytes(GOOD)
    with pytest.raises(ModelError, match="is no GGUF model"):
        fit_on_board(session, FitRequest(model=str(path)))
    assert board.calls == []
