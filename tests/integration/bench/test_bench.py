"""A bench on the emulated board, through hdc and by the commands' own functions, with a script in place of llama-bench."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import llama
from bench.llama import measure_llama, read_timings
from bench.record import list_benches, read_bench, verify_record
from bench.series import Timing, read_series
from commands.show_bench import show_bench, show_benches
from core.errors import LostConnection
from core.session import Session
from deploy.board.protocol import Board
from deploy.emulator.board.boards import create_board
from deploy.emulator.board.faults import FaultFile
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.bench_board import bench_of, use_bench, write_bench
from tests.support.board_runs import SERIAL, TMP, use_boards


@pytest.fixture(autouse=True)
def own_boards(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use_boards(home, tmp_path, monkeypatch)
    create_board(SERIAL, home=home)
    yield
    FaultFile(folder=home / SERIAL).clear()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf")


def test_a_bench_on_an_emulated_board_says_so_everywhere_and_records_the_boards_own_conditions(
    session: Session,
    board: Board,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path, counter=Path(TMP) / "counter"), board, conditions=None)
    outcome = measure_llama(session, bench_of(model, threads=(1,)))
    content = read_bench(outcome.record)
    assert {row["test"]: (row["median"], row["n"]) for row in content["results"]} == {
        "prefill": (100.0, 6),
        "decode": (10.0, 6),
    }
    # As deploy/board/profiles/dayu200.yaml has them.
    before = content["conditions"]["before"]
    assert before["temperatures"] == {"soc-thermal (thermal_zone0)": 42.5, "gpu-thermal (thermal_zone1)": 41.875}
    assert (before["policies"][0]["governor"], before["policies"][0]["hardware_highest_hz"]) == ("ondemand", 1992000000)
    assert (before["online_cpus"], before["other_clocks"], before["cooling"]) == ("0-3", {}, {})
    assert content["notes"] == ["the clock is not fixed: policy0 (ondemand) may change it by load"]
    assert content["board"]["facts"]["parameters"]["const.product.model"] == "DAYU200"
    assert (content["board"]["emulated"], outcome.as_json()["emulated"]) == (True, True)
    assert verify_record(outcome.record).files > 8 * 3
    capsys.readouterr()
    show_bench(session.console, outcome)
    show_benches(session.console, list_benches(session.settings.runs))
    said = capsys.readouterr().out
    numbers = [line for line in said.splitlines() if "tokens/s" in line]
    assert len(numbers) == 3 and all("(emulated)" in line for line in numbers)
    assert "EMULATED: times of qemu on this computer" in said


def test_a_link_that_is_cut_leaves_the_samples_so_far(
    session: Session, board: Board, model: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path, counter=Path(TMP) / "counter"), board, conditions=None)
    seen = 0

    def read_and_cut(text: str) -> list[Timing]:
        nonlocal seen
        seen += 1
        if seen == 4:  # the probe, the warm-up and two repetitions
            FaultFile(folder=home / SERIAL).set("cut-output", at=0)
        return read_timings(text)

    monkeypatch.setattr(llama, "read_timings", read_and_cut)
    with pytest.raises(LostConnection) as caught:
        measure_llama(session, bench_of(model, threads=(1,)))
    folder = Path(caught.value.details["record"])
    content = read_bench(folder)
    assert (content["state"], content["rounds"], content["valid"]) == ("lost", 2, None)
    assert [(sample.round, sample.test) for sample in read_series(folder)] == [
        (number, test) for number in (0, 1, 2) for test in ("prefill", "decode")
    ]
    assert verify_record(folder).is_unchanged
