"""Large files to a board over SSH: one stream, which the board hashes while it writes it.

The file grows as ``joined`` in the same folder as one that hdc sends in chunks (`deploy.transfer.chunks`). What is there
from an earlier try counts when its hash, there and here, is the same; then only the rest is sent.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from core.deadline import Deadline
from core.errors import (
    Busy,
    ContentDiffers,
    Failure,
    LostConnection,
    PermissionOnBoard,
)
from core.files import human_bytes
from core.session import Session
from deploy.board.render import render_script
from deploy.board.script import quote
from deploy.ssh.board import SshBoard, said_no
from deploy.transfer.chunks import Grown
from deploy.transfer.early_end import EarlyEnd
from deploy.transfer.stall import GIVEN_UP_AFTER, StallWatch
from deploy.transfer.store import (
    HASH_BYTES_PER_SECOND,
    SLOWEST_LINK,
    StoredFile,
    file_changed,
    hash_part,
    parts_folder,
    store_folder,
)

TRIES = 2
"""How often the same bytes are sent before it is an error, and a link is made anew without one more byte arriving."""
POLL_SECONDS = 1.0
SHA256_DIGITS = 64
ASK_SECONDS = 20.0
PYTHONS = ("/usr/bin/python3", "python3")
"""The system's own first: what users put before it may be a script that looks for one."""
BROKEN_OFF = 70
BY_PYTHON = f"""
import hashlib, sys
hashed, room, count = hashlib.sha256(), memoryview(bytearray(1 << 18)), 1
try:
    with open(0, "rb", 0) as source, open(sys.argv[1], "ab", 0) as target:
        while count:
            count = source.readinto(room)
            left = room[:count]
            while left:
                left = left[target.write(left):]
            hashed.update(room[:count])
except OSError as error:
    print(error, file=sys.stderr)
    sys.exit({BROKEN_OFF})
print(hashed.hexdigest())
"""
"""Writes and hashes in one process: two, with a pipe between them, take a quarter longer where cores are scarce."""


def send_streamed(
    session: Session,
    board: SshBoard,
    file: StoredFile,
    *,
    tool: str,
    fresh: bool,
    deadline: Deadline,
    reach: Callable[[int], None],
) -> Grown:
    """Sends what the board lacks of `file`, and verifies all of it; `tool` hashes there when nothing quicker does.

    When it is `fresh`, nothing of it was there just now. `reach` is told how many bytes of the file are there. When this
    raises, the next call goes on from what has arrived.
    Raises TransferError, TransferStalled, ContentDiffers, NoSpaceOnBoard, PermissionOnBoard, LostConnection, …
    """
    push = _Push(session=session, board=board, file=file, tool=tool, fresh=fresh, deadline=deadline, reach=reach)
    try:
        return push.run()
    except Failure:
        if not file.has_changed:
            raise
        # What was sent is of no use: the file here is no longer what it was.
        push.throw_away()
        raise file_changed(file.local) from None
    finally:
        if not push.done and push.there:
            session.console.info(
                f"{human_bytes(push.there)} of {file.local.name} are on board {board.serial}; "
                "the next push goes on from there"
            )


def bring_on(session: Session, bring: Callable[[], str], there: Callable[[], int]) -> str:
    """What `bring` says in the end, which is called again while it says nothing, or the link is lost but more has come `there`."""
    losses, most = 0, 0
    while True:
        try:
            if said := bring():
                return said
        except LostConnection as lost:
            losses = losses + 1 if there() <= most else 1
            most = max(most, there())
            if losses > TRIES:
                raise
            session.console.warn(f"{lost.message} Going on from what is there.")


@dataclass(kw_only=True)
class _Push:
    """One file on its way. `there` is how many bytes have arrived, as far as is known here."""

    session: Session
    board: SshBoard
    file: StoredFile
    tool: str
    fresh: bool
    deadline: Deadline
    reach: Callable[[int], None]
    there: int = 0
    sent: int = 0
    wrong: int = 0
    """How often something arrived that was not what was sent."""
    done: bool = False

    def __post_init__(self) -> None:
        here = f"{platform.node()} {self.session.settings.data}"
        self.computer = hashlib.sha256(here.encode()).hexdigest()[:12]
        self.store = store_folder(self.board.profile)
        self.folder = parts_folder(self.file)

    def run(self) -> Grown:
        found_as = bring_on(self.session, self._bring, lambda: self.there)
        self.done = True
        return Grown(bytes_sent=self.sent, found_as=found_as, proven=found_as != self.file.sha256)

    def _bring(self) -> str:
        """Where the file lies when all of it is there; empty when that must be tried again. Raises LostConnection."""
        offset = 0
        if not self.fresh:
            there = self._find_begin()
            if there is None:
                return self.file.sha256
            offset = there
            if offset and not self._is_right(offset):
                self.session.console.warn(
                    f"what is on board {self.board.serial} of {self.file.local.name} is not what it should be; "
                    "sending all of it"
                )
                self._keep(offset := 0)
        self.fresh = False
        self.reach(offset)
        is_there = offset == self.file.size or self._send_from(offset)
        return f"{self.folder}/joined" if is_there else ""

    def throw_away(self) -> None:
        """Removes what is there of the file."""
        self.there = 0
        with contextlib.suppress(Failure):  # What is told is why.
            self._ask(f"rm -rf {quote(f'{self.store}/{self.folder}')}", 30)

    # what is there ---------------------------------------------------------------------------------

    def _find_begin(self) -> int | None:
        """How far the file is there, when nobody else writes to it any more; None when somebody has brought all of it."""
        end, told, grew, size, stored = "", False, time.monotonic(), -1, ""
        while True:
            text = self._ask(
                render_script(
                    "begin_stream",
                    store=self.store,
                    folder=self.folder,
                    stored=stored,
                    end=end,
                    size=self.file.size,
                ),
                60,
            )
            if re.search(r"^there$", text, re.MULTILINE):
                return None
            busy = re.search(r"^busy (\d+) (\w+)-(\d+)$", text, re.MULTILINE)
            if busy is None:
                break
            if int(busy[1]) != size:
                size, grew = int(busy[1]), time.monotonic()
            if self._is_left_behind(busy[2], int(busy[3])) or time.monotonic() - grew > GIVEN_UP_AFTER:
                end = f"{busy[2]}-{busy[3]}"
                continue
            name, serial = self.file.local.name, self.board.serial
            if self.deadline.expired:
                raise Busy(f"{name} is still being sent to board {serial} by another ohforge.")
            if not told:
                there = human_bytes(size)
                self.session.console.info(
                    f"another ohforge sends {name} to board {serial} ({there} are there); waiting"
                )
            told, stored = True, self.file.sha256
            time.sleep(min(POLL_SECONDS, self.deadline.remaining))
        found = re.search(r"^at (\d+)$", text, re.MULTILINE)
        if found is None:
            said = text.strip()[-300:] or f"{self.store} cannot be written"
            raise PermissionOnBoard(f"Board {self.board.serial}: {said}.")
        self.there = int(found[1])
        return self.there

    def _is_left_behind(self, computer: str, process: int) -> bool:
        """Whether what writes there was sent for by this process, or by one of this computer that is dead."""
        if computer != self.computer or process == os.getpid():
            return computer == self.computer
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False

    def _is_right(self, count: int) -> bool:
        """Whether what is there is what the file begins with, by the hash of it on both sides."""
        self.session.console.info(
            f"{human_bytes(count)} of {self.file.local.name} are on the board from an earlier try"
        )
        script = render_script("hash_stream", tool=self.tool, file=f"{self.store}/{self.folder}/joined")
        with ThreadPoolExecutor(1) as pool:
            here = pool.submit(hash_part, self.file.local, 0, count)
            there = self._ask(script, 60 + count / HASH_BYTES_PER_SECOND).partition(" ")[0].strip()
            if len(there) != SHA256_DIGITS:
                return there == hash_part(self.file.local, 0, count, "md5")
            return there == here.result()

    def _keep(self, count: int) -> None:
        """Takes away what is there beyond the first so many bytes."""
        joined = quote(f"{self.store}/{self.folder}/joined")
        self._ask(f"truncate -s {count} {joined} 2>/dev/null || : >{joined}", 30)
        self.there = count

    def _ask(self, script: str, seconds: float) -> str:
        waiting = self.deadline.within(seconds, f"board {self.board.serial} to prepare for a large file")
        return self.board.shell(script, deadline=waiting).text

    # the stream --------------------------------------------------------------------------------------

    def _send_from(self, offset: int) -> bool:
        """Sends what comes after so many bytes; False when it is not there as it is here. Raises LostConnection."""
        script = render_script(
            "write_stream",
            store=self.store,
            folder=self.folder,
            offset=offset,
            owner=f"{self.computer}-{os.getpid()}",
            pythons=PYTHONS,
            by_python=BY_PYTHON,
            broken_off=BROKEN_OFF,
            tool=self.tool,
        )
        with ThreadPoolExecutor(1) as pool:
            part = pool.submit(hash_part, self.file.local, offset, self.file.size) if offset else None
            answer = self._stream(script, offset)
            if answer.size == self.file.size and answer.hash == self._expected(answer.hash, offset, part):
                return True
        if answer.said:
            subject = f"Board {self.board.serial}, sending {self.file.local.name}"
            raise said_no(subject, "; ".join(answer.said)[-300:])
        if answer.hash:
            self._count_failure(offset)
        else:  # Somebody else writes to it.
            time.sleep(min(POLL_SECONDS, self.deadline.remaining))
        return False

    def _expected(self, said: str, offset: int, part: Future[str] | None) -> str:
        """What the board must say of the bytes from `offset` on, with the algorithm that it has."""
        if len(said) != SHA256_DIGITS:
            return hash_part(self.file.local, offset, self.file.size, "md5")
        return part.result() if part is not None else self.file.sha256

    def _stream(self, script: str, offset: int) -> Answer:
        """Sends the bytes from `offset` on. Raises LostConnection."""
        name, count = self.file.local.name, self.file.size - offset
        sending = self.deadline.within(60 + count / SLOWEST_LINK, f"{name} on its way to board {self.board.serial}")
        end = EarlyEnd()
        watch = StallWatch(
            session=self.session, serial=self.board.serial, name=name, size=self.file.size, ask=self._ask_size, end=end
        )

        def tell(there: int) -> None:
            self.there = there
            watch.hear(there)
            self.reach(min(there, self.file.size))

        answer = Answer(on_size=tell)
        with self.file.local.open("rb", buffering=0) as source, watch.watching():
            source.seek(offset)
            status = self.board.run_with_file(script, end.hold(sending), answer.take, source=source)
            self.sent += source.tell() - offset
        if status is None:
            raise LostConnection(f"Board {self.board.serial}: the link ended while {name} was being sent.")
        return answer

    def _ask_size(self) -> int | None:
        """How many bytes are there; None when the board does not say."""
        with contextlib.suppress(Failure, ValueError):
            return int(self._ask(f"wc -c <{quote(f'{self.store}/{self.folder}/joined')}", ASK_SECONDS))
        return None

    def _count_failure(self, offset: int) -> None:
        """Takes away what is wrong. Raises TransferError when the file here is another one by now, ContentDiffers."""
        name, serial = self.file.local.name, self.board.serial
        if hash_part(self.file.local, 0, self.file.size) != self.file.sha256:
            self.throw_away()
            raise file_changed(self.file.local)
        self._keep(offset)
        self.wrong += 1
        if self.wrong >= TRIES:
            raise ContentDiffers(
                f"Board {serial}: {name} arrived with another content, twice. The wrong part was removed."
            )
        self.session.console.warn(f"{name} is not on board {serial} as it should be; sending it again")


@dataclass(kw_only=True)
class Answer:
    """What the board says while it writes or reads: in the end the hash of that, and the bytes that are there."""

    on_size: Callable[[int], None] = lambda there: None
    hash: str = ""
    size: int = 0
    said: list[str] = field(default_factory=list)
    _pending: bytes = b""

    def take(self, chunk: bytes) -> None:
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        for line in lines:
            word, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
            if word == "there" and rest.isdigit():
                self.on_size(int(rest))
            elif word == "hash" and rest:
                self.hash, _, size = rest.partition(" ")
                self.size = int(size) if size.isdigit() else 0
            elif word:
                self.said.append(f"{word} {rest}".strip())
