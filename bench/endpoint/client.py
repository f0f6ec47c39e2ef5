"""The client of a language model's server: asks, reads the stream, tries again where that can do no harm."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from bench.endpoint.answer import Answer, Ask, OnPiece
from bench.endpoint.failures import Repeatable, checked_status, explained
from bench.endpoint.interfaces import Interface, LlamaCompletion, Told, check_error
from bench.endpoint.stream import END, read_events
from core.addresses import quoted
from core.deadline import Deadline
from core.errors import (
    AnswerCut,
    EndpointError,
    EndpointRefused,
    EndpointSilent,
    EndpointUnreached,
    NoStream,
    Offline,
    UnreadableAnswer,
    UsageError,
)
from core.patience import Patience
from core.session import Session

if TYPE_CHECKING:
    import httpx

KEY_VARIABLE = "OHFORGE_ENDPOINT_KEY"
SILENCE_SECONDS = 600.0
"""A board that reads its model from storage takes minutes for the first token of a long prompt."""
CONNECT_SECONDS = 15.0
PATIENCE = Patience(pause=0.5, growth=2, times=6)
LONGEST_ASKED_PAUSE = 120.0
"""A ``Retry-After`` above this is reported, not waited for."""
LARGEST_ANSWER = 16 * 1024 * 1024
"""Bytes of an answer that is no stream."""
Result = TypeVar("Result")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Endpoint:
    """A server, reached at `url`. Threads may share one; the caller closes it.

    `silence` is how many seconds it may go without a sign of work: a piece of the answer, or progress with the prompt.
    The key is that of the variable ``OHFORGE_ENDPOINT_KEY``; it stands in no message and in nothing that is returned.
    Raises UsageError for an address that is none, or holds a password; Offline when only loopback may be reached.
    """

    def __init__(
        self,
        session: Session,
        url: str,
        *,
        interface: Interface | None = None,
        model: str = "",
        silence: float = SILENCE_SECONDS,
        patience: Patience = PATIENCE,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        import httpx

        self.url = check_address(url)
        host = urlsplit(self.url).hostname or ""
        if session.settings.offline and host not in LOOPBACK:
            raise Offline(f"{self.url} would have to be reached, but ohforge.offline forbids all network traffic.")
        self.interface = interface or LlamaCompletion()
        self.model = model
        self._session, self._silence, self._patience, self._sleep = session, silence, patience, sleep
        self._key = read_key()
        if self._key and self.url.startswith("http:") and host not in LOOPBACK:
            session.console.warn(f"the key of {KEY_VARIABLE} goes to {self.url} unencrypted")
        self._http = httpx.Client(
            headers={"Accept-Encoding": "identity", **({"Authorization": f"Bearer {self._key}"} if self._key else {})},
            timeout=httpx.Timeout(silence, connect=CONNECT_SECONDS),
            verify=_certificates(session, self.url),
            trust_env=host not in LOOPBACK,  # a forwarded port is behind no proxy
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def answer(self, ask: Ask, on_piece: OnPiece | None = None) -> Answer:
        """Asks, and gives the whole answer; `on_piece` hears of each piece as it comes.

        It asks again while the server is not there or not ready, or wants a pause, never after the first byte of an
        answer. Raises EndpointUnreached, EndpointRefused, RateLimited, EndpointSilent, AnswerCut, NoStream,
        UnreadableAnswer, EmptyAnswer, LimitIgnored, or EndpointError for what the server says itself.
        """
        return self._persist(lambda attempts: self._answer_once(ask, on_piece, attempts))

    def ask_json(self, method: str, path: str, body: object = None) -> Any:
        """The JSON that a short request is answered with. Raises as `answer` does, and UnreadableAnswer."""
        return self._persist(lambda attempts: self._ask_json_once(method, path, body))

    def wait_until_ready(self, deadline: Deadline, pause: float = 0.2) -> None:
        """Returns when ``/health`` says ok. Raises EndpointUnreached, with what was said last, at the deadline."""
        said = "nothing"
        while True:
            try:
                self._ask_json_once("GET", "/health", None)
                return
            except Repeatable as failure:
                said = str(failure)
            if deadline.expired:
                raise EndpointUnreached(f"{self.url} was not ready after {deadline.seconds:g} s: {said}.")
            self._sleep(min(pause, deadline.remaining))

    def properties(self) -> Mapping[str, Any] | None:
        """What a llama-server tells of itself (``/props``); None for a server of another kind."""
        try:
            told = self.ask_json("GET", "/props")
        except (EndpointRefused, UnreadableAnswer):
            return None
        return told if isinstance(told, dict) and "chat_template" in told else None

    def apply_template(self, messages: tuple[Mapping[str, str], ...]) -> str:
        """The prompt that a llama-server makes of messages by its model's chat template."""
        told = self.ask_json("POST", "/apply-template", {"messages": [dict(message) for message in messages]})
        prompt = told.get("prompt") if isinstance(told, dict) else None
        if not isinstance(prompt, str):
            raise UnreadableAnswer(f"{self.url}/apply-template answers without a prompt.")
        return prompt

    def tokenize(self, text: str, *, special: bool) -> tuple[int, ...]:
        """Token ids of a text by a llama-server, markers in it read as such; `special` adds what begins a prompt."""
        body = {"content": text, "add_special": special, "parse_special": True}
        told = self.ask_json("POST", "/tokenize", body)
        tokens = told.get("tokens") if isinstance(told, dict) else None
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise UnreadableAnswer(f"{self.url}/tokenize answers without token ids.")
        return tuple(tokens)

    def models(self) -> list[str]:
        """The models that an OpenAI-compatible server names."""
        told = self.ask_json("GET", "/v1/models")
        entries = told.get("data") if isinstance(told, dict) else None
        return [str(entry["id"]) for entry in entries or () if isinstance(entry, dict) and "id" in entry]

    def _persist(self, attempt: Callable[[int], Result]) -> Result:
        failures = 0
        while True:
            try:
                return attempt(failures + 1)
            except Repeatable as failure:
                failures += 1
                pause = self._patience.pause_after(failures)
                if pause is None or (failure.wait or 0) > LONGEST_ASKED_PAUSE:
                    raise failure.error(self.url, failures) from failure
                pause = max(pause, failure.wait or 0)
                self._session.console.detail(f"    {self.url}: {failure}: trying again in {pause:g} s")
                self._sleep(pause)

    def _answer_once(self, ask: Ask, on_piece: OnPiece | None, attempts: int) -> Answer:
        told = Told()
        body = self.interface.body(ask, self.model)
        sent = time.monotonic()
        with self._stream("POST", self.interface.path, body) as response:
            _check_kind(response)
            self._read_answer(response, ask, told, sent, on_piece)
        return told.conclude(seconds=time.monotonic() - sent, attempts=attempts)

    def _read_answer(
        self, response: httpx.Response, ask: Ask, told: Told, sent: float, on_piece: OnPiece | None
    ) -> None:
        worked_at, ended = time.monotonic(), False
        with self._while_reading(told):
            for at, event in read_events(response.iter_raw()):
                if event is None:
                    if at - worked_at > self._silence:
                        raise self._silent(told)
                    continue
                if event is END:
                    ended = True
                    break
                worked_at = at
                check_error(event)
                piece = self.interface.take(event, at - sent, told)
                if piece is not None:
                    told.pieces.append(piece)
                told.check_limit(ask.max_tokens)
                if piece is not None and on_piece is not None:
                    on_piece(piece)
        if not ended and not told.finish:
            raise AnswerCut(f"The server ended its stream in the middle of an answer, after {len(told.pieces)} pieces.")

    @contextlib.contextmanager
    def _while_reading(self, told: Told) -> Iterator[None]:
        """What httpx raises once an answer has begun: from here on nothing is tried again."""
        import httpx

        try:
            yield
        except httpx.ReadTimeout:
            raise self._silent(told) from None
        except httpx.TransportError as error:
            raise AnswerCut(
                f"The connection was cut in the middle of an answer, after {len(told.pieces)} pieces: {explained(error)}."
            ) from None
        except EndpointError as error:
            raise self._without_key(error) from None

    def _silent(self, told: Told) -> EndpointSilent:
        return EndpointSilent(
            f"{self.url} gave no sign of work for {self._silence:g} s, after {len(told.pieces)} pieces of an answer."
        )

    def _ask_json_once(self, method: str, path: str, body: object) -> Any:
        content = bytearray()
        with self._stream(method, path, body) as response, self._while_reading(Told()):
            for chunk in response.iter_raw():
                content += chunk
                if len(content) > LARGEST_ANSWER:
                    raise UnreadableAnswer(f"{self.url}{path} answers with far more than it was asked for.")
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise UnreadableAnswer(f"{self.url}{path} answers with something that is no JSON.") from None

    @contextlib.contextmanager
    def _stream(self, method: str, path: str, body: object) -> Iterator[httpx.Response]:
        """A response whose status is good. Raises Repeatable before one has begun."""
        import httpx

        try:
            request = self._http.build_request(method, self.url + path, json=body)
            response = self._http.send(request, stream=True)
        except httpx.TimeoutException as error:
            if isinstance(error, httpx.ReadTimeout):
                raise self._silent(Told()) from None
            raise Repeatable(f"no connection in {CONNECT_SECONDS:g} s") from None
        except httpx.TransportError as error:
            raise Repeatable(explained(error)) from None
        try:
            try:
                checked_status(response, f"{self.url}{path}")
            except EndpointError as error:
                raise self._without_key(error) from None
            yield response
        finally:
            response.close()

    def _without_key(self, error: EndpointError) -> EndpointError:
        """A server may repeat what it was sent."""
        if not self._key or self._key not in error.message:
            return error
        return type(error)(error.message.replace(self._key, "…"), remedy=error.remedy)


def check_address(url: str) -> str:
    """`url` without what every interface adds by itself. Raises UsageError."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it is looked at only when it is asked for
    except ValueError:
        raise UsageError(
            f"{quoted(url)} is no address of a server.", remedy="Write it like http://HOST:PORT."
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{quoted(url)} is no address of a server.", remedy="Write it like http://HOST:PORT.")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"{url} has a name, a password or a query in it, which would be kept in records.",
            remedy=f"Write http://HOST:PORT, and put a key into the variable {KEY_VARIABLE}.",
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1').rstrip('/')}"


def read_key() -> str:
    """The key of the environment; empty when there is none. Raises UsageError for one that no header can hold."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key.isascii() or not key.isprintable():
        raise UsageError(f"The variable {KEY_VARIABLE} holds characters that no key has.", remedy="Set it anew.")
    return key


def _certificates(session: Session, url: str) -> Any:
    """What httpx takes as ``verify``: it reads a file of certificates for every client unless it is told not to."""
    import ssl

    if url.startswith("http:"):
        return False
    return ssl.create_default_context(cafile=session.settings.ca_bundle) if session.settings.ca_bundle else True


def _check_kind(response: httpx.Response) -> None:
    kind = response.headers.get("Content-Type", "")
    if kind.partition(";")[0].strip().lower() != "text/event-stream":
        raise NoStream(f"{response.url} answers with {kind or 'content of no kind'}, not with a stream of events.")
