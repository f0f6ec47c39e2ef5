"""One build as every build system takes it, and what its failure says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from core.errors import BuildError, NotEnoughSpace
from core.files import remove_tree, write_atomic
from native.artifact.elf import is_for
from native.source.tree import copy_sources

if TYPE_CHECKING:
    from core.process import Result
    from core.session import Session
    from native.recipe.recipe import ProductSpec
    from toolchains.host_toolchain import HostToolchain

FIRST_ERROR = re.compile(
    r"(?:\bfatal )?\berror(?:\[E\d+\])?: |\bERROR: |^CMake Error|^ninja: error|\bundefined (?:symbol|reference)\b|^Killed\b|^\w*make(?:\[\d+\])?: \*\*\* "
)
WARNING = re.compile(r"\bwarning: ", re.IGNORECASE)
NINJA_STEP = re.compile(r"^\[\d+/\d+\] |^ninja: build stopped")
ERROR_LINES = 8
STAGING = "ohforge-staging"
INSTALLED_TO = "/usr/local"
"""What a project's install step is told, below the staging folder; it stands in the files that the step writes."""
NO_INSTALL_STEP, INSTALL_FAILED = "there is none", "it failed; the log says why"
"""Why an install step was not done."""
STAMP, CONFIGURED = "begun", "configured"
COPY = "source"
"""Folder of the tree: the copy of a user's folder, which its own build may write into."""


@dataclass(frozen=True, kw_only=True)
class BuildJob:
    """One build, with every path and flag filled in."""

    title: str
    system: str = "cmake"
    source: Path
    """What is built: the source as it was fetched, or a copy of it."""
    origin: Path | None = None
    """The user's own folder, which `source` is a copy of as soon as a build has begun; None: `source` stays where it is."""
    leave_out: tuple[Path, ...] = ()
    """Folders of the source that do not belong to it."""
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
    emulator: str = ""
    """Program in which the build may run what it has made for the board; empty when there is none."""
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


def begin_tree(session: Session, job: BuildJob, stamp: str, *, anew: bool = False) -> bool:
    """False when the tree was begun with the same `stamp`; else makes it anew, with its copy of the user's folder.

    What was made with other inputs is never gone on with: build systems do not see that an object is of those.
    """
    if read_stamp(job) == stamp and not anew:
        return False
    remove_tree(job.tree)
    if job.origin is not None:
        session.console.detail(f"copying {job.origin} to {job.source}")
        remove_tree(job.source)
        copy_sources(job.origin, job.source, job.leave_out)
    write_stamp(job, stamp)
    return True


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
    parts = (result.error_text, result.text) if step == "Configuring" else (result.text, result.error_text)
    text = "\n".join(parts)
    if "No space left on device" in text:
        return NotEnoughSpace(f"The disk ran full while building {job.title} in {job.tree}.", log=str(job.log_path))
    message = (
        f"{step} {job.title} failed (status {result.exit_code}):\n{first_errors(text, result.error_text)}\n"
        f"The whole log: {job.log_path}"
    )
    if re.search(r"\bKilled\b|terminated by signal 9|unable to execute command: Killed", text):
        return BuildError(
            message, remedy="The compiler ran out of memory: try again with --jobs 1.", log=str(job.log_path)
        )
    if program := _own_program_run(text, job):
        return BuildError(
            f"{message}\nThe build has tried to run {program}, which it has made for the board, not for this machine.",
            remedy=_remedy_for_own_program(job),
            log=str(job.log_path),
        )
    if warnings := dict.fromkeys(AS_ERROR.findall(text)):
        return BuildError(
            f"{message}\nThe project makes errors of warnings (-Werror), of which this compiler knows others than the "
            "one that it was written for.",
            remedy=_remedy_for_warnings(job, list(warnings), text),
            log=str(job.log_path),
        )
    return BuildError(message, log=str(job.log_path))


AS_ERROR = re.compile(r"\[-Werror,-W([\w+=-]+)\]")
IN_CXX = re.compile(r"\.(?:cc|cpp|cxx|c\+\+|hh|hpp):\d+:\d+: error: .*\[-Werror,")


def _remedy_for_warnings(job: BuildJob, warnings: Sequence[str], text: str) -> str:
    """What switches it off whatever else the project's own flags say: for a named warning, clang heeds no order."""
    flags = " ".join(f"-Wno-error={name}" for name in warnings[:8])
    option = {
        "cmake": f"CMAKE_{'CXX' if IN_CXX.search(text) else 'C'}_FLAGS={flags}",
        "meson": "werror=false",
        "make": f"{'CXXFLAGS' if IN_CXX.search(text) else 'CFLAGS'}=-O2 {flags}",
    }.get(job.system, "")
    more = " (which takes the place of the Makefile's own flags)" if job.system == "make" else ""
    return f"If they are none to you, let them be warnings: --option '{option}'{more}."


CANNOT_RUN = re.compile(
    r"(?P<name>[^\s:'\"`]+)['\"`]?: (?:\d+: )?(?:not found|[Cc]annot execute|Exec format error|Permission denied|Syntax error|ELF)"
    r"|Exec format error: '?(?P<of_python>[^\s']+)"
)
"""What shells, make and Python say of a program for another machine. A shell may take it for a script at first."""


def _own_program_run(text: str, job: BuildJob) -> str:
    """The name of a program for the board that the build has tried to run; empty when that is not what failed."""
    names = [found["name"] or found["of_python"] for found in CANNOT_RUN.finditer(text)]
    for name in dict.fromkeys(Path(name).name for name in names):
        for path in job.tree.rglob(name):
            if path.is_file() and is_for(path, job.toolchain.arch):
                return name
    return ""


def _remedy_for_own_program(job: BuildJob) -> str:
    if job.system == "make":
        return (
            "make cannot run it in an emulator by itself. Either let it compile such helpers for this machine (many "
            "Makefiles have a variable for that: --option HOSTCC=cc, CC_FOR_BUILD=cc or BUILD_CC=cc), or register qemu "
            "with the kernel: `sudo apt-get install qemu-user-static binfmt-support`."
        )
    return (
        f"Install {job.toolchain.arch.qemu}, in which ohforge lets such programs run: "
        "`sudo apt-get install qemu-user-static`; then build again."
    )


def first_errors(text: str, error_text: str = "") -> str:
    """The first error in the output `text` with the lines that follow it; else the last lines, of standard error if any.

    A warning is no reason: some scripts say theirs where they say all else.
    """
    lines = _lines_of(text)
    for number, line in enumerate(lines):
        if FIRST_ERROR.search(line):
            return "\n".join(f"    {found}" for found in lines[number : number + ERROR_LINES])
    last = [line for line in _lines_of(error_text) if not WARNING.search(line)] or [
        line for line in lines if not WARNING.search(line)
    ]
    return "\n".join(f"    {line}" for line in last[-ERROR_LINES:])


def _lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip() and not NINJA_STEP.match(line)]
