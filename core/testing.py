"""Fakes that stand in for the real parts in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.deadline import Deadline
from core.process import OnOutput, RealRunner, Result

Answer = Result | bytes | Exception | Callable[[tuple[str, ...]], Result | bytes]


@dataclass
class FakeRunner:
    """Answers commands from a table of (prefix of argv, answer) pairs and remembers what was called.

    An answer is a `Result`, the bytes of standard output (then the exit status is 0), an exception
    to raise, or a function of argv. The first pair whose words begin argv is used.
    """

    answers: list[tuple[Sequence[str], Answer]] = field(default_factory=list)
    calls: list[tuple[str, ...]] = field(default_factory=list)

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        deadline: Deadline,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        on_stdout: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        stdin: bytes | None = None,
    ) -> Result:
        words = tuple(str(word) for word in argv)
        self.calls.append(words)
        for prefix, answer in self.answers:
            if words[: len(prefix)] != tuple(prefix):
                continue
            if callable(answer):
                answer = answer(words)
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, bytes):
                answer = Result(argv=words, exit_code=0, stdout=answer, stderr=b"", seconds=0.0)
            if on_stdout is not None and answer.stdout:
                on_stdout(answer.stdout)
            if on_stderr is not None and answer.stderr:
                on_stderr(answer.stderr)
            return answer
        raise AssertionError(f"no answer for {words}")


class RecordingRunner(RealRunner):
    """Runs programs for real and remembers what was called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str | Path], **options: Any) -> Result:
        self.calls.append(tuple(map(str, argv)))
        return super().run(argv, **options)

    def count(self, word: str) -> int:
        """How many of the calls had `word` among their words."""
        return sum(word in call for call in self.calls)
