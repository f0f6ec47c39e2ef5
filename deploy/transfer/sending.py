"""Files on their way to a board: each by the way that suits its size and the board's link."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from core.console import Progress
from core.deadline import Deadline
from core.errors import Failure, NoSpaceOnBoard, TransferError
from core.files import human_bytes
from core.session import Session
from core.spool import remove_abandoned_spools
from deploy.board.protocol import Board
from deploy.board.script import quote
from deploy.board.survey import Survey
from deploy.hdc.host import title_of
from deploy.ssh.board import SshBoard
from deploy.transfer.chunks import Grown, is_large, send_in_chunks
from deploy.transfer.confirm import Arrived, Verdict
from deploy.transfer.progress import progress_shown
from deploy.transfer.stall import TOLD_AFTER
from deploy.transfer.store import SLOWEST_LINK, StoredFile, file_changed, joined_path, part_path
from deploy.transfer.streamed import send_streamed

POLL_SECONDS = 2.0
Confirm = Callable[[Sequence[Arrived]], Verdict]


@dataclass(frozen=True, kw_only=True)
class Sending:
    """What is the same for all files of a push. `room`: bytes that chunks may take up on the board; None: not known."""

    session: Session
    board: Board
    survey: Survey
    room: int | None
    deadline: Deadline

    def send_all(self, files: Sequence[StoredFile], sent: dict[str, int], confirm: Confirm) -> Verdict:
        """Sends files and has them confirmed; adds to `sent` the bytes that each took. Raises as `push.place_files`."""
        arrived: list[Arrived] = []
        early: list[Future[Verdict]] = []
        if not files:
            return confirm(arrived)
        remove_abandoned_spools()
        total, done = sum(file.size for file in files), 0
        console, board = self.session.console, self.board
        console.info(f"sending {human_bytes(total)} in {len(files)} file(s) to {title_of(board)}")
        with (
            console.progress(f"sending to {board.serial}", total) as progress,
            ThreadPoolExecutor(1) as confirming,
        ):
            for file in files:
                progress.say(file.local.name)
                if is_large(file.size):

                    def reach(there: int, before: int = done) -> None:
                        progress.reach(before + there)

                    def confirm_early(last: StoredFile = file) -> None:
                        joined = Arrived(file=last, found_as=joined_path(last), proven=True)
                        early.append(confirming.submit(confirm, [*arrived, joined]))

                    grown = self._send_large(file, reach, confirm_early if file is files[-1] else None)
                    took, place = grown.bytes_sent, Arrived(file=file, found_as=grown.found_as, proven=grown.proven)
                else:
                    self._send_whole(file, done, progress)
                    took, place = file.size, Arrived(file=file, found_as=f"{file.sha256}.part")
                sent[file.sha256] = sent.get(file.sha256, 0) + took
                arrived.append(place)
                done += file.size
                progress.reach(done)
        return early[0].result() if early else confirm(arrived)

    def _send_large(
        self, file: StoredFile, reach: Callable[[int], None], when_proven: Callable[[], None] | None
    ) -> Grown:
        session, tool, deadline = self.session, self.survey.hash_command, self.deadline
        if isinstance(self.board, SshBoard):
            fresh = not self.survey.parts.get(file.fingerprint)
            return send_streamed(session, self.board, file, tool=tool, fresh=fresh, deadline=deadline, reach=reach)
        return send_in_chunks(
            session,
            self.board,
            file,
            tool=tool,
            agent=self.survey.agent,
            room=self.room,
            deadline=deadline,
            reach=reach,
            when_proven=when_proven,
        )

    def _send_whole(self, file: StoredFile, before: int, progress: Progress) -> None:
        what = f"{file.local.name} on its way to board {self.board.serial}"
        sending = self.deadline.within(60 + file.size / SLOWEST_LINK, what)

        @functools.cache
        def tell() -> None:
            self.session.console.warn(
                f"board {self.board.serial} has not told for {TOLD_AFTER:.0f} s how much of {file.local.name} is there; "
                f"that is given up after {sending.seconds:.0f} s in all"
            )

        measure = functools.partial(self._size_there, file, tell)
        with progress_shown(measure, before, file.size, progress, pause=POLL_SECONDS, deadline=sending):
            self._send_part(file, sending)

    def _send_part(self, file: StoredFile, deadline: Deadline) -> None:
        remote = part_path(self.board.profile, file.sha256)
        try:
            self.board.send(file.local, remote, deadline=deadline)
        except NoSpaceOnBoard:
            self._remove(remote)
            raise
        except TransferError as error:
            if file.has_changed:
                self._remove(remote)
                raise file_changed(file.local) from error
            self.board.send(file.local, remote, deadline=deadline)

    def _remove(self, remote: str) -> None:
        with contextlib.suppress(Failure):  # What the user must hear of is why.
            self.board.shell(f"rm -f {quote(remote)}", deadline=Deadline.after(15, "a partial file to be removed"))

    def _size_there(self, file: StoredFile, tell: Callable[[], None], deadline: Deadline) -> int | None:
        question = f"wc -c <{quote(part_path(self.board.profile, file.sha256))} 2>/dev/null"
        silence = threading.Timer(TOLD_AFTER, tell)
        silence.daemon = True
        silence.start()
        try:
            answer = self.board.shell(question, deadline=deadline).text.strip()
        except Failure:
            return None
        finally:
            silence.cancel()
        return int(answer) if answer.isdigit() else 0
