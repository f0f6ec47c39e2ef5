"""The interfaces of servers: what is sent to each, and what its events mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bench.endpoint.answer import LENGTH, STOP, UNKNOWN, WORD, Answer, Ask, Piece
from bench.endpoint.stream import Event
from core.errors import EmptyAnswer, EndpointError, LimitIgnored, UnreadableAnswer


@dataclass(kw_only=True)
class Told:
    """What the events of one answer have told so far."""

    pieces: list[Piece] = field(default_factory=list)
    finish: str = ""
    generated: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    context_exceeded: bool = False
    timings: Mapping[str, float] = field(default_factory=dict)
    model: str = ""
    has_choice: bool = False

    def check_limit(self, limit: int) -> None:
        """Raises LimitIgnored. A piece has at least one token."""
        count = max(self.generated or 0, len(self.pieces))
        if count > limit:
            raise LimitIgnored(f"The server gave {count} tokens where {limit} were the limit.")

    def conclude(self, *, seconds: float, attempts: int) -> Answer:
        """Raises EmptyAnswer when there was not even the beginning of an answer."""
        if not self.has_choice:
            raise EmptyAnswer("The server ended its stream without a choice in it: there is no answer to grade.")
        return Answer(
            pieces=tuple(self.pieces),
            finish=self.finish or UNKNOWN,
            generated=len(self.pieces) if self.generated is None else self.generated,
            counted_by="pieces" if self.generated is None else "server",
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            context_exceeded=self.context_exceeded,
            seconds=seconds,
            timings=self.timings,
            model=self.model,
            attempts=attempts,
        )


class Interface(Protocol):
    """One way to ask for an answer."""

    path: str

    def body(self, ask: Ask, model: str) -> dict[str, Any]: ...

    def take(self, event: Event, at: float, told: Told) -> Piece | None:
        """Notes what an event says; returns the piece of an answer that came with it."""


class LlamaCompletion:
    """llama-server's own ``/completion``: token ids both ways, and its clock with every token."""

    path = "/completion"

    def body(self, ask: Ask, model: str) -> dict[str, Any]:
        return {
            "prompt": list(ask.prompt) if isinstance(ask.prompt, tuple) else ask.prompt,
            "n_predict": ask.max_tokens,
            "temperature": ask.temperature,
            "seed": ask.seed,
            "cache_prompt": ask.cache,
            "stream": True,
            "timings_per_token": True,
            "return_tokens": True,
            "return_progress": True,
            **({"stop": list(ask.stop)} if ask.stop else {}),
            **({"ignore_eos": True} if ask.ignore_end else {}),
        }

    def take(self, event: Event, at: float, told: Told) -> Piece | None:
        timings = _numbers(event, "timings")
        told.timings = timings or told.timings
        told.cached_tokens = _count(timings.get("cache_n"), told.cached_tokens)
        told.prompt_tokens = _count(event.get("tokens_evaluated"), told.prompt_tokens)
        if event.get("stop") is True:
            self._end(event, told)
        # How far it is with the prompt comes as an event with a token 0 in it, which is none of the answer.
        if "content" not in event or "prompt_progress" in event:
            return None
        told.has_choice = True
        text, tokens = _text(event, "content"), _ids(event, "tokens")
        if not text and (told.finish or not tokens):
            return None
        return Piece(text=text, at=at, tokens=tokens, server_ms=timings.get("predicted_ms"))

    def _end(self, event: Event, told: Told) -> None:
        kinds = {"eos": STOP, "limit": LENGTH, "word": WORD}
        said = _text(event, "stop_type")
        told.finish = kinds.get(said, said) or UNKNOWN
        told.generated = _count(event.get("tokens_predicted"), told.generated)
        told.context_exceeded = event.get("truncated") is True
        told.model = _text(event, "model")


class OpenAiCompletion:
    """``/v1/completions`` as OpenAI has it, and so many others after it."""

    path = "/v1/completions"

    def body(self, ask: Ask, model: str) -> dict[str, Any]:
        return {"prompt": list(ask.prompt) if isinstance(ask.prompt, tuple) else ask.prompt, **_common(ask, model)}

    def take(self, event: Event, at: float, told: Told) -> Piece | None:
        choice = _first_choice(event, told)
        return _piece(_text(choice, "text"), "", at, event)


class OpenAiChat:
    """``/v1/chat/completions``: the server puts the messages into the model's template."""

    path = "/v1/chat/completions"

    def body(self, ask: Ask, model: str) -> dict[str, Any]:
        return {"messages": [dict(message) for message in ask.messages], **_common(ask, model)}

    def take(self, event: Event, at: float, told: Told) -> Piece | None:
        delta = _mapping(_first_choice(event, told), "delta")
        thought = _text(delta, "reasoning_content") or _text(delta, "reasoning")
        return _piece(_text(delta, "content"), thought, at, event)


def check_error(event: Event) -> None:
    """Raises EndpointError for an event that tells of an error."""
    error = event.get("error")
    if error:
        said = error.get("message") if isinstance(error, dict) else error
        raise EndpointError(f"The server broke off its answer: {said}.")


def _common(ask: Ask, model: str) -> dict[str, Any]:
    return {
        "model": model,
        "max_tokens": ask.max_tokens,
        "temperature": ask.temperature,
        "seed": ask.seed,
        "stream": True,
        "stream_options": {"include_usage": True},
        **({"stop": list(ask.stop)} if ask.stop else {}),
    }


def _first_choice(event: Event, told: Told) -> Mapping[str, Any]:
    """The choice of an event, noted; an empty one where there is none, as with the last counts."""
    told.model = _text(event, "model") or told.model
    told.timings = _numbers(event, "timings") or told.timings
    usage = _mapping(event, "usage")
    told.generated = _count(usage.get("completion_tokens"), told.generated)
    told.prompt_tokens = _count(usage.get("prompt_tokens"), told.prompt_tokens)
    details = _mapping(usage, "prompt_tokens_details")
    told.cached_tokens = _count(details.get("cached_tokens"), told.cached_tokens)
    choices = event.get("choices")
    if not choices:
        return {}
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        raise UnreadableAnswer("The server streams choices that are no list of objects.")
    told.has_choice = True
    said = _text(choices[0], "finish_reason")
    # Who stopped at a stop string says "stop" as well, with the string beside it where it is a vLLM.
    told.finish = WORD if said == STOP and isinstance(choices[0].get("stop_reason"), str) else said or told.finish
    return choices[0]


def _piece(text: str, thought: str, at: float, event: Event) -> Piece | None:
    if not text and not thought:
        return None
    return Piece(text=text, thought=thought, at=at, server_ms=_numbers(event, "timings").get("predicted_ms"))


def _text(event: Mapping[str, Any], key: str) -> str:
    value = event.get(key)
    if value is not None and not isinstance(value, str):
        raise UnreadableAnswer(f"The server streams {key!r} that is no text but {type(value).__name__}.")
    return value or ""


def _mapping(event: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = event.get(key)
    return value if isinstance(value, dict) else {}


def _numbers(event: Mapping[str, Any], key: str) -> Mapping[str, float]:
    pairs = _mapping(event, key).items()
    return {name: value for name, value in pairs if isinstance(value, int | float) and not isinstance(value, bool)}


def _ids(event: Mapping[str, Any], key: str) -> tuple[int, ...]:
    value = event.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(token, int) for token in value):
        raise UnreadableAnswer(f"The server streams {key!r} that are no token ids.")
    return tuple(value)


def _count(value: object, otherwise: int | None) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else otherwise
