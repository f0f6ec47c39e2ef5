"""What a server is asked for, and what it answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

STOP, LENGTH, WORD, UNKNOWN = "stop", "length", "word", "unknown"
"""Why an answer ended: by the model, by the limit, by a stop word; or the server did not say."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request for an answer. Either `prompt`, as text or token ids, or `messages`."""

    max_tokens: int
    prompt: str | tuple[int, ...] = ""
    messages: tuple[Mapping[str, str], ...] = ()
    temperature: float = 0.0
    seed: int = 1
    stop: tuple[str, ...] = ()
    cache: bool = False
    """Take of the prompt what a llama-server still has of earlier ones, which may change the answer."""
    ignore_end: bool = False
    """Go on to the limit whatever the model says; only a llama-server does so."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What came with one event of a stream."""

    text: str
    at: float
    """Seconds since the request was sent, on this computer's monotonic clock."""
    tokens: tuple[int, ...] = ()
    """Ids, where the server gives them."""
    server_ms: float | None = None
    """Milliseconds from the first token to this one, on the server's clock; None where it does not say."""
    thought: str = ""
    """What servers keep apart from the answer as reasoning."""


OnPiece = Callable[[Piece], None]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A whole answer."""

    pieces: tuple[Piece, ...]
    finish: str
    """`STOP`, `LENGTH`, `WORD`, `UNKNOWN`, or the server's own word for another reason."""
    generated: int
    """Tokens: as the server counted them, else pieces."""
    counted_by: str
    """``server`` or ``pieces``."""
    prompt_tokens: int | None
    cached_tokens: int | None
    """Tokens of the prompt that the server took from its cache."""
    context_exceeded: bool
    """The server had no room for more: another limit than the one that was asked for."""
    seconds: float
    """From the request to the end of the stream."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """The server's last word on its times, by its own names; see docs/eval.md."""
    model: str = ""
    """What the server calls the model."""
    attempts: int = 1

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(token for piece in self.pieces for token in piece.tokens)

    @property
    def is_cut(self) -> bool:
        """A limit ended it, so that its last words are none that the model meant as such."""
        return self.finish == LENGTH or self.context_exceeded

    @property
    def has_token_in_each_piece(self) -> bool:
        """Whether the n-th piece is the n-th token, as a budget in tokens wants it.

        Servers count the token by which the model ends its answer, and most of them send no piece for it.
        """
        return self.generated - len(self.pieces) in ((0, 1) if self.finish == STOP else (0,))
