"""A large file in one piece, which the agent on the board hashes while it arrives (``follow`` in ``docs/agent.md``).

So no byte is written twice, and when the last one is there its hash is known as well. Here the same hashes are worked
out at the same time: those of the first 16 MiB, the first 32 MiB, and so on. Where they agree, all before agrees.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from core.deadline import Deadline
from core.errors import Failure, LostConnection, OhforgeError, TransferError
from core.session import Session
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.board.script import quote
from deploy.transfer import store
from deploy.transfer.early_end import EarlyEnd
from deploy.transfer.stall import StallWatch
from deploy.transfer.store import Digests, StoredFile, joined_path, parts_folder, store_folder

LAG = 8 * 1024 * 1024
"""How far behind its end a growing file is hashed: the daemon has several writes under way, which may end in any order."""
IDLE_SECONDS = 120.0
"""How long the agent waits for more: longer than a transfer that stands still is waited for here."""
ASK_SECONDS = 20.0
READY_SECONDS = 90.0
"""Whoever sends the same file may have to end first."""


@dataclass(frozen=True, kw_only=True)
class Followed:
    """What became of a file that was sent in one piece."""

    verified: int
    """Bytes from its begin that the board has as they are here."""
    whole: bool
    """Whether hdc says that all of it arrived."""
    differs: bool
    """Whether a byte after the verified ones is wrong."""
    failure: OhforgeError | None = None
    """Why it was broken off."""
    taken: bool = False
    """Whether `when_proven` was called: then it does not matter what hdc said."""


def send_followed(
    session: Session,
    board: Board,
    file: StoredFile,
    *,
    agent: str,
    deadline: Deadline,
    reach: Callable[[int], None],
    when_proven: Callable[[], None] | None,
) -> Followed | None:
    """Sends `file` to ``joined`` in its folder of parts; `agent` is the agent's path there.

    None when some of it is there already, or the agent cannot follow it: then nothing was sent. `reach` is told how many
    bytes are verified, and `when_proven` is called once all are, while hdc still ends. Raises what `Board.send` raises, but for what a second try may mend: that is in the answer; and
    TransferStalled.
    """
    follower = _Follower(board, file, agent, deadline)
    proving: list[Future[bool]] = []
    with ThreadPoolExecutor(3) as pool, follower.ended_by_errors():

        def reach_and_prove(count: int) -> None:
            reach(count)
            if count == file.size and when_proven is not None:
                proving.append(pool.submit(prove, when_proven))

        def prove(go_on: Callable[[], None]) -> bool:
            proven = not _differs(file.beginnings, follower.found)
            if proven:
                go_on()
            return proven

        following = pool.submit(follower.follow, fresh=True, reach=reach_and_prove)
        if not follower.is_ready(following):
            return None
        expected = pool.submit(lambda: file.beginnings)
        failure: OhforgeError | None = None
        watch = StallWatch(
            session=session,
            serial=board.serial,
            name=file.local.name,
            size=file.size,
            # As long as the agent speaks nothing is asked: a question would wait behind the file.
            ask=lambda: follower.ask_size() if following.done() else None,
        )
        follower.hear = watch.hear
        try:
            with watch.watching():
                board.send(file.local, follower.path, deadline=watch.end.hold(deadline))
        except (TransferError, LostConnection) as error:
            failure = error
            follower.early_end.end_after(0)
        with contextlib.suppress(Failure):  # What was not hashed on the way is hashed afterwards.
            following.result()
        here, there = expected.result(), dict(follower.found)
        taken = any(proof.result() for proof in proving)
        if failure is None and _differs(here, there):
            # Whatever was written late, or out of order, is there now.
            follower.found.clear()
            follower.follow(fresh=False, reach=lambda count: None)
            there = follower.found
    return Followed(
        verified=_agreed(here, there),
        whole=failure is None,
        differs=_differs(here, there),
        failure=failure,
        taken=taken,
    )


def _agreed(here: Digests, there: Digests) -> int:
    return max((count for count, digest in there.items() if here.get(count) == digest), default=0)


def _differs(here: Digests, there: Digests) -> bool:
    return any(here.get(count) != digest for count, digest in there.items())


@dataclass(kw_only=False)
class _Follower:
    """The agent's command on the board, and what it has said so far."""

    board: Board
    file: StoredFile
    agent: str
    deadline: Deadline
    early_end: EarlyEnd = field(default_factory=EarlyEnd)
    found: dict[int, str] = field(default_factory=dict)
    began: threading.Event = field(default_factory=threading.Event)
    hear: Callable[[int], None] = lambda there: None
    """Is told how many bytes are there, every second."""

    @property
    def path(self) -> str:
        return f"{store_folder(self.board.profile)}/{joined_path(self.file)}"

    def follow(self, *, fresh: bool, reach: Callable[[int], None]) -> None:
        """Runs until all is hashed. `fresh`: nothing of the file is there yet."""
        pending = b""

        def take(chunk: bytes) -> None:
            nonlocal pending
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                if line == b"ready":
                    self.began.set()
                elif found := re.fullmatch(rb"(\d+) ([0-9a-f]{64})", line):
                    self.found[int(found[1])] = found[2].decode()
                    reach(int(found[1]))
                elif found := re.fullmatch(rb"there (\d+)", line):
                    self.hear(int(found[1]))

        script = render_script(
            "follow",
            store=store_folder(self.board.profile),
            parts=parts_folder(self.file),
            agent=self.agent,
            fresh=fresh,
            size=self.file.size,
            step=store.STEP,
            lag=LAG if fresh else 0,
            idle=round(IDLE_SECONDS * 1000),
        )
        self.board.shell(script, deadline=self.early_end.hold(self.deadline), on_output=take, says_start=True)

    def is_ready(self, following: Future[None]) -> bool:
        """Waits until the file may be sent; False when it may not."""
        following.add_done_callback(lambda ended: self.began.set())
        waiting = self.deadline.within(READY_SECONDS, "the agent to be ready for a large file")
        return self.began.wait(waiting.remaining) and not following.done()

    def ask_size(self) -> int | None:
        """How many bytes are there; None when the board does not say."""
        question = f"wc -c <{quote(self.path)}"
        with contextlib.suppress(Failure, ValueError):
            return int(
                self.board.shell(question, deadline=self.deadline.within(ASK_SECONDS, "the size of a file")).text
            )
        return None

    @contextlib.contextmanager
    def ended_by_errors(self) -> Iterator[None]:
        """Ends the command on the board when the block is left by an error."""
        try:
            yield
        except BaseException:
            self.early_end.end_after(0)
            raise
