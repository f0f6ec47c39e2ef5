"""Building on another computer: what it needs goes there, the build runs there, and its artifact comes back."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.addresses import quoted
from core.deadline import Deadline
from core.dry import Would
from core.errors import BoardOffline, BuildError, Busy, DeadlineExpired, Interrupted, LostConnection, NoBoard
from core.files import sha256_json, write_json
from core.locks import hold
from core.session import Session
from deploy.build_host.host import ATTEMPTS, COME_BACK, BuildHost, make_error
from deploy.build_host.job import Job, find_recipe, make_job, title_of
from deploy.build_host.journal import Replay
from deploy.build_host.send import send_lacking
from deploy.build_host.take import take_artifact, take_log
from deploy.ssh.choose import find_ssh
from native.build.ensure import BuildOutcome, BuildRequest
from native.source.fetch import would_fetch

PREPARE_SECONDS = 1800.0
"""What making the Python environment on a slow host may take, once."""


def build_on(session: Session, name: str, request: BuildRequest) -> BuildOutcome:
    """Builds `request` on the host of that name or address, or follows the same build there that runs already.

    A build goes on when the link or this process ends; the next call follows it from where this one was.
    Raises what building here raises, NoBoard, BoardOffline, HostKeyNotTrusted, LostConnection, TransferError.
    """
    began = time.monotonic()
    with _host(session, name) as host:
        job = make_job(session, request)
        host.persist(lambda: send_lacking(session, host, job))
        with _Note.held(session, host, job) as note:
            attempt = _start(session, host, job, note)
            try:
                _follow(session, host, job, attempt, note)
            except KeyboardInterrupt:
                raise Interrupted(f"Interrupted. {_goes_on(job, host)}") from None
            result = _read_result(host, job, attempt)
            if "error" in result:
                error = host.persist(lambda: take_log(session, host, result["error"]))
                note.forget()
                raise make_error(error, host.serial)
            artifact, size = host.persist(lambda: take_artifact(session, host, result))
            note.forget()
    reason = str(result["reason"])
    if size and not result["rebuilt"]:
        reason = f"{host.serial} had built it before"
    seconds = time.monotonic() - began
    return BuildOutcome(artifact=artifact, rebuilt=bool(result["rebuilt"]), reason=reason, seconds=seconds)


def stop_on(session: Session, name: str, request: BuildRequest) -> str:
    """Ends the builds of that program and arch that run there, whoever waits for them; a sentence says what came of it.

    Raises Busy.
    """
    title = title_of(find_recipe(session, request), request)
    with _host(session, name) as host:
        answer = host.ask("stop", title)
        if not answer["ended"]:
            raise Busy(f"The build of {title} on {host.serial} does not end.")
        return f"the build of {title} on {host.serial} " + ("was ended" if answer["ran"] else "does not run")


def would_build_on(session: Session, name: str, request: BuildRequest, *, stop: bool = False) -> list[Would]:
    """What `build_on`, or `stop_on`, would do; the host is not asked. Raises what `find_recipe` raises."""
    serial = _find_host(session, name)
    recipe = find_recipe(session, request)
    fetched = would_fetch(session, recipe)
    # What is not here yet cannot be counted.
    size = None if fetched else make_job(session, request).size
    title = title_of(recipe, request)
    if stop:
        return [Would(action="stop", what=f"the build of {title}", where=serial, why="if it runs")]
    what = f"the sources of {title} and what builds them"
    return [
        *fetched,
        Would(action="send", what=what, size=size, where=serial, why="what is there already is left out"),
        Would(action="build", what=title, where=serial),
    ]


def _find_host(session: Session, name: str) -> str:
    found = find_ssh(session, name)
    if found is None:
        raise NoBoard(
            f"{quoted(name)} is no build host.",
            remedy="Name it as ssh://USER@HOST, with :PORT after it when that is not 22, or by the name of an SSH board "
            "under ohforge.boards.",
        )
    return found[0]


@contextlib.contextmanager
def _host(session: Session, name: str) -> Iterator[BuildHost]:
    host = BuildHost(session, _find_host(session, name))
    session.console.chosen("build host", host.serial, "named by --on")
    try:
        yield host
    finally:
        host.close()


@dataclass(frozen=True, kw_only=True)
class _Note:
    """How far this computer has followed a build: the next call goes on from there, however this one ends."""

    path: Path | None
    """None: another call follows the same build, and the note is its own."""

    @classmethod
    @contextlib.contextmanager
    def held(cls, session: Session, host: BuildHost, job: Job) -> Iterator[_Note]:
        path = session.settings.cache / "build-hosts" / f"{sha256_json([host.serial, job.id])[:16]}.json"
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(hold(path.with_suffix(".lock"), Deadline.after(0, "the note of a build")))
            except Busy:
                yield cls(path=None)
                return
            yield cls(path=path)

    def read(self) -> tuple[str, int]:
        """The attempt that was followed, and how many bytes of its events were shown."""
        try:
            value = json.loads(self.path.read_text()) if self.path is not None else {}
            return str(value["attempt"]), int(value["seen"])
        except (OSError, ValueError, KeyError, TypeError):
            return "", 0

    def write(self, attempt: str, seen: int) -> None:
        if self.path is not None:
            write_json(self.path, {"attempt": attempt, "seen": seen})

    def forget(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _start(session: Session, host: BuildHost, job: Job, note: _Note) -> str:
    """The attempt to follow: one that runs, whoever began it, or a new one."""
    known, _ = note.read()
    answer = host.persist(lambda: host.ask("start", given=job.as_json(known)))
    attempt = str(answer["attempt"])
    if attempt != known:
        note.write(attempt, 0)
        if not answer["new"]:
            session.console.info(f"{host.serial} is at the same build already: following it")
    else:
        session.console.info(f"the build on {host.serial} was followed before: going on where that was left")
    return attempt


def _follow(session: Session, host: BuildHost, job: Job, attempt: str, note: _Note) -> None:
    """Shows what the build says until it ends, by one link after the other."""
    seconds = session.settings.timeouts.build + PREPARE_SECONDS
    deadline = Deadline.after(seconds, f"the build of {job.title} on {host.serial}")
    failures, seen = 0, note.read()[1]
    while True:
        replay = Replay(session.console)

        def show(chunk: bytes, replay: Replay = replay, before: int = seen) -> None:
            replay.feed(chunk)
            note.write(attempt, before + replay.seen)

        try:
            lost = "the link ended"
            if host.stream("follow", job.id, attempt, str(seen), on_output=show, deadline=deadline):
                return
        except (LostConnection, BoardOffline) as error:
            lost = error.message.rstrip(".")
        except DeadlineExpired as late:
            raise DeadlineExpired(f"{late.message} {_goes_on(job, host)}") from None
        finally:
            replay.close()
        seen += replay.seen
        failures = 0 if replay.seen else failures + 1
        pause = ATTEMPTS.pause_after(failures)
        if pause is None:
            raise LostConnection(f"{lost}. {_goes_on(job, host)}", remedy=COME_BACK)
        session.console.detail(f"{host.serial}: {lost}; trying again")
        time.sleep(min(pause, deadline.remaining))


def _goes_on(job: Job, host: BuildHost) -> str:
    return (
        f"The build of {job.title} goes on on {host.serial}: the same command follows it and takes what it builds; "
        "with --stop it is ended."
    )


def _read_result(host: BuildHost, job: Job, attempt: str) -> Mapping[str, Any]:
    answer = host.persist(lambda: host.ask("result", job.id, attempt))
    if answer["result"] is None:
        said = f": {answer['stderr']}" if answer["stderr"] else "."
        raise BuildError(
            f"The build of {job.title} ended on {host.serial} without a result, as when it is killed{said}",
            remedy="Build again: what was compiled is kept.",
        )
    return dict(answer["result"])
