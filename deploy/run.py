"""One program, run once on a board, with a record of it."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from types import FrameType
from typing import TYPE_CHECKING, Any

from core.deadline import Deadline
from core.errors import (
    DeadlineExpired,
    InternalError,
    Interrupted,
    LostConnection,
    OhforgeError,
    PermissionOnBoard,
    RemoteFileMissing,
)
from core.files import human_bytes
from core.session import Session
from deploy.aftermath import Aftermath, judge, look_back
from deploy.board import Board, ShellResult
from deploy.clock import BoardClock
from deploy.hdc import describe_link
from deploy.inspect import survey_board
from deploy.lease import hold_board
from deploy.preflight import Binary, check_binaries, check_tuning, question_for
from deploy.pull import as_pattern, fetch_files
from deploy.record import OUTPUTS, RunRecord, signal_name, start_record
from deploy.render import render_script
from deploy.script import new_token, quote
from deploy.store import StoredFile, runs_folder, store_folder
from deploy.transfer import FileToPlace, describe_files, ensure_stored

if TYPE_CHECKING:
    from deploy.hilog import LogFilter
    from native.artifact import Artifact
    from native.models import Model
    from native.runspec import RunSpec

NOT_PREPARED = 125


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What is to be run. `executable` and the names in `files` are relative to the run's folder on the board."""

    program: str
    """Name for the record."""
    engine: str
    executable: str
    files: tuple[FileToPlace, ...]
    """Everything that the program needs there, itself included."""
    timeout: float
    """Seconds for the program alone."""
    arguments: tuple[str, ...] = ()
    binaries: tuple[Binary, ...] = ()
    """What is checked against the board before anything is sent."""
    environment: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    """Patterns of files in the run's folder that are fetched afterwards."""
    library_folder: str | None = None
    """Folder of the libraries that travel along, relative to the run's folder (``""``: that itself); None: there are none."""
    artifact: Artifact | None = None
    model: Model | None = None
    spec: RunSpec | None = None
    """How the program's output is understood."""
    pass_status: bool = False
    """True: a status other than 0 is the caller's to judge, not an error."""
    log: LogFilter | None = None
    """Which lines of the board's log the record shall have; None: all, and only when they are needed."""


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """How a run ended, and where its record lies."""

    record: Path
    program: str
    board: str
    emulated: bool
    engine: str
    exit_code: int
    metrics: dict[str, dict[str, Any]]
    facts: dict[str, str]
    """Texts that the recipe's patterns find in the output, such as the ``text`` that a language model wrote."""
    outputs: list[Path]
    output: bytes
    """What the program printed, its end when it was very much."""
    complete: bool
    aftermath: Aftermath = field(default_factory=Aftermath)

    def as_json(self) -> dict[str, Any]:
        return {
            "record": str(self.record),
            "program": self.program,
            "board": self.board,
            "emulated": self.emulated,
            "engine": self.engine,
            "exit_code": self.exit_code,
            "metrics": self.metrics,
            "facts": self.facts,
            "outputs": [str(path) for path in self.outputs],
            "complete": self.complete,
            **self.aftermath.for_script(self.record),
        }


def execute(session: Session, board: Board, request: RunRequest) -> RunOutcome:
    """Checks the board, sends what it lacks, runs the program, shows its output and fetches its files.

    Raises ProgramFailed or ProgramCrashed (unless `pass_status`), RunError, WrongArch, MissingLibrary, NoSpaceOnBoard,
    DeadlineExpired, LostConnection, Interrupted and others; the record says what happened in every case. BoardBusy is
    raised before there is a record.
    """
    stored = describe_files(request.files)
    with hold_board(session, board, f"run {request.program}"):
        record = start_record(
            session,
            program=request.program,
            board=board.serial,
            content=_first_content(session, board, request, stored),
        )
        with _recorded(record), _terminated_as_interrupted():
            clock = _prepare(session, board, request, stored, record)
            return _Run(session, board, request, stored, record, clock).perform()


def _first_content(session: Session, board: Board, request: RunRequest, stored: Sequence[StoredFile]) -> dict[str, Any]:
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
            "environment": dict(request.environment),
            "folder": "",
            "timeout_seconds": request.timeout,
        },
        "files": [
            {"name": file.name, "sha256": known.sha256, "size": known.size, "executable": file.executable}
            for file, known in zip(request.files, stored, strict=True)
        ],
    }


def _prepare(
    session: Session, board: Board, request: RunRequest, stored: Sequence[StoredFile], record: RunRecord
) -> BoardClock | None:
    """One round trip tells whether the board can run it and what it lacks; that is then sent. Returns the board's time."""
    carried = {PurePosixPath(file.name).name for file in request.files}
    survey = survey_board(session, board, question_for(request.binaries, carried, [file.sha256 for file in stored]))
    about = record.content["board"]
    emulated = board.emulated or survey.parameters.get("const.build.ver.physical") == "emulated"
    record.save(board={**about, "emulated": emulated, "facts": survey.as_json()})
    check_binaries(board, survey, request.binaries, carried)
    if request.artifact is not None:
        check_tuning(board, survey, request.artifact.arch, request.artifact.cpu)
    if request.model is not None and 0 < survey.available_bytes < request.model.size:
        session.console.warn(
            f"the model has {human_bytes(request.model.size)}, but only {human_bytes(survey.available_bytes)} of memory "
            "are available: it will be read from storage again and again, which is very slow"
        )
    summary = ensure_stored(session, board, stored, survey)
    record.save(transfer=asdict(summary))
    session.console.info(
        f"on the board: {human_bytes(summary.bytes_sent)} sent, {human_bytes(summary.bytes_reused)} were there already"
    )
    return survey.clock


class _Run:
    """The steps of a run after its files are on the board."""

    def __init__(
        self,
        session: Session,
        board: Board,
        request: RunRequest,
        stored: Sequence[StoredFile],
        record: RunRecord,
        clock: BoardClock | None,
    ) -> None:
        self.session, self.board, self.request, self.stored, self.record = session, board, request, stored, record
        self.clock = clock
        self.folder = f"{runs_folder(board.profile)}/{record.folder.name}"
        self.patterns = (*request.outputs, *(request.spec.outputs if request.spec is not None else ()))
        record.save(command={**record.content["command"], "folder": self.folder})

    def perform(self) -> RunOutcome:
        began = time.time()
        result, missing, attempts = self._run_until_complete()
        times = (began, time.time())
        request, spec = self.request, self.request.spec
        metrics = {name: asdict(metric) for name, metric in spec.read_metrics(result.text).items()} if spec else {}
        facts = spec.read_facts(result.text) if spec else {}
        self.record.save(
            result={
                "exit_code": result.exit_code,
                "signal": signal_name(result.exit_code),
                "seconds": round(result.seconds, 3),
                "complete": not missing,
                "missing": missing,
                "attempts": attempts,
            },
            metrics=metrics,
            facts=facts,
        )
        outputs = self._fetch_outputs(result)
        aftermath = look_back(self.session, self.board, request, self.record, result, self.clock, times)
        judge(request, self.board, result, missing, aftermath)
        self.record.end("done" if result.exit_code == 0 else "failed")
        return RunOutcome(
            record=self.record.folder,
            program=request.program,
            board=self.board.serial,
            emulated=self.record.content["board"]["emulated"],
            engine=request.engine,
            exit_code=result.exit_code,
            metrics=metrics,
            facts=facts,
            outputs=outputs,
            output=result.output,
            complete=not missing,
            aftermath=aftermath,
        )

    def _run_until_complete(self) -> tuple[ShellResult, list[str], int]:
        """Runs the program, and once more when it ended well but its output is cut short.

        llama.cpp writes through a thread that it does not wait for at its end, so its last lines may be lost.
        """
        for attempt in (1, 2):
            result = self._run_once()
            spec = self.request.spec
            missing = spec.missing_proof(result.text) if spec is not None and result.exit_code == 0 else []
            if not missing or attempt == 2:
                return result, missing, attempt
            self.session.console.warn("the program ended well, but the end of its output is missing; running it again")
            self.record.log.rename(self.record.log.with_name("output-1.log"))
        raise AssertionError("the second attempt returns")

    def _run_once(self) -> ShellResult:
        mark = new_token()
        deadline = Deadline.after(self.request.timeout, f"{self.request.program} on board {self.board.serial}")
        with self.record.log.open("wb") as log:

            def show(chunk: bytes) -> None:
                log.write(chunk)
                log.flush()
                self.session.console.passthrough(chunk)

            try:
                result = self.board.shell(self._script(mark), deadline=deadline, on_output=show)
            except (Interrupted, DeadlineExpired):
                self._clear_folder(seconds=10)
                raise
        last = result.output.rstrip(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace")
        if result.exit_code == NOT_PREPARED and last.startswith(mark):
            raise PermissionOnBoard(f"Board {self.board.serial}: {last.removeprefix(mark).strip()}.")
        return result

    def _script(self, mark: str) -> str:
        request = self.request
        library_folder = request.library_folder
        return render_script(
            "run",
            store=store_folder(self.board.profile),
            folder=self.folder,
            mark=mark,
            files=[
                {"stored": known.sha256, "name": file.name, "executable": file.executable}
                for file, known in zip(request.files, self.stored, strict=True)
            ],
            environment=request.environment,
            library_folder=None if library_folder is None else f"/{library_folder}".rstrip("/"),
            has_libraries=library_folder is not None,
            words=[f"./{request.executable}", *request.arguments],
            remove=not self.patterns,
        )

    def _fetch_outputs(self, result: ShellResult) -> list[Path]:
        if not self.patterns:
            return []
        try:
            fetched = fetch_files(
                self.session,
                self.board,
                [as_pattern(pattern) for pattern in self.patterns],
                folder=self.folder,
                place=lambda name: self.record.outputs / name,
            )
        except RemoteFileMissing as error:
            if result.exit_code == 0:
                raise
            # What the failed program did not write is no news; that it failed is.
            self.session.console.warn(error.message)
            return []
        self.record.save(
            outputs=[
                {
                    "path": f"{OUTPUTS}/{file.local.relative_to(self.record.outputs).as_posix()}",
                    "size": file.size,
                    "sha256": file.sha256,
                }
                for file in fetched
            ]
        )
        self._clear_folder(seconds=60)
        return [file.local for file in fetched]

    def _clear_folder(self, seconds: float) -> None:
        """Removes the run's folder from the board. That it could not be is no reason to call the run failed."""
        removing = Deadline.after(seconds, "the run's folder to be removed from the board")
        try:
            self.board.shell(f"rm -rf {quote(self.folder)}", deadline=removing)
        except OhforgeError as error:
            self.session.console.warn(f"{self.folder} is left on board {self.board.serial}: {error.message}")


@contextlib.contextmanager
def _recorded(record: RunRecord) -> Iterator[None]:
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
        record.end("failed", InternalError(f"{type(error).__name__}: {error}"))
        raise


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP do what Ctrl-C does: what runs on the board is ended and the record closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
