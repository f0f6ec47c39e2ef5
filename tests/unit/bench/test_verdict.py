"""The verdict before a run: what it says, what it refuses, and that nothing was built or sent by then."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.fit_board import most_demanding
from bench.plan import Repetitions
from bench.request import BenchRequest
from bench.verdict import foresee, read_settings, tell_verdict
from core.errors import NotEnoughMemory
from core.session import Session
from deploy.board.profiles import load_profile
from deploy.launch import launch
from deploy.launch.launch import Launch, run_model
from deploy.launch.request import LaunchRequest
from native.models import models
from native.models.llama_memory import LlamaSettings
from native.models.models import find_model
from tests.shared.shape_gguf import write_shapes
from tests.support.local_board import LocalBoard
from tests.support.run_requests import make_request
from tests.unit.native.models.test_llama_memory import Q2_K, llama_8b

GB = 1_000_000_000
SIX = Repetitions(least=6, most=6, within=None)


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalBoard:
    """A board on which `_perform` would build and send; the tuning has dot products, for which weights are copied."""
    board = LocalBoard(tmp_path / "board")
    board.profile = dataclasses.replace(load_profile("dayu200"), device_dir=board.profile.device_dir)
    build = SimpleNamespace(plan=SimpleNamespace(toolchain=SimpleNamespace(name="zig", cpu="cortex-a55")))
    monkeypatch.setattr(launch, "choose_board", lambda *_: board)
    monkeypatch.setattr(launch, "choose_build", lambda *_: build)
    monkeypatch.setattr(launch, "_perform", lambda *_: "run")
    monkeypatch.setattr(models, "sha256_file", lambda _: "0" * 64)  # Of gigabytes that are a hole.
    return board


def with_memory(board: LocalBoard, total: float, available: float) -> None:
    """Sizes in GB, as the board's /proc/meminfo has them."""
    board.replies = {
        r"MemTotal: +\d+ kB": f"MemTotal: {int(total * GB / 1024)} kB",
        r"MemAvailable: +\d+ kB": f"MemAvailable: {int(available * GB / 1024)} kB",
    }


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The shape of a Llama 3.1 8B in Q2_K: 3.17 GB of weights, of which a token reads 3.00 GB."""
    return write_shapes(tmp_path / "8b.gguf", *llama_8b(Q2_K))


def run(session: Session, model: Path, *words: str) -> tuple[Any, dict[str, Any]]:
    told: dict[str, Any] = {}
    request = LaunchRequest(model=str(model), arguments=words)
    return run_model(session, request, lambda found: told.update(tell_verdict(session, found))), told


def test_a_model_that_fits_is_said_to_in_one_line(
    session: Session, board: LocalBoard, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_memory(board, 8, 7)
    outcome, told = run(session, model, "--no-repack")
    assert (outcome, told["verdict"], told["bound_by"]) == ("run", "fits", "memory")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("fits")]
    # 3.00 GB at the 6200 MB/s of the profile
    assert "at least 0.484 s for a token, by 6200 MB/s of the board's profile" in line


def test_a_storage_bound_model_runs_and_what_a_token_takes_is_said(
    session: Session, board: LocalBoard, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_memory(board, 4, 2.5)
    outcome, told = run(session, model, "--no-repack")
    assert (outcome, told["verdict"]) == ("run", "storage-bound")
    # The study measured 18.2 s; 3.00 GB at 161.6 MB/s.
    assert told["seconds_per_token"] == pytest.approx(18.56, abs=0.01)
    assert "storage again; at least 18.6 s for a token" in capsys.readouterr().err


def test_a_model_whose_copies_do_not_fit_is_refused_with_the_words_that_help(
    session: Session, board: LocalBoard, model: Path
) -> None:
    with_memory(board, 2, 0.5)
    with pytest.raises(NotEnoughMemory, match=r"does not fit: .* must stay in memory") as caught:
        run(session, model, "-c", "2048")
    # 483 MiB: of its tensors those in Q4_K and Q6_K are copied, those in Q2_K and Q3_K are not
    assert "copies of weights 506" in caught.value.message
    assert "does not fit" in caught.value.message
    assert "require_memory" in caught.value.remedy
    assert "send" not in board.calls


def test_a_model_that_is_larger_than_the_whole_memory_is_refused_unless_it_is_asked_for(
    session: Session, board: LocalBoard, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_memory(board, 2, 1.5)
    with pytest.raises(NotEnoughMemory, match=r"storage-bound: .* 2\.0 GB of memory in all") as caught:
        run(session, model, "--no-repack")
    assert caught.value.details["memory_bytes"] == int(2 * GB / 1024) * 1024
    outcome, _ = run(session.with_settings(require_memory=False), model, "--no-repack")
    assert outcome == "run"
    assert "storage-bound" in capsys.readouterr().err


def test_a_bench_refuses_what_does_not_fit_and_its_record_keeps_what_was_foreseen(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path
) -> None:
    with_memory(board, 2, 0.3)
    request = BenchRequest(
        models=(str(model),),
        n_prompt=512,
        n_gen=32,
        repetitions=SIX,
        seed=1,
        at_most=60.0,
    )
    made = Launch(board=board, run=make_request(tmp_path / "llama-bench"), build=launch.choose_build())
    models = [find_model(session, str(model))]
    with pytest.raises(NotEnoughMemory, match="does not fit") as caught:
        foresee(session, made, models, request)
    assert "--anyway" in caught.value.remedy
    assert "--no-repack" not in caught.value.remedy
    foreseen = foresee(session.with_settings(require_memory=False), made, models, request)
    assert foreseen is not None
    assert (foreseen["available"], foreseen["rates"]["storage"]) == (int(0.3 * GB / 1024) * 1024, 161.6e6)
    (said,) = foreseen["models"]
    assert (said["model"], said["verdict"], said["seconds_per_token"]) == ("8b", "does not fit", None)
    # MiB as llama.cpp logs them for these shapes; 512 tokens of a prompt, so that many in the context.
    logged = {"weights": 3024.38, "repack": 482.98, "kv": 64, "compute": 266.5, "output": 0.49}
    assert {part: said["bytes"][part] / (1 << 20) for part in logged} == pytest.approx(logged, abs=0.1, rel=0)


def test_the_most_demanding_of_a_benchs_combinations_is_judged() -> None:
    axes = {"depth": (0, 2048), "ubatch": (64, 1024), "cache-k": ("q8_0",), "cache-v": ("q8_0", "q4_0")}
    request = BenchRequest(models=("m.gguf",), n_prompt=512, n_gen=32, repetitions=SIX, seed=1, at_most=60.0, axes=axes)
    expected = LlamaSettings(context=2560, ubatch=1024, kv_type="q8_0", rearranged="dotprod")
    assert most_demanding(request, "dotprod") == expected
    as_they_are = dataclasses.replace(request, axes={"repack": ("off",)}, completions=3)
    assert most_demanding(as_they_are, "dotprod") == LlamaSettings(context=544)


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ((), LlamaSettings(rearranged="dotprod")),
        (("-c", "512", "-c", "4096"), LlamaSettings(context=4096, rearranged="dotprod")),
        (("--ubatch-size", "64", "--no-repack"), LlamaSettings(ubatch=64)),
        (("-ctk", "q8_0", "-c", "many"), LlamaSettings(kv_type="q8_0", rearranged="dotprod")),
    ],
)
def test_the_command_line_of_llama_cpp_is_understood(words: tuple[str, ...], settings: LlamaSettings) -> None:
    assert read_settings(words, "dotprod") == settings
