"""What is found out when a program has ended: what its status means, what the board logged, which device computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from core.errors import Failure, PermissionOnBoard, ProgramCrashed, ProgramFailed, RunError
from core.session import Session
from deploy.board.clock import BoardClock
from deploy.board.protocol import Board
from deploy.run.faultlog import SIGNALS, CrashLog, describe_crash, fetch_crash_logs
from deploy.run.hilog import SECONDS, LogFilter, capture_log
from deploy.run.record import RunRecord
from deploy.run.request import RunRequest
from deploy.run.result import Diagnosis, ProgramResult

if TYPE_CHECKING:
    from native.recipe.device_use import DeviceUse
    from native.recipe.exit_status import Explanation

NOT_EXECUTABLE = 126
LAST_LINES = 10
LEAST_LOG_SECONDS = 10.0


def look_back(
    session: Session,
    board: Board,
    request: RunRequest,
    record: RunRecord,
    result: ProgramResult,
    clock: BoardClock | None,
    times: tuple[float, float],
) -> Diagnosis:
    """Asks the board what it still knows of the run that lasted from the first to the second of `times` (host's clock).

    The log is read when it was asked for, when the program failed, and when only it can tell which device computed;
    each costs a call of hdc. That something cannot be had is said, and no reason to call the run failed.
    """
    log, watched = keep_log(session, board, request, record, clock, times, _needs_log(request, result))
    crash_logs: list[CrashLog] = []
    if clock is not None and result.signal in SIGNALS:
        try:
            crash_logs = fetch_crash_logs(session, board, record.folder, clock, times[0])
        except Failure as error:
            session.console.warn(f"crash logs of this run could not be fetched: {error.message}")
    diagnosis = Diagnosis(
        explanation=_explain(request, result),
        device=_find_device(request, result, watched),
        log=log,
        crash_logs=tuple(crash_logs),
    )
    record.save(**diagnosis.as_json(record))
    return diagnosis


def keep_log(
    session: Session,
    board: Board,
    request: RunRequest,
    record: RunRecord,
    clock: BoardClock | None,
    times: tuple[float, float],
    needed: bool,
) -> tuple[dict[str, Any] | None, list[str]]:
    """Takes the board's log of the run when it is needed or was asked for; returns what `capture_log` returns.

    That may take what the run has left of its time, and a little when it has nothing left.
    """
    from native.recipe.device_use import LOG_TAGS

    if request.options.log is None and not needed:
        return None, []
    if clock is None:
        session.console.warn("the board cannot tell the time, so its log cannot be tied to this run")
        return None, []
    try:
        chosen = request.options.log or LogFilter()
        left = request.options.timeout - (times[1] - times[0])
        seconds = min(max(left, LEAST_LOG_SECONDS), SECONDS)
        log, watched = capture_log(session, board, record.folder, clock.window(*times), chosen, LOG_TAGS, seconds)
    except Failure as error:
        session.console.warn(f"the board's log of this run could not be read: {error.message}")
        return None, []
    record.save(log=log)
    return log, watched


def judge(request: RunRequest, board: Board, result: ProgramResult, missing: Sequence[str], known: Diagnosis) -> None:
    """Raises PermissionOnBoard, ProgramCrashed, ProgramFailed or RunError unless the program ended well and whole.

    Raises nothing when the status is the caller's to judge.
    """
    if request.pass_status:
        return
    name, serial, status = request.program, board.serial, result.exit_code
    sentence, remedy = ".", None
    if known.explanation is not None:
        sentence, remedy = f": {known.explanation.sentence}", known.explanation.remedy or None
    last = "\n".join(result.text.rstrip().splitlines()[-LAST_LINES:])
    if crashed := result.signal:
        found = describe_crash(list(known.crash_logs), request.executable)
        raise ProgramCrashed(
            f"{name} on board {serial} was ended by {crashed} (status {status}){sentence}\n{last}\n{found}".rstrip(),
            remedy=remedy,
        )
    if status == NOT_EXECUTABLE:
        raise PermissionOnBoard(f"{name} may not be executed on board {serial} (status 126).\n{last}", remedy=remedy)
    if status != 0:
        raise ProgramFailed(f"{name} on board {serial} ended with status {status}{sentence}\n{last}", remedy=remedy)
    if missing:
        raise RunError(
            f"{name} on board {serial} ended with status 0, twice without the end of its output: "
            f"{', '.join(missing)} is missing."
        )


def _needs_log(request: RunRequest, result: ProgramResult) -> bool:
    from native.recipe.device_use import asked_device

    beyond_cpu = _computes_on_device(request) and asked_device(result.text) not in ("", "cpu")
    return result.exit_code != 0 or beyond_cpu


def _computes_on_device(request: RunRequest) -> bool:
    return request.spec is not None and request.spec.model == "ms"


def _find_device(request: RunRequest, result: ProgramResult, log: list[str]) -> DeviceUse | None:
    from native.recipe.device_use import infer_device

    if not _computes_on_device(request):
        return None
    use = infer_device(result.text, "\n".join(log))
    return use if use.asked else None


def _explain(request: RunRequest, result: ProgramResult) -> Explanation | None:
    from native.recipe.exit_status import explain_exit

    if result.exit_code == 0:
        return None
    program = request.artifact.program if request.artifact is not None else ""
    explanation = explain_exit(program, result.exit_code, result.text)
    return explanation if explanation.sentence else None
