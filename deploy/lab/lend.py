"""Having a place of a lab while something is done on its board."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from core.deadline import Deadline
from core.errors import BoardBusy, LabUnreached
from core.interrupts import interrupts_held
from core.last_will import done_if_killed
from core.patience import Patience
from core.session import PROJECT, Session
from deploy.lab.coordinator import connect
from deploy.lab.names import Holder, process_name, user_name
from deploy.lab.place import LabPlace

LOOKS = Patience(pause=1.0)
"""At a place that someone else has."""


@dataclass(frozen=True, kw_only=True)
class PlaceLender:
    """The coordinator that gives out one place (implements `deploy.board.protocol.Lender`)."""

    address: str
    place: str

    def __str__(self) -> str:
        return f"place {self.place} of the lab at {self.address}"

    def as_json(self) -> dict[str, str]:
        """See `Lender.as_json`."""
        return {"place": self.place, "coordinator": self.address}

    @contextlib.contextmanager
    def lend(self, session: Session) -> Iterator[None]:
        """See `Lender.lend`. A place that this user has acquired already is used, and not released."""
        with connect(self.address) as coordinator:
            place = coordinator.find(self.place)
        if user_name() in (place.holder, *(() if Holder.read(place.holder).pid else place.allowed)):
            session.console.info(f"place {self.place} is yours already, and stays so")
            yield
            return
        name = user_name() if place.reserved_by == user_name() else process_name()
        had = False
        with done_if_killed(*_will(self.address, self.place, name)):
            try:
                self._acquire(session, name)
                had = True
                session.console.detail(f"{self} is acquired as {name}")
                yield
            finally:
                with interrupts_held():
                    self._release(session, name, had=had)

    def _acquire(self, session: Session, name: str) -> None:
        """Acquires the place as soon as it can be had. Raises BoardBusy."""
        waiting = Deadline.after(session.settings.timeouts.lease, f"place {self.place}")
        told = ""
        for _ in itertools.chain([None], LOOKS.rounds(waiting)):
            with connect(self.address) as coordinator:
                place = coordinator.find(self.place)
                if Holder.read(place.holder).is_dead():
                    session.console.info(f"place {self.place} is taken over: {_why_not(place)}, but is dead")
                    coordinator.release(self.place, place.holder)
                    place = coordinator.find(self.place)
                busy = "" if place.reserved_by == name else _why_not(place)
                if not busy and not (busy := coordinator.acquire(self.place, name)):
                    return
            if told != (told := busy):
                session.console.info(f"place {self.place}: {busy}; waiting up to {waiting.remaining:.0f} s for it")
        holder = Holder.read(place.holder or place.reserved_by)
        raise BoardBusy(
            f"Waited {waiting.seconds:g} s for {self}: {busy}.",
            remedy=f"Wait longer with --wait SECONDS, ask the holder, or take it by `labgrid-client -p {self.place} release --kick`.",
            board=self.place,
            user=holder.user,
            host=holder.host,
        )

    def _release(self, session: Session, name: str, *, had: bool) -> None:
        """Gives the place back; what cannot be given back now is said, for what was done on the board is done.

        One that it never `had` may have been acquired all the same, when the answer was not waited for.
        """
        try:
            with connect(self.address) as coordinator:
                place = coordinator.find(self.place)
                coordinator.release(self.place, name)
        except LabUnreached as away:
            session.console.warn(
                f"place {self.place} could not be released: {away.message} "
                f"When the coordinator is back, `labgrid-client -p {self.place} release` does it, if it still knows of it."
            )
        else:
            if had and place.holder != name:
                session.console.warn(
                    f"place {self.place} was taken away: {_why_not(place) or 'nobody has it'}. "
                    "Others may have worked on the board at the same time."
                )


def _why_not(place: LabPlace) -> str:
    """Who has or gets the place, as a sentence; empty when it is free."""
    if place.holder:
        return f"{Holder.read(place.holder).describe()} has it"
    return f"it is reserved by {Holder.read(place.reserved_by).describe()}" if place.reserved_by else ""


def _will(address: str, place: str, name: str) -> tuple[list[str], dict[str, str]]:
    """What releases the place when this process is killed."""
    search = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return [sys.executable, "-m", "deploy.lab.release", address, place, name], {"PYTHONPATH": search}
