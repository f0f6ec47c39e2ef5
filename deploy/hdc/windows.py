"""A Windows hdc that is called from WSL: paths, ends of lines and code pages between the two systems."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.deadline import Deadline
from core.errors import HostToolMissing
from core.files import remove_tree
from core.process import OnOutput, Result
from core.session import Session
from deploy.hdc.paths import is_harmless

KERNEL = Path("/proc/version")
ANSWER_SECONDS = 30.0
UNC = "\\\\"
"""How the paths begin by which Windows sees the files of Linux."""
CMD = "C:\\Windows\\System32\\cmd.exe"
PREFIX = "ohforge-wsl-"
ABANDONED_SECONDS = 86_400.0
PASSED = ("OHOS_HDC_SERVER_PORT",)
"""Variables that a Windows program gets of ours; WSL passes none by itself."""


def is_wsl(kernel: Path = KERNEL) -> bool:
    """Whether this is the Windows Subsystem for Linux: its kernel says so, and so does its door to Windows' programs."""
    try:
        return bool(os.environ.get("WSL_INTEROP")) or "microsoft" in kernel.read_text().lower()
    except OSError:
        return False


def find_bridge(session: Session, program: str) -> WindowsBridge | None:
    """What a Windows hdc needs between it and this system; None for an hdc of this system's own."""
    return WindowsBridge(session=session) if program.lower().endswith(".exe") and is_wsl() else None


@dataclass(frozen=True, kw_only=True)
class WindowsBridge:
    """Runs an hdc of Windows: translates what goes to it and what comes from it (a `core.process.Runner` for hdc)."""

    session: Session

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
        """Runs an hdc command whose paths are this system's. Raises HostToolMissing, and as the session's own runner."""
        ends = LineEnds(on_stdout) if on_stdout is not None else None
        with self._words(argv) as words:
            try:
                result = self.session.runner.run(
                    words,
                    deadline=deadline,
                    cwd=cwd,
                    env=_passed(env or {}),
                    on_stdout=ends.feed if ends else None,
                    on_stderr=on_stderr,
                    stdin=stdin,
                )
            finally:
                if ends is not None:
                    ends.finish()
        out, errors = without_carriage_returns(result.stdout), without_carriage_returns(result.stderr)
        # What a board's program prints is no text of Windows.
        stdout = out if "shell" in words else self._as_utf8(out)
        return replace(result, stdout=stdout, stderr=self._as_utf8(errors))

    @contextlib.contextmanager
    def _words(self, argv: Sequence[str | Path]) -> Iterator[list[str]]:
        """The words of a command with the path of this computer as Windows has it."""
        words = [str(word) for word in argv]
        with contextlib.ExitStack() as stack:
            if words[-4:-2] == ["file", "send"]:
                words[-2] = self._to_windows(stack.enter_context(self._source(Path(words[-2]))))
            elif words[-4:-2] == ["file", "recv"]:
                words[-1] = self._to_windows(stack.enter_context(self._target(Path(words[-1]))))
            yield words

    @contextlib.contextmanager
    def _source(self, local: Path) -> Iterator[Path]:
        """A path of the content of `local` that a Windows program can read: itself, or a copy on a Windows disk."""
        if self._is_seen(local):
            yield local
            return
        with self._folder() as spare:
            yield Path(shutil.copyfile(local, spare / "file"))

    @contextlib.contextmanager
    def _target(self, local: Path) -> Iterator[Path]:
        """A path that a Windows program can write to; what arrives there, if only a part, ends up as `local`."""
        if self._is_seen(local):
            yield local
            return
        with self._folder() as spare:
            yield spare / "file"
            if (spare / "file").exists():
                shutil.move(spare / "file", local.resolve())  # It may be a link to where that belongs.

    def _to_windows(self, path: Path) -> str:
        """A path as Windows has it. The file need not be there, its folder must."""
        folder = self._ask_wslpath("-w", str(path.parent))
        return f"{folder.rstrip(chr(92))}\\{path.name}"

    def _is_seen(self, local: Path) -> bool:
        """Whether Windows can read it: a file on a disk of its own, not Linux's own, which it gets by the network only."""
        return not local.is_symlink() and not self._to_windows(local).startswith(UNC)

    @contextlib.contextmanager
    def _folder(self) -> Iterator[Path]:
        top = self.temporary
        for old in top.glob(f"{PREFIX}*"):  # Of calls that were killed.
            with contextlib.suppress(OSError):
                if time.time() - old.stat().st_mtime > ABANDONED_SECONDS:
                    remove_tree(old)
        spare = Path(tempfile.mkdtemp(prefix=PREFIX, dir=top))
        try:
            yield spare
        finally:
            remove_tree(spare)

    @functools.cached_property
    def temporary(self) -> Path:
        """A folder on a Windows disk whose path every hdc takes: the user's own for such files, else the public one."""
        for line in self._cmd("chcp 65001 >nul & echo %TEMP%& echo %PUBLIC%").decode("utf-8", "replace").splitlines():
            folder = Path(self._ask_wslpath("-u", line.strip()))
            if is_harmless(folder) and folder.is_dir() and os.access(folder, os.W_OK):
                return folder
        raise HostToolMissing(
            "Windows names no temporary folder that can be written to from WSL.",
            remedy="Set TEMP in Windows to a folder whose path has no letters beyond ASCII.",
        )

    @functools.cached_property
    def code_page(self) -> str:
        """Python's name of the code page in which Windows' programs print."""
        found = re.search(rb"(\d{3,5})\D*$", self._cmd("chcp"))
        name = f"cp{int(found[1])}" if found else "utf-8"
        try:
            "".encode(name)
        except LookupError:
            return "utf-8"
        return name

    def _ask_wslpath(self, *words: str) -> str:
        return self._run(["wslpath", *words]).text.rstrip("\r\n")

    def _cmd(self, line: str) -> bytes:
        """What a line of Windows' own shell prints."""
        program = shutil.which("cmd.exe") or self._ask_wslpath("-u", CMD)
        # Of a folder of Linux as the current one it would warn.
        return self._run([program, "/d", "/c", line], cwd=Path(program).parent).stdout

    def _run(self, words: Sequence[str], cwd: Path | None = None) -> Result:
        deadline = Deadline.after(ANSWER_SECONDS, f"an answer of {words[0]}")
        result = self.session.runner.run(words, deadline=deadline, cwd=cwd)
        if not result.ok:
            raise HostToolMissing(
                f"{words[0]} of WSL failed: {result.last_lines(2)}",
                remedy="See whether Windows' programs can be started here (`cmd.exe /c ver`), or use an hdc for Linux.",
            )
        return result

    def _as_utf8(self, text: bytes) -> bytes:
        try:
            text.decode()
        except UnicodeDecodeError:
            return text.decode(self.code_page, "replace").encode()
        return text


def _passed(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of an hdc command with the list of those that WSL passes on."""
    names = [name for name in PASSED if name in environment or name in os.environ]
    before = [name for name in os.environ.get("WSLENV", "").split(":") if name]
    return {**environment, **({"WSLENV": ":".join([*before, *names])} if names else {})}


class LineEnds:
    """Takes away again what Windows puts before the end of each line of a text, byte by byte.

    A program's output is text for Windows, or it is not: the first end of a line tells.
    """

    def __init__(self, hand_on: OnOutput) -> None:
        self._hand_on = hand_on
        self._is_text: bool | None = None
        self._held = b""

    def feed(self, chunk: bytes) -> None:
        data = self._held + chunk
        if self._is_text is None and b"\n" in data:
            self._is_text = data[: data.index(b"\n")].endswith(b"\r")
        self._held = b""
        if self._is_text is not False:
            if data.endswith(b"\r"):
                data, self._held = data[:-1], b"\r"
            data = data.replace(b"\r\n", b"\n")
        if data:
            self._hand_on(data)

    def finish(self) -> None:
        if self._held:
            self._hand_on(self._held)
        self._held = b""


def without_carriage_returns(data: bytes) -> bytes:
    """All of an output as `LineEnds` hands it on."""
    out = bytearray()
    ends = LineEnds(out.extend)
    ends.feed(data)
    ends.finish()
    return bytes(out)
