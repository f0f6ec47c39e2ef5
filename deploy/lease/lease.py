"""Leases: who uses a board, so that two do not use it at once.

A board has two: the *running* one of the process that works on it at the moment, and the *standing* one that a user
took with ``board.lock`` for a time. A running lease is renewed while its process lives; it is void when the process
is dead (told by number and start time, so a number that was given away again deceives nobody) or when it has not been
renewed for `TERM_SECONDS`. A standing one is void after its time, and after a restart of the computer. Times are
those of a clock that never jumps; the clock on the wall is only shown. Leases are for people and programs that want
to get on with each other: whoever may write the folder can also break them, as ``board.unlock --force`` does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from core.deadline import Deadline
from core.dry import Would
from core.errors import BoardBusy, Busy, Failure, UsageError
from core.interrupts import interrupts_held
from core.patience import Patience
from core.session import Session
from deploy.board.protocol import Board
from deploy.lease.on_host import ChangedMeanwhile, HostFile
from deploy.lease.owner import Owner, boot_id, current_owner, current_user, steady_time
from deploy.lease.shared_file import FOLDER_MODE, SharedFile, change_shared, read_shared

TERM_SECONDS = 120.0
RENEW_SECONDS = 15.0
LOOKS = Patience(pause=0.5)
CHANGES = 20
"""Tries to change a file of a host, which other computers change too."""
T = TypeVar("T")
"""At a board that someone else uses."""
LONGEST_PURPOSE = 200
LONGEST_SECONDS = 30 * 86400.0
LONGEST_WORDS = {"user": 64, "host": 64, "boot": 40, "namespace": 40}
"""Letters of what an owner says: two leases fit into a file, whatever stands in them."""
MOST = {"uid": 2**32 - 1, "pid": 2**31 - 1, "started": 2**63 - 1}
LAST_YEAR = 253402300799.0
"""The end of the year 9999, in seconds since 1970."""
CLOCKS_DIFFER_SECONDS = 86400.0
"""Between the clocks of two computers that share the folder."""
PRIVATE_MODE = 0o700
EMULATED_FOLDER = ".leases"
Kind = Literal["running", "standing"]
KINDS: tuple[Kind, ...] = ("running", "standing")


@dataclass(frozen=True, kw_only=True)
class Lease:
    """One holder of a board. `since` and `until` are seconds since 1970, `ends` is a `steady_time`."""

    owner: Owner
    purpose: str
    since: float
    until: float
    ends: float

    def why_void(self) -> str:
        """Why the lease does not count any more; empty while it does."""
        if self.owner.is_dead():
            return "whose process is dead" if self.owner.pid else "which ended with the computer's restart"
        # Another computer that shares the folder has another steady clock.
        over = time.time() > self.until if self.owner.boot != boot_id() else steady_time() > self.ends
        return "which has expired" if over else ""

    def describe(self) -> str:
        """The lease in a sentence."""
        until = f", until {_clock(self.until)}" if not self.owner.pid else ""
        return f"{self.owner.describe()} for {self.purpose!r} since {_clock(self.since)}{until}"

    def as_json(self) -> dict[str, Any]:
        return {
            "user": self.owner.user,
            "host": self.owner.host,
            "pid": self.owner.pid or None,
            "purpose": self.purpose,
            "since": _utc(self.since),
            "until": _utc(self.until),
        }


@contextlib.contextmanager
def hold_board(session: Session, board: Board, purpose: str) -> Iterator[None]:
    """Holds the board while the block runs; within a block that holds it already this does nothing more.

    Waits ``ohforge.timeouts.lease`` seconds for another holder, and says who that is. Raises BoardBusy, CannotWrite
    and NotEnoughSpace, and what the board's lender raises.
    """
    place = LeasePlace.of_board(session, board)
    lease = _new(current_owner(), purpose, TERM_SECONDS)

    def take(shared: SharedFile) -> bool:
        running = _read(shared, "running")
        if running is not None and running.owner.is_me():
            return False
        shared.value["running"] = _plain(lease)
        return True

    if not _wait_and_change(session, place, lease.owner, take):
        yield
        return
    keeper = _Keeper(place, lease)
    keeper.start()
    try:
        with board.lender.lend(session) if board.lender is not None else contextlib.nullcontext():
            yield
    finally:
        keeper.stop()
        if keeper.taken_by:
            session.console.warn(
                f"the lease of board {place.serial} was taken away: now {keeper.taken_by}. "
                "Both may have worked on the board at the same time."
            )


def lock_board(session: Session, place: LeasePlace, *, seconds: float, purpose: str) -> Lease:
    """Takes the board for this user for a time, in seconds; a lease of the same user is replaced.

    Raises UsageError, and what `hold_board` raises.
    """
    lease = _standing(seconds, purpose)

    def take(shared: SharedFile) -> bool:
        shared.value["standing"] = _plain(lease)
        return True

    _wait_and_change(session, place, lease.owner, take)
    return lease


def would_lock(session: Session, place: LeasePlace, *, seconds: float, purpose: str) -> Would:
    """What `lock_board` would do, and whom it would wait for. Raises UsageError."""
    lease = _standing(seconds, purpose)
    holder = _holder_against(session.quietly(), place, _look(place), lease.owner)
    why = f"for {seconds:g} s, purpose {lease.purpose!r}"
    if holder is not None:
        why += f"; as soon as it is free, waiting up to {session.settings.timeouts.lease:g} s: {holder.describe()}"
    return Would(action="lock", what=f"board {place.serial}", why=why)


def _standing(seconds: float, purpose: str) -> Lease:
    if not 0 < seconds <= LONGEST_SECONDS:
        raise UsageError(f"A board can be locked for up to {LONGEST_SECONDS / 86400:g} days, not for {seconds:g} s.")
    return _new(current_user(), purpose, seconds)


def unlock_board(place: LeasePlace, *, force: bool = False) -> list[Lease]:
    """Gives the board back, and with `force` takes it from whoever holds it; returns the leases that counted.

    Without `force` only a standing lease of this user is removed. Raises BoardBusy for another user's.
    """
    return place.alter(lambda shared: _release(place, shared, force))


def would_unlock(place: LeasePlace, *, force: bool = False) -> list[Would]:
    """What `unlock_board` would do. Raises BoardBusy for another user's lease."""
    what = f"board {place.serial}"
    return [Would(action="release", what=what, why=lease.describe()) for lease in _release(place, _look(place), force)]


def _release(place: LeasePlace, shared: SharedFile, force: bool) -> list[Lease]:
    removed = []
    for kind in KINDS:
        lease = _read(shared, kind)
        if lease is None:
            continue
        mine = kind == "standing" and _lets_through(kind, lease, current_user())
        if lease.why_void() or mine or force:
            del shared.value[kind]
            if not lease.why_void():
                removed.append(lease)
        elif kind == "standing":
            raise _busy(place, lease, "it can be released by its owner only")
    return removed


def find_holder(place: LeasePlace) -> Lease | None:
    """Who holds the board now: the process that works on it, else the user who locked it."""
    content = _look(place)
    leases = [_read(content, kind) for kind in KINDS]
    return next((lease for lease in leases if lease is not None and not lease.why_void()), None)


def _look(place: LeasePlace) -> SharedFile:
    """What is noted now; what is changed in it changes nothing."""
    return SharedFile(value=place.read())


@dataclass(frozen=True, kw_only=True)
class LeasePlace:
    """Where the leases of one board are noted."""

    serial: str
    folder: Path
    mode: int = FOLDER_MODE
    on_host: HostFile | None = None
    """The file of the computer that has the board, when it is another one: then `folder` counts for nothing."""

    @classmethod
    def of(cls, session: Session, serial: str, *, emulated: bool) -> LeasePlace:
        """An emulated board belongs to its user; all others are shared by the users of this computer."""
        if emulated:
            folder = session.settings.emulated_boards / EMULATED_FOLDER
            return cls(serial=serial, folder=folder, mode=PRIVATE_MODE)
        return cls(serial=serial, folder=session.settings.leases)

    @classmethod
    def of_board(cls, session: Session, board: Board) -> LeasePlace:
        """As `of`; those of a board behind a host are the host's, under the name that it has there."""
        place = cls.of(session, board.serial, emulated=board.emulated)
        if board.host is None:
            return place
        there = dataclasses.replace(place, serial=board.serial.removeprefix(f"{board.host.serial}/"))
        return dataclasses.replace(place, on_host=HostFile(board.host, there.name))

    @property
    def name(self) -> str:
        """A file name that no serial can lead out of the folder, and that two serials do not share."""
        readable = re.sub(r"[^A-Za-z0-9-]", "-", self.serial)[:40]
        return f"{readable}.{hashlib.sha256(self.serial.encode()).hexdigest()[:12]}.lease"

    def change(self) -> contextlib.AbstractContextManager[SharedFile]:
        """The file, which is written at the end of the block. Raises as `change_shared`; on a host ChangedMeanwhile."""
        if self.on_host is not None:
            return self.on_host.change()
        return change_shared(self.folder, self.name, mode=self.mode)

    def alter(self, alter: Callable[[SharedFile], T]) -> T:
        """What `alter` returns of the file, which it may change; it is called again when another computer was quicker."""
        for _ in range(CHANGES):
            with contextlib.suppress(ChangedMeanwhile), self.change() as shared:
                return alter(shared)
        raise Busy(f"The note of who uses board {self.serial} is changed again and again.")

    def read(self) -> dict[str, Any]:
        """What the file holds."""
        return self.on_host.read() if self.on_host is not None else read_shared(self.folder, self.name)


# taking ---------------------------------------------------------------------------------------------


def _wait_and_change(session: Session, place: LeasePlace, owner: Owner, take: Callable[[SharedFile], bool]) -> bool:
    """Calls `take` on the file as soon as nobody else holds the board; returns what it returned."""
    waiting = Deadline.after(session.settings.timeouts.lease, f"board {place.serial}")
    told = ""

    def try_once(shared: SharedFile) -> tuple[Lease | None, bool]:
        if shared.damaged:
            session.console.warn(f"the note of who uses board {place.serial} was damaged; it is begun anew")
        holder = _holder_against(session, place, shared, owner)
        return holder, holder is None and take(shared)

    for _ in itertools.chain([None], LOOKS.rounds(waiting)):
        holder, taken = place.alter(try_once)
        if holder is None:
            return taken
        busy = _busy(place, holder, f"waited {waiting.seconds:g} s")
        if not waiting.expired and told != (told := holder.owner.describe()):
            session.console.info(
                f"board {place.serial} is used by {holder.describe()}; waiting up to {waiting.remaining:.0f} s for it"
            )
    raise busy


def _holder_against(session: Session, place: LeasePlace, shared: SharedFile, owner: Owner) -> Lease | None:
    """The lease that stands against `owner`. Void ones are removed, which is said."""
    # What nobody understands goes, also within a lease: it would take the room of the next one.
    leases = {kind: lease for kind in KINDS if (lease := _read(shared, kind)) is not None}
    shared.value = {kind: _plain(lease) for kind, lease in leases.items()}
    for kind, lease in leases.items():
        if why := lease.why_void():
            del shared.value[kind]
            session.console.info(f"board {place.serial} is taken over from {lease.describe()}, {why}")
        elif not _lets_through(kind, lease, owner):
            return lease
    return None


def _lets_through(kind: Kind, lease: Lease, owner: Owner) -> bool:
    if kind == "standing":
        return lease.owner.uid == owner.uid and lease.owner.boot == owner.boot
    # A user may lock the board on which a run of the same user is going on.
    return lease.owner.is_me() or (not owner.pid and lease.owner.uid == owner.uid)


def _busy(place: LeasePlace, holder: Lease, why: str) -> BoardBusy:
    return BoardBusy(
        f"Board {place.serial} is used by {holder.describe()} ({why}).",
        remedy=BoardBusy.default_remedy.replace("unlock", f"unlock --board {place.serial}"),
        board=place.serial,
        **holder.as_json(),
    )


# keeping --------------------------------------------------------------------------------------------


class _Keeper:
    """Renews a lease until it is given back."""

    def __init__(self, place: LeasePlace, lease: Lease) -> None:
        self._place = place
        self._lease = lease
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"lease of {place.serial}", daemon=True)
        self.taken_by = ""
        """Who holds the board instead; empty as long as it is this one."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Gives the lease back."""
        self._ended.set()
        # What cannot be given back ends with this process. A host is asked over its link, which takes a moment in which
        # Ctrl-C would leave the lease, and be lost as one more error.
        with interrupts_held(), contextlib.suppress(Failure):
            self._thread.join()
            self._place.alter(self._give_back)

    def _renew(self) -> None:
        while not self.taken_by and not self._ended.wait(RENEW_SECONDS):
            # One that fails leaves time for seven more before the lease expires.
            with contextlib.suppress(Failure):
                self._place.alter(self._prolong)

    def _give_back(self, shared: SharedFile) -> None:
        if self._is_mine(shared):
            del shared.value["running"]

    def _prolong(self, shared: SharedFile) -> None:
        if self._is_mine(shared):
            ends, until = steady_time() + TERM_SECONDS, time.time() + TERM_SECONDS
            shared.value["running"] = _plain(dataclasses.replace(self._lease, ends=ends, until=until))

    def _is_mine(self, shared: SharedFile) -> bool:
        running = _read(shared, "running")
        if running is not None and running.owner.is_me() and running.since == self._lease.since:
            return True
        self.taken_by = f"{running.describe()} has it" if running is not None else "nobody has it"
        return False


# the notes ------------------------------------------------------------------------------------------


def _new(owner: Owner, purpose: str, seconds: float) -> Lease:
    now = time.time()
    return Lease(
        owner=owner,
        purpose=_harmless(purpose) or "no purpose named",
        since=now,
        until=now + seconds,
        ends=steady_time() + seconds,
    )


def _read(shared: SharedFile, kind: Kind) -> Lease | None:
    """A lease of the file; one that this version cannot have written is none, whoever it was that wrote it."""
    try:
        plain = dict(shared.value[kind])
        owner = dict(plain["owner"])
        owner.update({name: _harmless(owner[name], longest) for name, longest in LONGEST_WORDS.items()})
        owner.update({name: _number(owner[name], most) for name, most in MOST.items()})
        times = {name: float(plain[name]) for name in ("since", "until", "ends")}
        lease = Lease(owner=Owner(**owner), purpose=_harmless(plain["purpose"]), **times)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return lease if _is_possible(lease) else None


def _is_possible(lease: Lease) -> bool:
    """Whether nobody would have to wait for longer than a lease may last, and the times can be shown."""
    if lease.owner.boot == boot_id():
        ends, latest = steady_time() + LONGEST_SECONDS, LAST_YEAR  # The clock on the wall may have been set back since.
    else:
        ends, latest = LAST_YEAR, time.time() + LONGEST_SECONDS + CLOCKS_DIFFER_SECONDS
    return 0 <= lease.ends <= ends and 0 <= lease.since <= latest and 0 <= lease.until <= latest


def _number(value: Any, most: int) -> int:
    if not 0 <= (number := int(value)) <= most:
        raise ValueError(f"{number} is out of range")
    return number


def _harmless(text: Any, longest: int = LONGEST_PURPOSE) -> str:
    """One short line: it is shown on other people's terminals."""
    if not isinstance(text, str):
        raise TypeError(f"{type(text).__name__} is no text")
    words = " ".join(text.split())[:longest]
    return "".join(letter if letter.isprintable() else "?" for letter in words)


def _plain(lease: Lease) -> dict[str, Any]:
    return asdict(lease)


def _clock(when: float) -> str:
    day = "" if abs(time.time() - when) < 12 * 3600 else "%Y-%m-%d "
    return time.strftime(f"{day}%H:%M:%S", time.localtime(when))


def _utc(when: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
