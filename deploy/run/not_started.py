"""Why a board's kernel did not execute a program that was sent: one more question, asked only then."""

from __future__ import annotations

import errno
import re
from pathlib import Path

from core.deadline import Deadline
from core.errors import Failure, MissingLibrary, PermissionOnBoard
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.run.result import ProgramResult
from deploy.transfer.store import StoredFile, store_folder

NOT_EXECUTABLE, NOT_FOUND = 126, 127
REFUSED = r"(can't execute|cannot execute|permission denied|not permitted|exec format)"
ABSENT = r"(not found|no such file)"
SECONDS = 20.0


def check_started(board: Board, result: ProgramResult, executable: str, program: StoredFile) -> None:
    """Raises PermissionOnBoard or MissingLibrary when the board did not start the program, with what is known of why.

    Raises nothing for a program that ran, whatever its status: 126 and 127 may be its own.
    """
    number = _errno(result, executable)
    if number == errno.ENOENT:
        raise MissingLibrary(
            f"{executable} was not started: {_interpreter(program.local)} is not on board {board.serial}.",
            remedy="Name a shell or loader that the board has: `ohforge board.info` lists the loaders, /bin/sh is there.",
        )
    if number == errno.ENOEXEC:
        raise PermissionOnBoard(
            f"{executable} is no program that board {board.serial} can execute (exec format error).",
            remedy="Build it for an arch that the board runs: `ohforge board.info` lists them.",
        )
    if number:
        raise PermissionOnBoard(
            f"Board {board.serial} refuses to execute {executable}: {_ask_why(board, program)}",
            remedy="Run as root (`hdc smode`), use a folder whose file system may hold programs, or sign the program.",
        )


def _errno(result: ProgramResult, executable: str) -> int:
    if result.report is not None:
        failure = result.failure
        return failure.errno if failure is not None and failure.stage == "exec" else 0
    last = result.text.rstrip().rpartition("\n")[2].lower()
    if f"./{executable.lower()}" not in last:
        return 0
    if result.exit_code == NOT_EXECUTABLE and re.search(REFUSED, last):
        return errno.ENOEXEC if "exec format" in last else errno.EACCES
    # mksh ends with 126 here, dash with 127.
    return errno.ENOENT if result.exit_code in (NOT_EXECUTABLE, NOT_FOUND) and re.search(ABSENT, last) else 0


def _interpreter(path: Path) -> str:
    from native.artifact.elf import inspect_elf

    with path.open("rb") as file:
        first = file.readline(256)
    if first.startswith(b"#!"):
        return f"the interpreter {first[2:].decode('utf-8', 'replace').split()[0]}" if first[2:].split() else "#!"
    elf = inspect_elf(path)
    return f"its loader {elf.interpreter}" if elf is not None and elf.interpreter else "something that it needs"


def _ask_why(board: Board, program: StoredFile) -> str:
    script = render_script("why_refused", store=store_folder(board.profile), stored=program.sha256)
    try:
        text = board.shell(script, deadline=Deadline.after(SECONDS, f"why board {board.serial} refuses")).text
    except Failure as error:
        return f"the board cannot be asked why ({error.message})"
    return explain_answer(text)


def explain_answer(text: str) -> str:
    """What ``why_refused.sh`` found, in sentences."""
    found = {name: value.strip() for name, value in re.findall(r"^@@(\w+) (.*)$", text, re.MULTILINE)}
    mount = found.get("mount", "").rpartition(" ")[2]
    options = re.findall(rf"^\S+ {re.escape(mount)} \S+ (\S+)", text, re.MULTILINE) if mount else []
    sentences = []
    if options and "noexec" in options[-1].split(","):
        sentences.append(f"the file system at {mount} is mounted noexec.")
    if found.get("selinux", "").lower() in ("enforcing", "1"):
        label = found.get("label", "").split(" ")[0] or "unknown"
        context = found.get("context", "").removeprefix("context=") or "unknown"
        sentences.append(f"SELinux is enforcing; the file has the label {label}, the shell runs as {context}.")
    if found.get("xpm", "0") not in ("", "0"):
        sentences.append(f"the kernel demands signed code (xpm_mode {found['xpm']}).")
    return " ".join(sentences) or "neither its mount, nor SELinux, nor code signing explains it; see the board's log."
