"""What of an answer is there within so many tokens or seconds, and what is thought of that.

At temperature 0 the answer under a limit of N tokens is the first N tokens of the unlimited one, so that one run gives
the accuracy under every limit. Prompts that name the limit need a run for each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from bench.eval.grading import Verdict, grade

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOKENS, SECONDS = "tokens", "seconds"


@dataclass(frozen=True, kw_only=True)
class TimedAnswer:
    """A whole answer, token by token."""

    id: str
    gold: Fraction
    pieces: Sequence[str]
    """The text of each token, in order."""
    truncated: bool
    """Whether a limit cut the whole answer itself."""
    seconds: Sequence[float] = ()
    """When each token was there, counted from the request; empty: not known."""
    prompt_tokens: int | None = None

    _verdicts: dict[int, Verdict] = field(default_factory=dict, repr=False, compare=False)

    def within_tokens(self, tokens: int) -> Verdict:
        """The verdict on the first `tokens` of it."""
        tokens = min(tokens, len(self.pieces))
        if tokens not in self._verdicts:
            cut = tokens < len(self.pieces)
            text = "".join(self.pieces[:tokens])
            self._verdicts[tokens] = grade(text, self.gold, cut or self.truncated)
        return self._verdicts[tokens]

    def tokens_within(self, seconds: float) -> int:
        """How many tokens are there after that time; none before the first, which comes with the end of the prefill."""
        return bisect_right(self.seconds, seconds)


@dataclass(frozen=True, kw_only=True)
class LatencyModel:
    """How long a board takes for tokens that it was not asked for: all in seconds."""

    prefill: float
    """Of a prompt without tokens."""
    prefill_per_token: float
    decode: float
    """Of a token behind an empty context."""
    decode_per_position: float
    """What each token before it adds."""
    source: str
    """Where the times come from, in words."""

    def seconds(self, prompt_tokens: int, tokens: int) -> list[float]:
        """When each of so many tokens is there. The first comes with the end of the prefill."""
        first = self.prefill + self.prefill_per_token * prompt_tokens
        steps = (self.decode + self.decode_per_position * (prompt_tokens + k) for k in range(1, tokens))
        return list(accumulate(steps, initial=first))[:tokens]

    def time(self, answer: TimedAnswer) -> TimedAnswer:
        """The same answer with this board's times. It must know how many tokens its prompt has."""
        assert answer.prompt_tokens is not None
        return TimedAnswer(
            id=answer.id,
            gold=answer.gold,
            pieces=answer.pieces,
            truncated=answer.truncated,
            seconds=self.seconds(answer.prompt_tokens, len(answer.pieces)),
            prompt_tokens=answer.prompt_tokens,
            _verdicts=answer._verdicts,
        )


def model_of_speeds(prefill_per_second: float, decode_per_second: float, source: str) -> LatencyModel:
    """Of tokens per second as `bench.llama` tells them: every token takes the same time."""
    return LatencyModel(
        prefill=0.0,
        prefill_per_token=1 / prefill_per_second,
        decode=1 / decode_per_second,
        decode_per_position=0.0,
        source=source,
    )


def fit_latency(answers: Iterable[TimedAnswer], source: str) -> LatencyModel:
    """The model that fits measured answers best, by least squares; what these cannot tell is 0.

    Of prompts that are all of one length, the whole prefill is put down to their tokens.
    """
    import numpy as np

    timed = [answer for answer in answers if answer.seconds and answer.prompt_tokens]
    if not timed:
        raise ValueError("no answer has times and a known prompt")
    prompts = np.array([float(answer.prompt_tokens or 0) for answer in timed])
    first = np.array([answer.seconds[0] for answer in timed])
    prefill, per_token = _line(prompts, first)
    positions = np.concatenate([prompts[i] + np.arange(1, len(answer.seconds)) for i, answer in enumerate(timed)])
    steps = np.concatenate([np.diff(answer.seconds) for answer in timed])
    decode, per_position = _line(positions, steps) if len(steps) > 1 else (float(steps.sum()), 0.0)
    return LatencyModel(
        prefill=prefill,
        prefill_per_token=per_token,
        decode=decode,
        decode_per_position=per_position,
        source=source,
    )


def _line(x: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
    """What ``y = base + slope * x`` fits best, none of both below 0."""
    import numpy as np
    from scipy import optimize

    if np.ptp(x) == 0:
        return 0.0, float(y.mean() / x[0])
    (base, slope), _ = optimize.nnls(np.column_stack([np.ones_like(x), x]), y)
    return float(base), float(slope)
