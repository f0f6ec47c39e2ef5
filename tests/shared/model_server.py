"""A server on 127.0.0.1 that answers as llama-server and OpenAI-compatible servers do, with faults by name."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant\n"
)
MARKERS = ("<|im_start|>", "<|im_end|>", "<s>")
BOS = MARKERS.index("<s>")
FIRST_LETTER = 10
"""Ids below are markers; a letter's id is its code point after this one."""
FAULTS = (
    "drop",  # close the connection without any answer
    "status",  # code=N, retry_after=TEXT, said=TEXT: answer with that status
    "cut",  # after=N: reset the connection when N pieces were sent
    "end_early",  # after=N: end the stream politely when N pieces were sent
    "ignore_limit",  # give the whole answer whatever was asked for
    "no_choices",  # events without a choice in them
    "text",  # value=BYTES: a line that is no event of ours, after=N pieces
    "silent",  # after=N: pings and nothing else, until the client closes
    "mute",  # after=N: nothing at all, until the client closes
    "one_json",  # one object instead of a stream
    "html",  # a web page
    "endless",  # a line that never ends
    "error_event",  # said=TEXT: an error in the middle of the stream, after=N pieces
    "swap",  # after=N: other words from the N-th piece on when the limit is `at_limit`
)


@dataclass(kw_only=True)
class Fault:
    name: str
    times: int
    skip: int
    values: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(kw_only=True)
class ModelServer:
    """``with ModelServer(answer=lambda prompt: ["four", " eggs"]) as server: …``; `answer` gives pieces, a token each."""

    answer: Callable[[str], Iterable[str]]
    template: str = CHATML
    markers: tuple[str, ...] = MARKERS
    adds_bos: bool = False
    is_llama: bool = True
    counts_end: bool = False
    """Whether the token by which an answer ends is counted, as most servers with OpenAI's interface do."""
    models: tuple[str, ...] = ("stub",)
    cached: int = 0
    """Tokens of each prompt that a llama-server says it took from its cache."""
    merged: int = 1
    """How many tokens come with one event, which only OpenAI's interface allows."""
    seen: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    most_at_once: int = 0
    _at_once: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> ModelServer:
        outer = self

        class Handler(_Handler):
            server_of_test = outer

        self._httpd = _QuietServer(("127.0.0.1", 0), Handler)
        self._closing, self._breaking = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._httpd.shutdown()
        self._httpd.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._httpd.server_address[1]}"

    def fault(self, name: str, *, times: int = 1, skip: int = 0, **values: Any) -> None:
        """Switches a fault on for `times` requests for an answer (-1: for good) after `skip` good ones."""
        assert name in FAULTS, name
        self.faults.append(Fault(name=name, times=times, skip=skip, values=values))

    def take_fault(self) -> Fault | None:
        with self._lock:
            for fault in self.faults:
                if fault.skip:
                    fault.skip -= 1
                elif fault.times:
                    fault.times -= 1
                    return fault
        return None

    def asked(self) -> list[Request]:
        """The requests for answers."""
        return [request for request in self.seen if "completion" in request.path]

    def tokenize(self, text: str) -> list[int]:
        known = "|".join(map(re.escape, self.markers))
        parts = re.findall(f"{known}|.", text, re.DOTALL)
        return [
            self.markers.index(part) if part in self.markers else FIRST_LETTER + ord(part) for part in parts if part
        ]

    def read_ids(self, ids: list[int]) -> str:
        return "".join(self.markers[id] if id < FIRST_LETTER else chr(id - FIRST_LETTER) for id in ids)

    def enter(self) -> None:
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)

    def leave(self) -> None:
        with self._lock:
            self._at_once -= 1

    def wait_for_end(self) -> bool:
        return self._closing.wait(0.05) or self._breaking.is_set()

    def break_off(self) -> None:
        """Ends the answers that never end."""
        self._breaking.set()


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_of_test: ModelServer

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        server = self.server_of_test
        self._note({})
        if self.path == "/health":
            self._send_json(200, {"status": "ok"})
        elif self.path == "/v1/models":
            self._send_json(200, {"data": [{"id": name} for name in server.models]})
        elif self.path == "/props" and server.is_llama:
            self._send_json(
                200,
                {"chat_template": server.template, "bos_token": "<s>", "total_slots": 1, "build_info": "stub"},
            )
        else:
            self._send_json(404, {"error": {"code": 404, "message": "File Not Found"}})

    def do_POST(self) -> None:
        server = self.server_of_test
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        self._note(body)
        if self.path == "/tokenize":
            bos = [server.markers.index("<s>")] if server.adds_bos and body["add_special"] else []
            self._send_json(200, {"tokens": bos + server.tokenize(body["content"])})
        elif self.path == "/apply-template":
            self._send_json(200, {"prompt": self._prompt_of(body["messages"])})
        elif "completion" in self.path:
            server.enter()
            try:
                self._answer(body)
            finally:
                server.leave()
        else:
            self._send_json(404, {"error": {"code": 404, "message": "File Not Found"}})

    def _note(self, body: dict[str, Any]) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server_of_test.seen.append(Request(path=self.path, headers=headers, body=body))

    def _prompt_of(self, messages: list[dict[str, str]]) -> str:
        from jinja2 import Environment

        return (
            Environment(autoescape=False, keep_trailing_newline=True)
            .from_string(self.server_of_test.template)
            .render(messages=messages)
        )

    def _answer(self, body: dict[str, Any]) -> None:
        fault = self.server_of_test.take_fault()
        if fault is not None and self._answers_wrongly(fault):
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = self._llama_events(body, fault) if self.path == "/completion" else self._openai_events(body, fault)
        pieces = 0
        for event in events:
            is_progress = isinstance(event, dict) and "prompt_progress" in event
            if (
                fault is not None
                and fault.values.get("after") == pieces
                and not is_progress
                and self._breaks_off(fault)
            ):
                return
            self._send_event(event)
            pieces += not is_progress
        self.wfile.write(b"0\r\n\r\n")

    def _answers_wrongly(self, fault: Fault) -> bool:
        """Does what is no stream."""
        if fault.name == "drop":
            self._reset()
        elif fault.name == "status":
            more = {"Retry-After": fault.values["retry_after"]} if "retry_after" in fault.values else {}
            said = fault.values.get("said", "")
            self._send_json(fault.values["code"], {"error": {"message": said}}, more)
        elif fault.name == "one_json":
            self._send_json(200, {"content": "18", "stop": True})
        elif fault.name == "html":
            self._send(200, b"<html><title>Sign in</title></html>", {"Content-Type": "text/html"})
        else:
            return False
        return True

    def _breaks_off(self, fault: Fault) -> bool:
        """Does what ends a stream too early; whether it is over."""
        if fault.name == "cut":
            self._reset()
        elif fault.name == "end_early":
            self.wfile.write(b"0\r\n\r\n")
        elif fault.name == "text":
            self._send_raw(fault.values["value"])
            return False
        elif fault.name == "error_event":
            self._send_event({"error": {"message": fault.values["said"]}})
            self.wfile.write(b"0\r\n\r\n")
        elif fault.name == "endless":
            while True:
                self._send_raw(b"data: " + b"x" * 65536)
        elif fault.name in ("silent", "mute"):
            while not self.server_of_test.wait_for_end():
                if fault.name == "silent":
                    self._send_raw(b": ping\n\n")
            self._reset()
        else:
            return False
        return True

    def _llama_events(self, body: dict[str, Any], fault: Fault | None) -> Iterator[dict[str, Any]]:
        prompt = body["prompt"]
        text = self.server_of_test.read_ids(prompt) if isinstance(prompt, list) else prompt
        pieces, finished = self._pieces(text, body["n_predict"], fault)
        timings: dict[str, Any] = {
            "cache_n": self.server_of_test.cached,
            "prompt_n": len(prompt),
            "prompt_ms": 2.0 * len(prompt),
        }
        if body.get("return_progress"):
            far = {"total": len(prompt), "cache": 0, "processed": len(prompt), "time_ms": 2}
            yield {"content": "", "tokens": [0], "stop": False, "tokens_predicted": 0, "prompt_progress": far}
        for number, piece in enumerate(pieces, 1):
            timings |= {"predicted_n": number, "predicted_ms": 10.0 * (number - 1) + 0.001}
            yield {
                "content": piece,
                "tokens": [1000 + number],
                "stop": False,
                "tokens_predicted": number,
                "tokens_evaluated": len(prompt),
                "timings": dict(timings),
            }
        yield {
            "content": "",
            "tokens": [],
            "stop": True,
            "stop_type": "eos" if finished else "limit",
            "model": "stub",
            "tokens_predicted": len(pieces),
            "tokens_evaluated": len(prompt),
            "truncated": False,
            "timings": timings,
        }

    def _openai_events(self, body: dict[str, Any], fault: Fault | None) -> Iterator[dict[str, Any] | bytes]:
        is_chat = "messages" in body
        prompt = self._prompt_of(body["messages"]) if is_chat else body["prompt"]
        pieces, finished = self._pieces(prompt, body["max_tokens"], fault)
        if fault is not None and fault.name == "no_choices":
            yield {"choices": [], "usage": {"prompt_tokens": len(prompt), "completion_tokens": 0}}
            yield b"data: [DONE]\n\n"
            return
        if is_chat:
            yield {"model": "stub", "choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]}
        merged, ends = self.server_of_test.merged, self.server_of_test.counts_end and finished
        for place in range(0, len(pieces), merged):
            text = "".join(pieces[place : place + merged])
            inner: dict[str, Any] = {"delta": {"content": text}} if is_chat else {"text": text}
            yield {"model": "stub", "choices": [{"index": 0, "finish_reason": None, **inner}]}
        yield {"choices": [{"index": 0, "finish_reason": "stop" if finished else "length", "delta": {}, "text": ""}]}
        if body.get("stream_options", {}).get("include_usage"):
            yield {"choices": [], "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(pieces) + ends}}
        yield b"data: [DONE]\n\n"

    def _pieces(self, prompt: str, limit: int, fault: Fault | None) -> tuple[list[str], bool]:
        pieces = list(self.server_of_test.answer(prompt))
        if fault is not None and fault.name == "ignore_limit":
            return pieces, True
        if fault is not None and fault.name == "swap" and limit == fault.values["at_limit"]:
            pieces[fault.values["after"] :] = ["?"] * len(pieces[fault.values["after"] :])
        return pieces[:limit], len(pieces) <= limit

    def _send_event(self, event: dict[str, Any] | bytes) -> None:
        self._send_raw(event if isinstance(event, bytes) else f"data: {json.dumps(event)}\n\n".encode())

    def _send_raw(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))

    def _send_json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _reset(self) -> None:
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True
