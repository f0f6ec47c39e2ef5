"""bench.parts: one bench on several boards, a folder each, with a script in place of llama-bench."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import measure as loop
from bench.llama import measure_llama
from bench.parts import measure_parts
from bench.record import read_bench
from bench.request import BenchOutcome, BenchRequest
from bench.spread.there import named_there
from commands.show_bench import show_parts
from commands.words import read_boards
from core.data_file import find_fault
from core.errors import AllBoardsLost, BoardOffline, UnlikeBoards, UsageError
from core.record_folder import check_record
from core.session import PROJECT, Session
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.bench_board import bench_of, use_bench, write_bench
from tests.support.local_board import LocalBoard

KIND = {"emulated": False, "chip": "RK3568"}


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, dict[str, Any]]]:
    """Of the boards, by name."""
    known = {name: {"serial": name, **KIND} for name in ("a", "b")}
    monkeypatch.setattr("bench.parts.kind_of_board", lambda session, name: known[name])
    yield known


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BenchRequest:
    board = LocalBoard(tmp_path / "board")
    use_bench(monkeypatch, write_bench(tmp_path, counter=board.folder / "counter"), board)
    boards = {name: LocalBoard(tmp_path / name) for name in ("a", "b")}
    monkeypatch.setattr(loop, "choose_board", lambda session, name: boards[name])
    return bench_of(write_tiny_gguf(tmp_path / "tiny.gguf"), repetitions="2", threads=(1,))


def test_each_board_has_a_whole_bench_of_its_own_in_one_record(
    session: Session, kinds: dict[str, Any], request_: BenchRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    meeting = threading.Barrier(2)

    def measure(session: Session, request: BenchRequest) -> BenchOutcome:
        meeting.wait(60)  # Neither is measured before the other has begun.
        return measure_llama(session, request)

    outcome = measure_parts(session, request_, "llama", measure, ("a", "b"))
    content = json.loads((outcome.record / "record.json").read_text())
    assert (content["kind"], content["state"], content["board_kind"]) == ("bench-parts", "done", KIND)
    assert find_fault(content, PROJECT / "docs" / "bench-parts.schema.json") is None
    for part in content["parts"]:
        record = Path(part["record"])
        assert record.parent == outcome.record / "parts" / part["board"]
        bench = read_bench(record)
        medians = {row["test"]: row["median"] for row in bench["results"]}
        assert {metric["test"]: metric["median"] for metric in part["metrics"].values()} == medians
        assert bench["series"]["count"] == 2 * 3  # Two tests, a warm-up and two rounds.
    assert check_record(outcome.record).is_unchanged
    capsys.readouterr()
    show_parts(session.console, outcome)
    assert capsys.readouterr().out.count("measured on the board") == 2


def test_a_board_that_is_lost_leaves_the_bench_of_the_other(
    session: Session, kinds: dict[str, Any], request_: BenchRequest
) -> None:
    def measure(session: Session, request: BenchRequest) -> BenchOutcome:
        if request.board == "a":
            raise BoardOffline("Board a has gone.")
        return measure_llama(session, request)

    outcome = measure_parts(session, request_, "llama", measure, ("a", "b"))
    lost, other = outcome.content["parts"]
    assert (lost["state"], lost["error"]["code"], other["state"]) == ("failed", "OHF7006", "done")
    assert (outcome.content["state"], outcome.all_done) == ("failed", False)


def test_no_bench_at_all_is_an_error_of_its_own(
    session: Session, kinds: dict[str, Any], request_: BenchRequest
) -> None:
    def lose(session: Session, request: BenchRequest) -> BenchOutcome:
        raise BoardOffline(f"Board {request.board} has gone.")

    with pytest.raises(AllBoardsLost, match=r"a: Board a has gone\.; b: Board b has gone\."):
        measure_parts(session, request_, "llama", lose, ("a", "b"))


def test_boards_of_unlike_kind_are_not_measured_together(
    session: Session, kinds: dict[str, Any], request_: BenchRequest
) -> None:
    kinds["b"]["chip"] = "RK3588"
    with pytest.raises(UnlikeBoards, match="chip"):
        measure_parts(session, request_, "llama", measure_llama, ("a", "b"))


def test_another_computer_is_told_where_a_file_lies_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.ms").touch()
    assert list(map(named_there, ("own.ms", "absent.ms", "smollm2"))) == [f"{tmp_path}/own.ms", "absent.ms", "smollm2"]


@pytest.mark.parametrize(
    ("address", "is_right"),
    [
        ("tcp://lab:8786", True),
        ("lab-1.lan:8786", True),
        ("tls://[fe80::1]:8786", True),
        ("tcp://me:key@lab:8786", False),
        ("tcp://lab:8786?token=key", False),
        ("lab", False),
    ],
)
def test_the_address_of_a_scheduler_has_nothing_but_a_host_and_a_port(address: str, is_right: bool) -> None:
    with contextlib.nullcontext() if is_right else pytest.raises(UsageError, match="no address of a Dask scheduler"):
        assert read_boards("a,b", address) == ("a", "b")
