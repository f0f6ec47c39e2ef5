"""How one server is asked: by token ids where it takes them, else by messages; and what its chat template is.

A llama-server gets the ids of the prompt that it makes itself of the model's chat template, so that what was sent is
known to the token. Where a GGUF file has no template, llama-server quietly takes ChatML: markers that the vocabulary
does not have give that away.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bench.endpoint.answer import Ask
from bench.endpoint.client import Endpoint
from core.files import sha256_text

MARKER = re.compile(r"<\|[^<>|\s]{1,40}\|>|<｜[^<>｜]{1,40}｜>|</?(?:start|end)_of_\w{1,20}>")
"""What chat templates put around messages, in the ways of the known families."""
SENTINEL = "ohforge asks"


@dataclass(frozen=True, kw_only=True)
class ChatTemplate:
    """A model's chat template as far as its server tells, and what is wrong with it."""

    applied_by: str
    """``ohforge`` or ``server``."""
    text: str | None = None
    markers: Mapping[str, int] = field(default_factory=dict)
    """Marker → of how many tokens it is; 1 is right."""
    bos: int | None = None
    """Token that begins a text; None: the vocabulary wants none."""
    bos_count: int = 0
    bos_by: str = "nobody"
    faults: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        known = self.applied_by == "ohforge"
        return {
            "applied_by": self.applied_by,
            "text": self.text,
            "sha256": None if self.text is None else sha256_text(self.text),
            "markers": dict(self.markers),
            "bos": {"id": self.bos, "count": self.bos_count, "by": self.bos_by} if known else None,
            "faults": list(self.faults),
        }


class Asker(Protocol):
    """Turns a message to the model into what one kind of server takes."""

    template: ChatTemplate

    def ask(self, message: str, limit: int) -> tuple[Ask, str]:
        """The request, and the prompt as far as it is known here."""


class TokenAsker:
    """For a llama-server."""

    def __init__(self, endpoint: Endpoint, *, has_template: bool | None = None, cache: bool = False) -> None:
        """`has_template`: whether the model's file has one; None: it is not known here. `cache`: its prompt cache is wanted."""
        self._endpoint = endpoint
        self._cache = cache
        properties = endpoint.properties() or {}
        text = str(properties.get("chat_template") or "")
        self._special = endpoint.tokenize("", special=True)
        prompt = endpoint.apply_template(_messages(SENTINEL))
        tokens = endpoint.tokenize(prompt, special=True)
        markers = {
            marker: len(endpoint.tokenize(marker, special=False)) for marker in dict.fromkeys(MARKER.findall(prompt))
        }
        bos = self._special[0] if self._special else None
        count = _leading(tokens, bos)
        self._drop = max(0, count - 1)
        sent = tokens[self._drop :]
        self.template = ChatTemplate(
            applied_by="ohforge",
            text=text or None,
            markers=markers,
            bos=bos,
            bos_count=_leading(sent, bos),
            bos_by="template" if self._drop else "tokenizer" if bos is not None else "nobody",
            faults=tuple(_faults(text, prompt, markers, has_template)),
        )

    def ask(self, message: str, limit: int) -> tuple[Ask, str]:
        prompt = self._endpoint.apply_template(_messages(message))
        tokens = self._endpoint.tokenize(prompt, special=True)[self._drop :]
        return Ask(prompt=tokens, max_tokens=limit, cache=self._cache), prompt


class MessageAsker:
    """For a server with OpenAI's interface, which applies the template and does not tell it."""

    template = ChatTemplate(applied_by="server")

    def ask(self, message: str, limit: int) -> tuple[Ask, str]:
        return Ask(messages=_messages(message), max_tokens=limit), message


def _messages(text: str) -> tuple[Mapping[str, str], ...]:
    return ({"role": "user", "content": text},)


def _leading(tokens: tuple[int, ...], bos: int | None) -> int:
    """How many tokens `bos` a prompt begins with."""
    count = 0
    while bos is not None and count < len(tokens) and tokens[count] == bos:
        count += 1
    return count


def _faults(text: str, prompt: str, markers: Mapping[str, int], has_template: bool | None) -> list[str]:
    faults = []
    if has_template is False:
        faults.append("the model's file has no chat template; its server makes one up")
    elif not text:
        faults.append("the server names no chat template")
    if SENTINEL not in prompt:
        faults.append("the chat template leaves the question out")
    split = [f"{marker} ({count} tokens)" for marker, count in markers.items() if count != 1]
    if split:
        faults.append(f"the vocabulary does not have the template's markers: {', '.join(split)}")
    return faults
