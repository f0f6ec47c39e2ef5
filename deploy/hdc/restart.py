"""Waiting for a board that is away, and restarting one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from core.deadline import Deadline
from core.errors import BoardError, BoardOffline, BoardUnauthorised, DeadlineExpired, LostConnection
from core.patience import Patience
from core.session import Session
from deploy.board.script import MarkerReader, Stage, new_token, quote, wrap_command
from deploy.hdc.board import HdcBoard
from deploy.hdc.errors import Fault, confirm_request, find_fault, make_error
from deploy.hdc.servers import end_unused

ORDER_SECONDS = 10.0
"""For telling a board to restart: one that is frozen does not take it."""
LOOK_SECONDS = 5.0
LOOKS = Patience(pause=0.5)
GOES_ON_SECONDS = 60.0
"""After which a board that was told to restart, and still answers as before, has not done so."""
AWAY = (DeadlineExpired, LostConnection, BoardOffline)
"""What is met while a board, or the host that it is behind, is being started."""
STARTING = ("session-starting", "not-authorised", "access-refused")
"""Ids of what hdc says of a board that is back, but takes no commands yet."""


@dataclass
class Stages:
    """How far a board has come, in the order in which it happened, each with its second."""

    tell: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)
    reached: dict[str, float] = field(default_factory=dict)

    def reach(self, stage: str) -> None:
        """Notes and tells a stage when it is reached for the first time."""
        if stage not in self.reached:
            self.reached[stage] = round(time.monotonic() - self.began, 1)
            self.tell(f"{stage} after {self.reached[stage]:.1f} s")


@dataclass(frozen=True, kw_only=True)
class Look:
    """What one question to a board came to."""

    answered: bool
    boot: str = ""
    """Which start of its system it is; empty when the board does not say."""
    ready: bool = False
    """Whether its device folder is there: the daemon may come up before the storage does."""
    fault: Fault | None = None
    said: str = ""
    offline: BoardOffline | None = None
    """That the host which the board is behind cannot be reached."""

    @property
    def tells_nothing(self) -> bool:
        return not self.answered and self.fault is None and self.offline is None


def restart_board(session: Session, board: HdcBoard) -> Look:
    """Tells a board to restart, and returns how it was before; `wait_for_board` waits for it then.

    Raises what hdc refuses it with, and BoardOffline when the board does not take it.
    """
    before = look_at(session, board, Deadline.after(LOOK_SECONDS, f"board {board.serial}"))
    if before.fault is not None and before.fault.reconnect:
        with contextlib.suppress(*AWAY):
            board.reconnect(Deadline.after(ORDER_SECONDS, f"board {board.serial}"))
        before = look_at(session, board, Deadline.after(LOOK_SECONDS, f"board {board.serial}"))
    words = ("-t", board.key, "target", "boot")
    try:
        said = board.hdc.call(session, words, deadline=Deadline.after(ORDER_SECONDS, f"the restart of {board.serial}"))
    except DeadlineExpired as late:
        raise BoardOffline(
            f"Board {board.serial} does not take the order to restart. {late.message}",
            remedy="Restart it by hand: its daemon is frozen, or its link is dead.",
        ) from late
    text = f"{said.text}\n{said.error_text}".strip()
    fault = find_fault(text, "shell")
    if fault is not None or "[Fail]" in text:
        end_unused(session, board.hdc, board.key)
        board.give_up(fault)
        raise make_error(fault, text, subject=f"Board {board.serial}, restarting it", typed=board.hdc.typed)
    return before


def wait_for_board(
    session: Session,
    board: HdcBoard,
    deadline: Deadline,
    *,
    before: Look | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, float]:
    """Waits until the board answers and has its device folder; tells and returns when it was gone, back, authorised, ready.

    With `before`, how it was when it was told to restart, an answer counts only from its next start.
    Raises BoardOffline or BoardUnauthorised when the time is over, BoardUnauthorised when its user refuses, BoardError
    when it does not restart.
    """
    stages = Stages(tell=lambda text: session.console.info(f"board {board.serial}: {text}"))
    look = Look(answered=False)
    for _ in LOOKS.rounds(deadline, pause):
        now = look_at(session, board, deadline)
        if now.tells_nothing and deadline.expired:
            break  # It was cut short.
        look = now
        if look.answered and before is not None and "gone" not in stages.reached:
            if look.boot == before.boot:
                _check_that_it_goes(board, stages)
                continue
            stages.reach("gone")
        if _advance(stages, look):
            return stages.reached
        if (fault := look.fault) is not None and (fault.asks_user or fault.server_remembers):
            asked = "asked" in stages.reached
            # A refusal from before this counts no more: another server has the board ask its user anew.
            if fault.server_remembers and (not board.give_up(fault) or asked):
                raise make_error(fault, look.said, subject=f"Board {board.serial}", typed=board.hdc.typed)
            if not asked:
                stages.reached["asked"] = round(time.monotonic() - stages.began, 1)
                session.console.info(confirm_request(board.serial, deadline.remaining))
        if not look.answered and not deadline.expired:
            with contextlib.suppress(*AWAY):
                board.reconnect(deadline)
    end_unused(session, board.hdc, board.serial)
    kind = BoardUnauthorised if look.fault is not None and look.fault.asks_user else BoardOffline
    came = f"it is {list(stages.reached)[-1]}" if stages.reached else "it has not answered"
    if kind is BoardUnauthorised:
        came = "its user was asked, and has not agreed"
    message = f"Board {board.serial} cannot be used after {deadline.seconds:g} s: {came}."
    if look.offline is not None:
        raise kind(f"{message} {look.offline.message}", remedy=look.offline.remedy)
    raise kind(message, remedy=kind.default_remedy.replace("`hdc ", f"`{board.hdc.typed} "))


def _advance(stages: Stages, look: Look) -> bool:
    """Notes what a look has shown; True when the board is ready."""
    if look.answered:
        for stage in ("back", "authorised", *(["ready"] if look.ready else [])):
            stages.reach(stage)
        return look.ready
    starting = look.fault is not None and look.fault.id in STARTING
    if starting and "gone" in stages.reached:
        stages.reach("back")
    elif not starting:
        stages.reach("gone")
    return False


def _check_that_it_goes(board: HdcBoard, stages: Stages) -> None:
    if time.monotonic() - stages.began > GOES_ON_SECONDS:
        raise BoardError(
            f"Board {board.serial} was told to restart {GOES_ON_SECONDS:g} s ago and goes on as before.",
            remedy="Its image may not allow restarts by hdc: restart it by hand, then `ohforge board.wait`.",
        )


def look_at(session: Session, board: HdcBoard, deadline: Deadline) -> Look:
    """One question to the board, without trying again."""
    reader = MarkerReader(token := new_token())
    script = f"cat /proc/sys/kernel/random/boot_id; [ -d {quote(board.profile.device_dir)} ] && echo ready"
    waiting = deadline.within(LOOK_SECONDS, f"a sign of life of board {board.serial}")
    said = b""
    offline: BoardOffline | None = None
    try:
        words = ("-t", board.key, "shell", wrap_command(script, token))
        said = board.hdc.call(session, words, deadline=waiting, on_stdout=reader.feed).stderr
    except BoardOffline as error:
        offline = error
    except AWAY:
        pass
    reader.finish()
    if reader.stage is Stage.ENDED:
        lines = reader.output.decode("utf-8", "replace").split()
        return Look(answered=True, boot=lines[0] if lines else "", ready=lines[-1:] == ["ready"])
    text = (reader.preamble + b"\n" + said).decode("utf-8", "replace").strip()
    return Look(answered=False, fault=find_fault(text, "shell"), said=text, offline=offline)
