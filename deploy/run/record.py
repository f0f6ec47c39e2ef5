"""What a run leaves behind: a folder with ``record.json``, ``output.log`` and ``outputs/`` (docs/run-record.md).

``record.json`` is written when the run begins and again at every step, atomically, so that whatever happens it says
how far the run came. Its form is docs/record.schema.json.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.errors import DeadlineExpired, InternalError, Interrupted, LostConnection, OhforgeError, explain_exception
from core.record_folder import RecordFolder, make_record_folder, now
from core.session import PROJECT, Session
from deploy.board.protocol import Board
from deploy.hdc.version import describe_link
from deploy.run.request import RunRequest
from deploy.transfer.store import StoredFile

SCHEMA = 1
SCHEMA_FILE = PROJECT / "docs" / "record.schema.json"
LOG = "output.log"
STDOUT_LOG = "stdout.log"
STDERR_LOG = "stderr.log"
SAMPLES = "samples.jsonl"
STATES = ("running", "done", "failed", "interrupted", "lost", "timeout")


class RunRecord(RecordFolder):
    """The record of one run."""

    @property
    def log(self) -> Path:
        return self.folder / LOG

    def set_aside(self, attempt: int) -> None:
        """Gives the files of an attempt that is repeated other names, such as ``output-1.log``."""
        for name in (LOG, STDOUT_LOG, STDERR_LOG, SAMPLES):
            stem, _, ending = name.partition(".")
            with contextlib.suppress(FileNotFoundError):
                (self.folder / name).rename(self.folder / f"{stem}-{attempt}.{ending}")


def start_record(session: Session, *, program: str, board: str, content: Mapping[str, Any]) -> RunRecord:
    """Makes the folder ``<runs>/<UTC time>-<program>-<board>-<id>`` and writes the first ``record.json``."""
    started = now()
    folder = make_record_folder(session.settings.runs, started, program, board)
    return RunRecord(
        folder,
        {
            "schema": SCHEMA,
            "id": folder.name,
            "state": "running",
            "ohforge": importlib.metadata.version("ohforge"),
            "times": {"clock": "host", "started": started, "ended": None},
            **content,
            "transfer": None,
            "run_engine": None,
            "result": None,
            "usage": None,
            "samples": None,
            "pin": None,
            "metrics": {},
            "facts": {},
            "outputs": [],
            "left_out": [],
            "device": None,
            "log": None,
            "crash_logs": [],
            "error": None,
        },
    )


def signal_name(exit_code: int) -> str:
    """The signal that a shell's status of 128 + n stands for, such as ``SIGSEGV``; empty for any other status."""
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return ""


def first_content(session: Session, board: Board, request: RunRequest, stored: Sequence[StoredFile]) -> dict[str, Any]:
    artifact, model = request.artifact, request.model
    program = dict(zip((file.name for file in request.files), stored, strict=True))[request.executable]
    keys = ("program", "version", "arch", "key", "toolchain", "toolchain_id", "cpu")
    return {
        "engine": request.engine,
        "program": {
            "name": request.executable,
            "sha256": program.sha256,
            "artifact": {key: getattr(artifact, key) for key in keys} if artifact is not None else None,
        },
        "model": {
            "name": model.name,
            "kind": model.kind,
            "sha256": model.sha256,
            "size": model.size,
            "licence": model.licence,
            "summary": dict(model.summary),
        }
        if model is not None
        else None,
        "board": {
            "serial": board.serial,
            "profile": board.profile.name,
            "title": board.profile.title,
            "emulated": board.emulated,
            "facts": None,
        },
        "link": describe_link(session, board),
        "command": {
            "words": [f"./{request.executable}", *request.arguments],
            "environment": dict(request.options.environment),
            "folder": "",
            "timeout_seconds": request.options.timeout,
            **request.options.conditions.as_json(),
        },
        "files": [
            {"name": file.name, "sha256": known.sha256, "size": known.size, "executable": file.executable}
            for file, known in zip(request.files, stored, strict=True)
        ],
    }


def validate_record(content: Any) -> None:
    """Raises InvalidData unless `content` has the form of docs/record.schema.json."""
    from core.data_file import find_fault
    from core.errors import InvalidData

    if fault := find_fault(content, SCHEMA_FILE):
        raise InvalidData(f"The run record is not of its form: {fault[1]}")


@contextlib.contextmanager
def recorded(record: RecordFolder) -> Iterator[None]:
    """Writes into the record how the block ended, whatever ended it."""
    try:
        yield
    except (KeyboardInterrupt, Interrupted) as stop:
        error = (
            stop if isinstance(stop, Interrupted) else Interrupted("Interrupted; no program was running on the board.")
        )
        record.end("interrupted", error)
        raise error from None
    except LostConnection as error:
        record.end("lost", error)
        raise
    except DeadlineExpired as error:
        record.end("timeout", error)
        raise
    except OhforgeError as error:
        record.end("failed", error)
        raise
    except Exception as error:
        known = explain_exception(error)
        record.end("failed", known)
        if isinstance(known, InternalError):
            raise
        raise known from error
