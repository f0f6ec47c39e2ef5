"""What a program on a board prints: into the files of its record and onto the screen, as it comes."""

from __future__ import annotations

import dataclasses
import json
from types import TracebackType
from typing import IO

from core.console import Console
from deploy.agent.frames import Sample
from deploy.board.script import KeptEnd
from deploy.run.record import LOG, SAMPLES, STDERR_LOG, STDOUT_LOG, RunRecord


class RunOutput:
    """The output of one run. Takes it merged (`take`) or as two streams (`take_stdout`, `take_stderr`).

    The record's ``output.log`` has all of it in the order of arrival; files of the single streams exist only when
    they came apart. The end of each is kept, for the patterns that read it.
    """

    def __init__(self, record: RunRecord, console: Console) -> None:
        self._record = record
        self._console = console
        self._files: dict[str, IO[bytes]] = {}
        self._merged, self._stdout, self._stderr = KeptEnd(), KeptEnd(), KeptEnd()
        self.apart = False
        self.samples = 0

    def __enter__(self) -> RunOutput:
        self._open(LOG)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()

    def keep_apart(self) -> None:
        """Says that the streams come apart, so that both files are there even when nothing is printed."""
        self.apart = True
        self._open(STDOUT_LOG)
        self._open(STDERR_LOG)

    def take(self, chunk: bytes) -> None:
        self._write(LOG, chunk)
        self._merged.add(chunk)
        self._console.passthrough(chunk)

    def take_stdout(self, chunk: bytes) -> None:
        self._write(STDOUT_LOG, chunk)
        self._stdout.add(chunk)
        self.take(chunk)

    def take_stderr(self, chunk: bytes) -> None:
        self._write(STDERR_LOG, chunk)
        self._stderr.add(chunk)
        self.take(chunk)

    def take_sample(self, sample: Sample) -> None:
        self.samples += 1
        self._write(SAMPLES, json.dumps(dataclasses.asdict(sample)).encode() + b"\n")

    @property
    def content(self) -> bytes:
        """The end of all output, in the order of arrival."""
        return self._merged.content

    @property
    def text(self) -> str:
        """What patterns are looked for in: one stream after the other when they came apart, so that no line is torn."""
        if not self.apart:
            return _decoded(self._merged)
        out, err = _decoded(self._stdout), _decoded(self._stderr)
        return f"{out}\n{err}" if err and out and not out.endswith("\n") else out + err

    def _open(self, name: str) -> IO[bytes]:
        if name not in self._files:
            self._files[name] = (self._record.folder / name).open("wb")
        return self._files[name]

    def _write(self, name: str, chunk: bytes) -> None:
        file = self._open(name)
        file.write(chunk)
        file.flush()


def _decoded(kept: KeptEnd) -> str:
    return kept.content.decode("utf-8", "replace")
