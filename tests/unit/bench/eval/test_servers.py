"""bench.eval.servers: a server that ohforge starts, on this computer and on a board, with a stub in place of llama-server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.eval.evaluate import evaluate
from bench.eval.record import find_eval, read_eval
from bench.eval.request import EvalPlan, EvalRequest
from core.errors import BoardOffline, TemplateUnfit, UsageError
from core.session import Session
from deploy.launch import serve, serve_host
from deploy.launch.model_server import ServeOptions
from deploy.launch.process_use import ProcessUse
from deploy.launch.server_settings import ServerSettings
from tests.shared.model_server import ModelServer
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.asked_models import known_answer, write_questions
from tests.support.command_line import said_by


@dataclass
class Running:
    """What `serve_on_host` and `serve_on_board` yield, as far as it is used."""

    url: str
    ends_with: Exception | None = None
    emulated: bool = True

    def check(self) -> None:
        if self.ends_with is not None:
            raise self.ends_with

    def use(self) -> ProcessUse:
        return ProcessUse(resident_bytes=10, peak_bytes=20, minor_faults=3, major_faults=0, read_bytes=0)

    def stop(self) -> None: ...


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModelServer, Running, list[tuple[str, ServeOptions]]]]:
    """The stub, as what is started wherever a model is to be served; and what it was started with."""
    calls: list[tuple[str, ServeOptions]] = []
    with ModelServer(answer=known_answer) as server:
        running = Running(server.url)

        @contextlib.contextmanager
        def on_host(session: Session, model: Any, options: ServeOptions, folder: Path) -> Iterator[Running]:
            calls.append((model.name, options))
            yield running

        @contextlib.contextmanager
        def on_board(
            session: Session, board: Any, model: Any, options: ServeOptions, *, run: Any = None
        ) -> Iterator[Running]:
            calls.append((f"{model.name} on {board.serial}", options))
            yield running

        monkeypatch.setattr(serve_host, "serve_on_host", on_host)
        monkeypatch.setattr(serve, "serve_on_board", on_board)
        monkeypatch.setattr(serve, "ready_server", lambda session, board, options: None)
        yield server, running, calls


Started = tuple[ModelServer, Running, list[tuple[str, ServeOptions]]]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf", chat_template="{{ messages }}")


def request_of(model: Path, tmp_path: Path, **more: Any) -> EvalRequest:
    plan = {"data": str(write_questions(tmp_path / "forty.jsonl")), "limit": 3, **more.pop("plan", {})}
    return EvalRequest(model=str(model), plan=EvalPlan(**plan), **more)


def test_a_model_on_this_computer_answers_and_is_judged(
    session: Session, started: Started, model: Path, tmp_path: Path
) -> None:
    outcome = evaluate(session, request_of(model, tmp_path, on_host=True, threads=2, plan={"max_tokens": 100}))
    [(name, options)] = started[2]
    assert (name, options.threads, options.slots) == ("tiny", 2, 1)
    assert options.context >= 100 + 300  # the longest question of GSM8K has 848 characters
    content = read_eval(outcome.record)
    assert (content["model"]["name"], content["model"]["size"]) == ("tiny", model.stat().st_size)
    assert (content["server"]["answers_from"], content["server"]["board"]) == ("host", None)
    assert "none of a board" in content["server"]["label"]
    assert outcome.as_json()["emulated"] is None


def test_settings_of_the_server_are_asked_for_kept_and_named_wherever_its_numbers_are(
    session: Session, started: Started, model: Path, tmp_path: Path
) -> None:
    draft = write_tiny_gguf(tmp_path / "draft.gguf")
    settings = ServerSettings(cache_k="q8_0", prompt_cache=True, cache_reuse=16, draft=str(draft))
    server, _, calls = started
    server.cached = 9
    outcome = evaluate(session, request_of(model, tmp_path, on_host=True, plan={"settings": settings}))
    [(_, options)] = calls
    assert (options.settings, options.slots, options.draft.name if options.draft else "") == (settings, 1, "draft")
    assert {request.body["cache_prompt"] for request in server.asked()} == {True}
    content = read_eval(outcome.record)
    assert content["plan"]["settings"] == {
        "cache-k": "q8_0",
        "prompt-cache": True,
        "cache-reuse": 16,
        "draft": str(draft),
    }
    assert content["server"]["label"].endswith(
        f"; llama-server with cache-k q8_0, prompt-cache on, cache-reuse 16, draft {draft}"
    )
    assert content["used"]["peak_bytes"] == 20
    # A cache that nobody asked for makes a result not valid; this one was asked for.
    assert content["valid"] is True
    assert any(note.startswith("In 3 answers a part of the prompt came from the cache") for note in content["notes"])


def test_several_slots_are_asked_at_once_and_no_more_than_there_are(
    session: Session, started: Started, model: Path, tmp_path: Path
) -> None:
    two = {"settings": ServerSettings(slots=2, context=300), "max_tokens": 100}
    evaluate(session, request_of(model, tmp_path, on_host=True, plan={**two, "concurrency": 2}))
    assert (started[2][0][1].slots, started[2][0][1].context) == (2, 300)
    with pytest.raises(UsageError, match="answers several questions at once"):
        evaluate(session, request_of(model, tmp_path, on_host=True, plan={**two, "concurrency": 3}))


def test_settings_that_cannot_be_are_refused_before_anything_is_started(model: Path, tmp_path: Path) -> None:
    settings = ServerSettings(cache_k="q8_0")
    with pytest.raises(UsageError, match="runs already: cache-k q8_0 cannot be asked of it"):
        EvalRequest(endpoint="http://127.0.0.1:9", plan=EvalPlan(settings=settings))
    with pytest.raises(UsageError, match="no room for an answer of 100"):
        EvalPlan(settings=ServerSettings(context=100), max_tokens=100)


def test_a_model_on_an_emulated_board_says_so(session: Session, started: Started, model: Path, tmp_path: Path) -> None:
    outcome = evaluate(session, request_of(model, tmp_path, board="dayu200"))
    assert started[2][0][0] == "tiny on emulated-dayu200"
    content = read_eval(outcome.record)
    assert (content["server"]["answers_from"], content["server"]["emulated"]) == ("board", True)
    assert "emulated: its times are none of a real one" in content["server"]["label"]
    assert outcome.as_json()["emulated"] is True


def test_what_has_ended_the_server_is_told_and_the_rest_is_asked_on_the_same_board(
    session: Session, started: Started, model: Path, tmp_path: Path
) -> None:
    server, running, calls = started
    server.fault("cut", after=0, skip=1)
    running.ends_with = BoardOffline("The board has gone.")
    with pytest.raises(BoardOffline, match="has gone"):
        evaluate(session, request_of(model, tmp_path, board="dayu200"))
    assert read_eval(find_eval(session, "latest"))["answers"]["count"] == 1
    running.ends_with = None
    outcome = evaluate(session, EvalRequest(resume=find_eval(session, "latest")))
    assert [name for name, _ in calls] == ["tiny on emulated-dayu200"] * 2
    assert outcome.content["results"][-1]["n"] == 3


def test_a_model_file_without_a_chat_template_is_refused(session: Session, started: Started, tmp_path: Path) -> None:
    plain = write_tiny_gguf(tmp_path / "plain.gguf")
    with pytest.raises(TemplateUnfit, match="the model's file has no chat template"):
        evaluate(session, request_of(plain, tmp_path, on_host=True))


def test_who_answers_is_said_once() -> None:
    status, _, text = said_by(["eval.gsm8k", "m.gguf", "--on-host", "--endpoint", "http://127.0.0.1:9"])
    assert status == 64
    assert "each say who answers" in text


def test_an_openai_server_with_several_models_wants_one_named(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer(answer=known_answer, is_llama=False, models=("a", "b")) as server:
        request = EvalRequest(
            endpoint=server.url, plan=EvalPlan(data=str(write_questions(tmp_path / "forty.jsonl")), limit=1)
        )
        with pytest.raises(UsageError, match="not one model but: a, b"):
            evaluate(session, request)
