"""One program, run once on a board, with a record of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath

from core.deadline import Deadline
from core.errors import DeadlineExpired, Failure, LostConnection, OhforgeError, RemoteFileMissing
from core.files import human_bytes
from core.interrupts import termination_as_interrupt
from core.record_folder import OUTPUTS
from core.session import Session
from deploy.board.clock import BoardClock
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.board.survey import Survey, survey_board
from deploy.lease.lease import hold_board
from deploy.run.diagnosis import judge, keep_log, look_back
from deploy.run.engines import (
    RunEngine,
    Start,
    agents_wanted,
    choose_engine,
    raise_when_late,
    usage_of,
)
from deploy.run.not_started import check_started
from deploy.run.output import RunOutput
from deploy.run.preflight import check_binaries, check_memory, check_tuning, question_for
from deploy.run.record import (
    SAMPLES,
    RunRecord,
    first_content,
    recorded,
    start_record,
)
from deploy.run.recovery import recover_board
from deploy.run.request import RunRequest
from deploy.run.result import ProgramResult, RunOutcome
from deploy.transfer.pull import as_pattern, fetch_files
from deploy.transfer.push import ask_about, describe_files, ensure_stored
from deploy.transfer.store import StoredFile, runs_folder, store_folder


def execute(session: Session, board: Board, request: RunRequest) -> RunOutcome:
    """Checks the board, sends what it lacks, runs the program, shows its output and fetches its files.

    Raises ProgramFailed or ProgramCrashed (unless `pass_status`), RunError, WrongArch, MissingLibrary, NoSpaceOnBoard,
    DeadlineExpired, LostConnection, Interrupted and others; the record says what happened in every case. BoardBusy is
    raised before there is a record.
    """
    stored = describe_files(request.files)
    agents = agents_wanted(session, board, request.options.run_engine)
    with hold_board(session, board, f"run {request.program}"):
        content = first_content(session, board, request, stored)
        record = start_record(session, program=request.program, board=board.serial, content=content)
        if request.on_record is not None:
            request.on_record(record.folder)
        with recorded(record), termination_as_interrupt():
            engine, clock = _prepare(session, board, request, stored, agents, record)
            run = _Run(session, board, request, stored, engine, record, clock)
            try:
                return run.perform()
            except (DeadlineExpired, LostConnection) as cut:
                if recover_board(session, board, cut):
                    run.end(seconds=10)
                raise


def _prepare(
    session: Session,
    board: Board,
    request: RunRequest,
    stored: Sequence[StoredFile],
    agents: Sequence[str],
    record: RunRecord,
) -> tuple[RunEngine, BoardClock | None]:
    """One round trip tells whether the board can run it, by what, and what it lacks; that is then sent.

    Returns what will run the program, and the board's time.
    """
    survey = ask_board(session, board, request, stored, agents)
    about = record.content["board"]
    record.save(board={**about, "emulated": board.emulated or survey.is_emulated, "facts": survey.as_json()})
    check_fit(session, board, request, survey)
    engine = choose_engine(session, board, survey, request.options.run_engine, request.options.conditions)
    record.save(run_engine={"name": engine.name, "reason": engine.reason})
    summary, _ = ensure_stored(session, board, stored, replace(survey, agent=engine.agent))
    record.save(transfer=asdict(summary))
    session.console.info(
        f"on the board: {human_bytes(summary.bytes_sent)} sent, {human_bytes(summary.bytes_reused)} were there already"
    )
    return engine, survey.clock


def ask_board(
    session: Session, board: Board, request: RunRequest, stored: Sequence[StoredFile], agents: Sequence[str]
) -> Survey:
    """All that must be known of the board before the run."""
    question = question_for(request.binaries, _carried(request), ask_about(stored), agents)
    return survey_board(session, board, question)


def check_fit(session: Session, board: Board, request: RunRequest, survey: Survey) -> None:
    """Raises WrongArch, MissingLibrary or NotEnoughMemory when the board cannot run it."""
    check_binaries(board, survey, request.binaries, _carried(request))
    if request.artifact is not None:
        check_tuning(board, survey, request.artifact.arch, request.artifact.cpu)
    if request.model is not None:
        # Of language models more is known than the size of their file, and was told: `bench.verdict`.
        check_memory(session, board, survey, request.model.size, warn=request.model.kind != "gguf")


def _carried(request: RunRequest) -> set[str]:
    return {PurePosixPath(file.name).name for file in request.files}


class _Run:
    """The steps of a run after its files are on the board."""

    def __init__(
        self,
        session: Session,
        board: Board,
        request: RunRequest,
        stored: Sequence[StoredFile],
        engine: RunEngine,
        record: RunRecord,
        clock: BoardClock | None,
    ) -> None:
        self.session, self.board, self.request, self.engine, self.record = session, board, request, engine, record
        self.clock = clock
        self.folder = f"{runs_folder(board.profile)}/{record.folder.name}"
        self.patterns = (*request.options.outputs, *(request.spec.outputs if request.spec is not None else ()))
        self.start = self._make_start(stored)
        self.program = dict(zip((file.name for file in request.files), stored, strict=True))[request.executable]
        record.save(command={**record.content["command"], "folder": self.folder})

    def perform(self) -> RunOutcome:
        began = time.time()
        try:
            result, missing, attempts = self._run_until_complete()
        except DeadlineExpired:
            times = (began, time.time())
            keep_log(self.session, self.board, self.request, self.record, self.clock, times, needed=True)
            raise
        times = (began, time.time())
        request, spec = self.request, self.request.spec
        metrics = {name: asdict(metric) for name, metric in spec.read_metrics(result.text).items()} if spec else {}
        facts = spec.read_facts(result.text) if spec else {}
        report = result.report
        self.record.save(
            result={
                "exit_code": result.exit_code,
                "signal": result.signal,
                "seconds": round(result.seconds, 3),
                "complete": not missing,
                "missing": missing,
                "attempts": attempts,
                "core_dumped": report.core_dumped if report else None,
                "left_running": report.left if report else None,
            },
            metrics=metrics,
            facts=facts,
        )
        try:
            check_started(self.board, result, request.executable, self.program)
        except OhforgeError:
            self.end(seconds=10)
            raise
        outputs = self._fetch_outputs(result)
        diagnosis = look_back(self.session, self.board, request, self.record, result, self.clock, times)
        judge(request, self.board, result, missing, diagnosis)
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
            run_engine=self.engine.name,
            usage=self.record.content["usage"],
            seconds=result.seconds,
            pin=self.record.content["pin"],
            diagnosis=diagnosis,
        )

    def _run_until_complete(self) -> tuple[ProgramResult, list[str], int]:
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
            self.record.set_aside(attempt)
        raise AssertionError("the second attempt returns")

    def _run_once(self) -> ProgramResult:
        with RunOutput(self.record, self.session.console) as output:
            try:
                result = self.engine.run(self.board, self.start, output)
                self._save_report(result, output)
                raise_when_late(self.board, self.start, result)
            except (OhforgeError, OSError):
                self.end(seconds=10)
                raise
        return result

    def _save_report(self, result: ProgramResult, output: RunOutput) -> None:
        report, seconds = result.report, self.request.options.conditions.sample_seconds
        samples = None
        if seconds and report is not None:
            lost = report.samples_lost
            samples = {"file": SAMPLES, "count": output.samples, "lost": lost, "interval_seconds": seconds}
        pin = asdict(report.pin) if report is not None and report.pin is not None else None
        self.record.save(usage=usage_of(result), samples=samples, pin=pin)
        for left in pin["left"] if pin is not None else ():
            self.session.console.warn(f"THE BOARD IS NOT AS IT WAS: {left} could not be set back")
        if report is not None and report.left:
            self.session.console.info(f"the program left {report.left} process(es) running, which were ended")
        if report is not None and report.survivors:
            self.session.console.warn(f"{report.survivors} process(es) of the program cannot be ended on the board")

    def _make_start(self, stored: Sequence[StoredFile]) -> Start:
        request = self.request
        library_folder = request.library_folder
        return Start(
            title=f"{request.program} on board {self.board.serial}",
            words=[f"./{request.executable}", *request.arguments],
            environment=request.options.environment,
            conditions=request.options.conditions,
            seconds=request.options.timeout,
            run=self.record.folder.name,
            merged=request.spec is not None and request.spec.merged_output,
            script={
                "store": store_folder(self.board.profile),
                "folder": self.folder,
                "files": [
                    {"stored": known.sha256, "name": file.name, "executable": file.executable}
                    for file, known in zip(request.files, stored, strict=True)
                ],
                "library_folder": None if library_folder is None else f"/{library_folder}".rstrip("/"),
                "remove": not self.patterns,
            },
        )

    def _fetch_outputs(self, result: ProgramResult) -> list[Path]:
        if not self.patterns:
            return []
        try:
            fetched = fetch_files(
                self.session,
                self.board,
                [as_pattern(pattern) for pattern in self.patterns],
                folder=self.folder,
                place=lambda name: self.record.outputs / name,
                links=self.request.options.links,
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
                for file in fetched.files
            ],
            left_out=[asdict(entry) for entry in fetched.left_out],
        )
        self.end(seconds=60)
        return [file.local for file in fetched.files]

    def end(self, seconds: float) -> None:
        """Ends what may still run and removes the run's folder. That this fails is no reason to call the run failed."""
        ending = Deadline.after(seconds, "the run's folder to be removed from the board")
        script = render_script("end_run", mark=self.start.mark, watch_mark=self.start.watch_mark, folder=self.folder)
        try:
            said = self.board.shell(script, deadline=ending).text.split()[-1:]
        except Failure as error:
            self.session.console.warn(f"{self.folder} is left on board {self.board.serial}: {error.message}")
            return
        if said != ["gone"]:
            what = "something of the run cannot be ended" if said == ["alive"] else f"{self.folder} is left"
            self.session.console.warn(f"{what} on board {self.board.serial}")
