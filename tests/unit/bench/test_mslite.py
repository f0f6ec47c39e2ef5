"""A whole bench of a ``.ms`` model on a board that is a folder, with a script in place of mslite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.mslite import check_loops, measure_mslite, read_axes
from bench.record import list_benches, read_bench
from bench.series import read_series
from core.errors import RunError, UsageError
from core.session import Session
from tests.shared.ms_models import add_softmax
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.bench_board import bench_of, use_bench, write_mslite
from tests.support.local_board import LocalBoard


@pytest.fixture
def board(tmp_path: Path) -> LocalBoard:
    return LocalBoard(tmp_path / "board")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.ms"
    path.write_bytes(add_softmax().to_bytes())
    return path


def test_a_sample_is_the_median_of_the_loops_of_one_run_and_every_loop_is_kept(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A loop takes 12 ms for each thread less than three, and half a ms more from loop to loop.
    use_bench(monkeypatch, write_mslite(tmp_path, "$((12000 / t + 500 * i))"), board)
    outcome = measure_mslite(
        session, bench_of(model, n_prompt=0, n_gen=0, loops=5, warm_up=2, axes=read_axes(device="cpu"))
    )
    content = read_bench(outcome.record)
    assert {row["threads"]: (row["test"], row["median"], row["n"], row["unit"]) for row in content["results"]} == {
        1: ("predict", 13.5, 6, "ms"),
        2: ("predict", 7.5, 6, "ms"),
    }
    assert (content["instrument"], content["computed_by"], content["valid"]) == ("mslite", "Engine of a test", True)
    samples = read_series(outcome.record)
    assert len(samples) == 2 * 7 and list(samples[0].loops_ms or ()) in (
        [12.5, 13, 13.5, 14, 14.5],
        [6.5, 7, 7.5, 8, 8.5],
    )
    assert {sample.device for sample in samples} == {"cpu"}
    assert outcome.as_json()["devices"]["tiny, 2 threads, device cpu"] == {"asked": "cpu", "used": ["cpu"]}
    command = json.loads((outcome.record / "runs" / samples[0].run / "record.json").read_text())["command"]
    words = " ".join(command["words"])
    assert f"--device cpu --threads {samples[0].threads} " in words and "--warmup 2 --loops 5 " in words
    assert command["environment"] == {"GLOG_v": "1"}
    (listed,) = list_benches(session.settings.runs)
    assert (listed["best"], listed["units"]) == ({"predict": 7.5}, {"predict": "ms"})


def test_a_device_that_silently_gave_way_to_the_cpu_makes_the_result_not_valid(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The words of the reference runtime, as native/programs/mslite/evidence.yaml has them.
    program = write_mslite(tmp_path, "5000", end="echo 'ohforge-reference: mslite requested=nnrt device=cpu'")
    use_bench(monkeypatch, program, board)
    request = bench_of(model, threads=(1,), n_prompt=0, n_gen=0, loops=3, axes=read_axes(device="nnrt"))
    content = measure_mslite(session, request).content
    assert content["valid"] is False
    assert [flag["sentence"] for flag in content["flags"]] == ["nnrt was asked for; cpu computed"]
    assert content["devices"] == {"tiny, 1 thread, device nnrt": {"asked": "nnrt", "used": ["cpu"]}}


def test_a_run_without_times_gives_no_number(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_mslite(tmp_path, "0"), board)
    with pytest.raises(RunError, match="printed no times"):
        measure_mslite(session, bench_of(model, n_prompt=0, n_gen=0, loops=3))


def test_a_model_of_another_kind_is_refused_and_the_task_for_it_is_named(
    session: Session, board: LocalBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_mslite(tmp_path, "0"), board)
    model = write_tiny_gguf(tmp_path / "tiny.gguf")
    with pytest.raises(UsageError, match=r"bench\.mslite measures \.ms models") as caught:
        measure_mslite(session, bench_of(model, loops=3))
    assert "bench.llama" in caught.value.remedy
    assert board.calls == []


@pytest.mark.parametrize("text", ["", "gpu", "cpu,", "nnrt:", "cpu nnrt"])
def test_devices_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no device"):
        read_axes(device=text)


@pytest.mark.parametrize(("loops", "warm_up"), [(0, 0), (-1, 2), (3, -1), (100_001, 0)])
def test_counts_with_which_nothing_is_timed_are_refused(loops: int, warm_up: int) -> None:
    with pytest.raises(UsageError, match="cannot be run"):
        check_loops(loops, warm_up)
