"""How cells are done: the requests that they make, and what they go on with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.eval.request import EvalRequest
from bench.request import BenchRequest
from bench.study.doers import do_bench, do_evaluate, do_quantize, find_record_of, identify_source
from bench.study.spec import BENCH, EVALUATE, QUANTIZE, Cell
from core.errors import InvalidData, RunError, UnlikeRecords
from core.session import Session
from native.models.quantize import QuantizeRequest
from tests.shared.bench_records import write_bench_record

SOURCE = {"model": "small/Q8_0", "source": "small.gguf", "type": "Q8_0", "sha256": "0" * 64}
MADE = {"path": "/made/small-Q8_0.gguf"}
ASKED = {"data": "example", "limit": 5, "seed": 7, "max_tokens": 64, "concurrency": 1, "prompt": "direct"}


def evaluation(**changes: Any) -> Cell:
    parameters = {**SOURCE, "on_host": True, **ASKED, "budgets": [16, 32], **changes}
    return Cell(kind=EVALUATE, parameters=parameters, after=("made",))


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[EvalRequest]:
    """What was asked of `evaluate`; records are read without their schema."""
    requests: list[EvalRequest] = []

    def evaluate(session: Session, request: EvalRequest) -> object:
        requests.append(request)
        return SimpleNamespace(record=request.resume or tmp_path / "new")

    monkeypatch.setattr("bench.eval.evaluate.evaluate", evaluate)
    monkeypatch.setattr("bench.eval.record.read_eval", read_plainly)
    return requests


def read_plainly(folder: Path) -> Mapping[str, Any]:
    try:
        content: Mapping[str, Any] = json.loads((folder / "record.json").read_text())
    except ValueError as error:
        raise InvalidData("half a record") from error
    return content


def leave(session: Session, name: str, text: str) -> Path:
    folder = session.settings.runs / name
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(text)
    return folder


def test_a_quantisation_is_made_anew_where_a_half_one_was_left(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[QuantizeRequest] = []

    def quantize_model(session: Session, request: QuantizeRequest) -> object:
        requests.append(request)
        assert list(Path(request.folder).iterdir()) == []
        made = SimpleNamespace(path=Path(request.folder) / "small-Q8_0.gguf", sha256="ab", size=3)
        return SimpleNamespace(quantised=(made,))

    monkeypatch.setattr("native.models.quantize.quantize_model", quantize_model)
    leave(session, "half", "{}")
    cell = Cell(kind=QUANTIZE, parameters={**SOURCE, "allow_requantize": True})
    result = do_quantize(session, cell, {})
    (request,) = requests
    assert (request.model, request.types, request.allow_requantize) == ("small.gguf", ("Q8_0",), True)
    assert result["path"] == str(session.settings.runs / "small-Q8_0.gguf")


def test_answers_are_asked_of_the_model_that_was_made(session: Session, evaluated: list[EvalRequest]) -> None:
    do_evaluate(session, evaluation(threads=3), {"made": MADE})
    (request,) = evaluated
    assert (request.model, request.on_host, request.board, request.resume) == (MADE["path"], True, "", None)
    assert request.threads == 3
    plan = request.plan
    assert (plan.data, plan.limit, plan.seed, plan.budgets, plan.max_tokens) == ("example", 5, 7, (16, 32), 64)


def test_a_server_has_the_settings_of_its_cell_and_is_asked_as_many_questions_at_once(
    session: Session, evaluated: list[EvalRequest]
) -> None:
    do_evaluate(session, evaluation(server={"slots": 3, "prompt-cache": True}), {"made": MADE})
    (request,) = evaluated
    assert (request.plan.settings.slots, request.plan.settings.prompt_cache, request.plan.concurrency) == (3, True, 3)


def test_a_server_is_asked_for_the_model_by_its_own_name(session: Session, evaluated: list[EvalRequest]) -> None:
    place = {"url": "http://127.0.0.1:8080", "served_as": "llama-8b", "on_host": False}
    cell = Cell(kind=EVALUATE, parameters={**SOURCE, **ASKED, **place, "prompt": "budget", "budget": 32})
    do_evaluate(session, cell, {})
    (request,) = evaluated
    assert (request.endpoint, request.model, request.plan.budgets) == ("http://127.0.0.1:8080", "llama-8b", (32,))


def test_a_killed_evaluation_is_gone_on_with_and_one_that_is_done_is_taken(
    session: Session, evaluated: list[EvalRequest]
) -> None:
    leave(session, "20260101T000000Z-eval-a", '{"state": "running"}')
    newest = leave(session, "20260102T000000Z-eval-a", '{"state": "running"}')
    leave(session, "20260103T000000Z-eval-a", '{"state": ')  # Killed before its first record was whole.
    assert do_evaluate(session, evaluation(), {"made": MADE})["record"] == str(newest)
    assert [request.resume for request in evaluated] == [newest]
    (newest / "record.json").write_text('{"state": "done"}')
    assert do_evaluate(session, evaluation(), {"made": MADE})["record"] == str(newest)
    assert len(evaluated) == 1
    # The kill came before the hashes, which are a record's very last step.
    assert (newest / "SHA256SUMS").is_file()


@pytest.mark.parametrize(
    ("error", "asked"), [(UnlikeRecords("another server"), 2), (RunError("the server has ended"), 1)]
)
def test_only_a_record_of_something_else_is_left_and_begun_anew(
    session: Session, monkeypatch: pytest.MonkeyPatch, evaluated: list[EvalRequest], error: Exception, asked: int
) -> None:
    leave(session, "20260101T000000Z-eval-a", '{"state": "failed"}')
    from bench.eval import evaluate as module

    answer: Callable[..., object] = module.evaluate

    def refuse(session: Session, request: EvalRequest) -> object:
        outcome = answer(session, request)
        if request.resume is not None:
            raise error
        return outcome

    monkeypatch.setattr(module, "evaluate", refuse)
    if asked == 1:
        with pytest.raises(RunError):
            do_evaluate(session, evaluation(), {"made": MADE})
    else:
        assert do_evaluate(session, evaluation(), {"made": MADE})["record"].endswith("new")
    assert len(evaluated) == asked


def test_a_bench_is_asked_for_with_all_that_the_study_says(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    requests: list[BenchRequest] = []

    def measure(session: Session, request: BenchRequest) -> object:
        requests.append(request)
        return SimpleNamespace(record=tmp_path)

    monkeypatch.setattr("bench.llama.measure_llama", measure)
    asked = {"prompt": 16, "threads": [1, 2], "settings": {"cache-k": ["f16", "q8_0"], "depth": [0, 512]}}
    cell = Cell(kind=BENCH, parameters={**SOURCE, "board": "dayu200", "bench": asked}, after=("made",))
    assert do_bench(session, cell, {"made": MADE}) == {"record": str(tmp_path)}
    (request,) = requests
    assert (request.models, request.board, request.threads) == ((MADE["path"],), "dayu200", (1, 2))
    assert (request.n_prompt, request.n_gen, request.at_most) == (16, 32, 7200)
    assert request.axes == {"cache-k": ("f16", "q8_0"), "depth": (0, 512)}


def test_a_bench_that_is_done_is_taken_as_it_is(session: Session) -> None:
    folder = write_bench_record(session.settings.runs)
    cell = Cell(kind=BENCH, parameters={**SOURCE, "board": "dayu200", "bench": {}})
    assert do_bench(session, cell, {}) == {"record": str(folder)}


def test_nothing_is_found_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert find_record_of(tmp_path / "none", read_plainly) is None


def test_a_source_is_known_by_its_content_or_by_what_is_pinned(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"abc")
    # FIPS 180-2, appendix B.1.
    assert identify_source(str(tmp_path / "a.gguf")) == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
    assert identify_source("smollm2") == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert identify_source("nobody-knows.gguf") == ""
