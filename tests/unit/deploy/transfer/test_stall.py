"""A transfer that stands still: told from a slow one, said while it lasts, ended in time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from core.deadline import Deadline
from core.errors import DeadlineExpired, TransferStalled
from core.session import Session
from deploy.board.script import MarkerReader, UntilMarker
from deploy.transfer import stall
from deploy.transfer.early_end import EarlyEnd
from deploy.transfer.progress import progress_shown
from deploy.transfer.stall import StallWatch
from deploy.transfer.watched import ended_by_silence
from tests.support.waiting import wait_until

SIZE = 40_000_000


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stall, "time", clock)
    return clock


@pytest.fixture
def make_watch(session: Session) -> Callable[..., StallWatch]:
    def make(ask: Callable[[], int | None] = lambda: None) -> StallWatch:
        return StallWatch(session=session, serial="b1", name="model.bin", size=SIZE, ask=ask)

    return make


def pass_time(clock: Clock, watch: StallWatch, seconds: float, tell: Iterator[int | None]) -> None:
    """Second by second, with the board's word for each (None: it says nothing)."""
    for _ in range(round(seconds)):
        clock.now += 1
        if (there := next(tell)) is not None:
            watch.hear(there)
        watch._look()


def always(value: int | None) -> Iterator[int | None]:
    while True:
        yield value


def test_a_slow_link_is_no_stall(
    clock: Clock, make_watch: Callable[..., StallWatch], capsys: pytest.CaptureFixture[str]
) -> None:
    watch = make_watch()
    # 100 kB a second, of which a daemon writes 400 kB at once.
    pass_time(clock, watch, 380, (second // 4 * 400_000 for second in range(1000)))
    assert not watch.stalled
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("word", "how"), [(None, "it does not answer"), (1_000_000, "it answers, but the file does not grow")]
)
def test_a_stall_is_said_after_10_seconds_and_ended_after_60(
    clock: Clock,
    make_watch: Callable[..., StallWatch],
    capsys: pytest.CaptureFixture[str],
    word: int | None,
    how: str,
) -> None:
    watch = make_watch()
    watch.hear(1_000_000)
    pass_time(clock, watch, 9, always(word))
    assert capsys.readouterr().err == ""
    pass_time(clock, watch, 50, always(word))
    assert capsys.readouterr().err.count(f"board b1 for 10 s ({how})") == 1
    assert not watch.stalled
    pass_time(clock, watch, 1, always(word))
    assert watch.stalled
    with (
        pytest.raises(TransferStalled, match=rf"for 60 s \(1\.0 MB of 40\.0 MB are there; {how}\)") as caught,
        watch.watching(),
    ):
        raise watch.end.hold(Deadline.after(1800, "the transfer")).error()
    assert "restart it when it is frozen" in caught.value.remedy


def test_a_pull_that_stands_still_is_told_in_its_own_words(
    clock: Clock, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    arrived = [1_000_000]
    watch = StallWatch(
        session=session, serial="b1", name="log.txt", size=SIZE, ask=lambda: arrived[0], way=stall.FROM_BOARD
    )
    pass_time(clock, watch, 30, always(None))
    told = capsys.readouterr().err
    assert "nothing more of log.txt has come from board b1 for 1" in told
    assert "answer" not in told  # Nobody knows.
    arrived[0] += 1
    pass_time(clock, watch, 7, always(None))
    assert "log.txt is coming again from board b1" in capsys.readouterr().out
    pass_time(clock, watch, 66, always(None))
    assert watch.stalled
    with pytest.raises(TransferStalled, match=r"\(1\.0 MB of 40\.0 MB are here\)") as caught, watch.watching():
        raise watch.end.hold(Deadline.after(1800, "the transfer")).error()
    assert "pull again" in caught.value.remedy


def test_what_goes_on_is_said_and_has_all_its_time_again(
    clock: Clock, make_watch: Callable[..., StallWatch], capsys: pytest.CaptureFixture[str]
) -> None:
    watch = make_watch()
    pass_time(clock, watch, 50, always(None))
    pass_time(clock, watch, 1, always(2_000_000))
    assert "model.bin goes on to board b1" in capsys.readouterr().out
    pass_time(clock, watch, 59, always(None))
    assert not watch.stalled


def test_a_file_that_is_there_whole_may_still_be_written_to_slow_storage(
    clock: Clock, make_watch: Callable[..., StallWatch]
) -> None:
    watch = make_watch()
    pass_time(clock, watch, 63, always(SIZE))  # 60 s, and 4 s for 40 MB at 10 MB a second
    assert not watch.stalled
    pass_time(clock, watch, 3, always(SIZE))
    assert watch.stalled


def test_a_silent_board_is_asked(clock: Clock, make_watch: Callable[..., StallWatch]) -> None:
    sizes = iter(range(1_000_000, 40_000_000, 1_000))
    watch = make_watch(lambda: next(sizes))
    pass_time(clock, watch, 200, always(None))
    assert not watch.stalled


def test_the_transfer_itself_is_ended(make_watch: Callable[..., StallWatch], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(stall, "GIVEN_UP_AFTER", 0.05)
    watch = make_watch()
    sending = watch.end.hold(Deadline.after(1800, "the transfer"))
    with pytest.raises(TransferStalled), watch.watching():
        wait_until("the end of the transfer", lambda: sending.expired)
        raise sending.error()


def test_another_deadline_is_no_stall(make_watch: Callable[..., StallWatch]) -> None:
    with pytest.raises(DeadlineExpired) as caught, make_watch().watching():
        raise Deadline.after(0, "the transfer").error()
    assert type(caught.value) is DeadlineExpired


def test_a_question_on_a_slow_link_has_as_much_time_as_the_transfer(session: Session) -> None:
    """Its end would end the server of hdc, and the transfer."""
    given: list[float] = []
    asked = threading.Event()

    def measure(deadline: Deadline) -> int:
        given.append(deadline.remaining)
        asked.set()
        return 1

    deadline = Deadline.after(600, "the transfer")
    with (
        session.console.progress("sending", 10) as progress,
        progress_shown(measure, 0, 10, progress, pause=0.001, deadline=deadline),
    ):
        assert asked.wait(30)
    assert given[0] > 500


def test_a_listing_is_waited_for_as_long_as_what_the_board_hashes_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    end, outer = EarlyEnd(), Deadline.after(5000, "the files")
    held = end.hold(outer)

    def left() -> int:
        return round(held.remaining)

    take = ended_by_silence(end, "b1")
    assert left() == 180
    take(b"sha256sum abc 5 644 a\0hashing - 4000000000 0 bi")
    assert left() == 60
    take(b"g\0")
    assert left() == 460
    take(b"sha256sum abc 4000000000 644 big\0")
    assert left() == 60
    for waiting in (held, UntilMarker.of(held, MarkerReader("token"))):
        assert "Board b1 has said nothing for 60 s" in waiting.error().message
    take(b"hashing - 999999999999 0 huge\0")
    assert left() == 5000
    assert held.error().message == outer.error().message
