"""Completions on the emulated board, with scripts in place of llama-bench and llama-server, whose times are known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import completion
from bench.completion import check_plan, read_completions
from bench.llama import measure_llama
from bench.record import read_bench, verify_record
from commands.show_bench import show_bench
from core.errors import EndpointSilent, ProgramCrashed, UsageError
from core.session import Session
from deploy.board.protocol import Board
from deploy.emulator.board.boards import create_board
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.bench_board import bench_of, use_bench, write_bench
from tests.support.board_runs import SERIAL, TMP, running, use_boards
from tests.support.served import READ, STEP_SECONDS, kill_server, run_of_server, write_server


@pytest.fixture(autouse=True)
def own_boards(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use_boards(home, tmp_path, monkeypatch)
    create_board(SERIAL, home=home)
    return


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf")


def use_scripts(monkeypatch: pytest.MonkeyPatch, board: Board, folder: Path, **server: str) -> None:
    use_bench(monkeypatch, write_bench(folder, counter=Path(TMP) / "counter"), board)
    run = run_of_server(write_server(folder, **server))
    monkeypatch.setattr(completion, "ready_server", lambda session, board, options: run)


def test_each_completion_has_the_time_of_every_token_and_a_record_of_its_server(
    session: Session,
    board: Board,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use_scripts(monkeypatch, board, tmp_path)
    outcome = measure_llama(session, bench_of(model, repetitions="1", n_prompt=READ, n_gen=5, completions=2))
    content = read_bench(outcome.record)
    rows = read_completions(outcome.record)
    assert [(row.position, row.round, row.generated, row.prompt_tokens) for row in rows] == [
        (number + 1, number, 5, READ) for number in (0, 1, 2)
    ]
    assert {row.threads for row in rows} == {2}  # The script in place of llama-bench is quicker with more threads.
    for row in rows:
        assert row.token_seconds == pytest.approx([STEP_SECONDS] * 4)
        assert list(row.arrivals) == sorted(row.arrivals) and row.ttft_seconds == row.arrivals[0] > 0
        assert (row.peak_bytes or 0) > 100_000 and row.load_seconds > 0
        run = json.loads((outcome.record / "runs" / row.run / "record.json").read_text())
        assert (run["state"], run["program"]["name"]) == ("done", "llama-server")
        assert "-c 13 " in " ".join(run["command"]["words"]) and "-t 2" in " ".join(run["command"]["words"])
    results = {row["metric"]: row for row in content["completion"]["results"]}
    token = results["token"]
    assert (token["median"], token["n"], token["low"], token["unit"]) == (pytest.approx(STEP_SECONDS), 8, None, "s")
    assert (results["ttft"]["n"], results["load"]["n"], results["tpot"]["n"]) == (2, 2, 2)
    assert results["major_faults_per_token"]["unit"] == "faults" and results["read_per_token"]["unit"] == "bytes"
    answer = outcome.as_json()
    assert answer["metrics"]["tiny, 2 threads, ttft"] == results["ttft"]
    assert answer["completions"] == str(outcome.record / "completions.jsonl")
    assert verify_record(outcome.record).is_unchanged
    capsys.readouterr()
    show_bench(session.console, outcome)
    numbers = [line for line in capsys.readouterr().out.splitlines() if line.startswith("tiny ")]
    assert len(numbers) == 4 + len(results) and all("(emulated)" in line for line in numbers)


def test_a_server_that_dies_in_the_middle_of_an_answer_is_named_and_what_was_measured_stays(
    session: Session, board: Board, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # From its second start on it is killed at the third token.
    before = f"echo $$ >{TMP}/server; echo x >>{TMP}/starts"
    during = f"[ $i -lt 3 ] || [ $(wc -l <{TMP}/starts) -lt 2 ] || {kill_server(TMP + '/server')}"
    use_scripts(monkeypatch, board, tmp_path, before=before, during=during)
    with pytest.raises(ProgramCrashed, match="llama-server on board emulated-dayu200 was ended by SIGKILL") as caught:
        measure_llama(session, bench_of(model, repetitions="1", threads=(1,), completions=2))
    folder = Path(caught.value.details["record"])
    content = read_bench(folder)
    assert (content["state"], content["completion"]["state"], content["completion"]["count"]) == (
        "failed",
        "running",
        1,
    )
    assert [row.round for row in read_completions(folder)] == [0]
    assert running(board, "llama-server") == []


def test_a_server_that_says_nothing_more_is_not_waited_for_without_end(
    session: Session, board: Board, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_scripts(monkeypatch, board, tmp_path, during="[ $i -lt 3 ] || sleep 876")
    monkeypatch.setattr(completion, "LEAST_SILENCE", 3.0)
    with pytest.raises(EndpointSilent, match="after 2 pieces") as caught:
        measure_llama(session, bench_of(model, repetitions="1", threads=(1,), completions=1))
    assert read_bench(Path(caught.value.details["record"]))["state"] == "timeout"
    assert running(board, "sleep 876") == []


@pytest.mark.parametrize(("count", "n_prompt", "n_gen"), [(-1, 8, 8), (1, 0, 8), (1, 8, 1)])
def test_completions_in_which_nothing_could_be_measured_are_refused(count: int, n_prompt: int, n_gen: int) -> None:
    with pytest.raises(UsageError, match="nothing to measure"):
        check_plan(count, n_prompt, n_gen)
