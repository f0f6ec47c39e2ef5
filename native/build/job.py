"""One build as every build system takes it, and what its failure says."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from core.errors import BuildError, NotEnoughSpace
from core.files import write_atomic

if TYPE_CHECKING:
    from core.process import Result
    from native.recipe.recipe import ProductSpec
    from toolchains.host_toolchain import HostToolchain

FIRST_ERROR = re.compile(
    r"(?:\bfatal )?\berror: |\bERROR: |^CMake Error|^ninja: error|\bundefined (?:symbol|reference)\b|^Killed\b|^\w*make(?:\[\d+\])?: \*\*\* "
)
NINJA_STEP = re.compile(r"^\[\d+/\d+\] |^ninja: build stopped")
ERROR_LINES = 8
STAGING = "ohforge-staging"
STAMP = "configured"


@dataclass(frozen=True, kw_only=True)
class BuildJob:
    """One build, with every path and flag filled in."""

    title: str
    system: str = "cmake"
    source: Path
    leave_out: tuple[Path, ...] = ()
    """Folders of `source` that do not belong to it."""
    tree: Path
    """Where the build system works; may be thrown away at any time."""
    toolchain: HostToolchain
    build_type: str
    options: Mapping[str, str]
    compile_flags: Sequence[str]
    link_flags: Sequence[str]
    products: Sequence[ProductSpec]
    """All of the recipe; none when they are what the build leaves."""
    wanted: Sequence[ProductSpec]
    """What is to be built; none for everything that the project builds by itself."""
    jobs: int
    launcher: str
    """Program before the compiler; empty when there is none."""
    environment: Mapping[str, str]
    log_path: Path

    @property
    def staging(self) -> Path:
        """Where the project's own install step puts things, as if it were the root of a board's disk."""
        return self.tree / STAGING


class BuildLog:
    """The file that keeps everything that the build's programs print."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._file.flush()


def read_stamp(job: BuildJob) -> str:
    """What `job`'s tree was begun with; empty when it was not."""
    try:
        return (job.tree / STAMP).read_text()
    except FileNotFoundError:
        return ""


def write_stamp(job: BuildJob, stamp: str) -> None:
    """Notes what the tree was begun with: with anything else it is not gone on with."""
    write_atomic(job.tree / STAMP, stamp)


def explain_failure(result: Result, step: str, job: BuildJob) -> BuildError | NotEnoughSpace:
    text = f"{result.error_text}\n{result.text}" if step == "Configuring" else f"{result.text}\n{result.error_text}"
    if "No space left on device" in text:
        return NotEnoughSpace(f"The disk ran full while building {job.title} in {job.tree}.", log=str(job.log_path))
    message = (
        f"{step} {job.title} failed (status {result.exit_code}):\n{first_errors(text)}\nThe whole log: {job.log_path}"
    )
    if re.search(r"\bKilled\b|terminated by signal 9|unable to execute command: Killed", text):
        return BuildError(
            message, remedy="The compiler ran out of memory: try again with --jobs 1.", log=str(job.log_path)
        )
    return BuildError(message, log=str(job.log_path))


def first_errors(text: str) -> str:
    """The first error in a compiler's or CMake's output with the lines that follow it; else the last lines."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not NINJA_STEP.match(line)]
    for number, line in enumerate(lines):
        if FIRST_ERROR.search(line):
            return "\n".join(f"    {found}" for found in lines[number : number + ERROR_LINES])
    return "\n".join(f"    {line}" for line in lines[-ERROR_LINES:])


def default_jobs() -> int:
    """As many compile jobs as this process may use cores."""
    return len(os.sched_getaffinity(0))
