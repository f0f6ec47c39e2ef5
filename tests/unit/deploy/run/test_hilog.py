"""A board's log: which lines are wanted, which belong to a run, and what of it is told."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import pytest

from core.errors import BoardError, Interrupted, UsageError
from core.session import Session
from deploy.board.clock import BoardClock, read_clock
from deploy.board.protocol import ShellResult
from deploy.run.diagnosis import keep_log
from deploy.run.hilog import (
    LogFilter,
    capture_log,
    is_within,
    last_run,
    parse_line,
    read_filter,
    show_log,
)
from deploy.run.record import start_record
from tests.support.local_board import LocalBoard
from tests.support.run_requests import make_request

OVER = ShellResult(exit_code=0, output=b"", seconds=0.1)

LINES = [
    "11-15 15:51:02.087  2823  2824 I A01B05/AOD: a --> b: c",
    "11-15 15:51:02.110  1197  1197 E C01406/OHOS::RS: [Load] Can't find",
    "11-15 15:51:03.000  1197  1197 W C02102/com.example/MS_LITE: fallback to CPU",
    "11-15 15:51:04.000000123     7     8 D A00000/x:",
]


def fake_hilog(board: LocalBoard, monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> None:
    """A board command that prints these lines and its own arguments as a last one of another form."""
    folder = board.folder / "bin"
    folder.mkdir()
    (folder / "log").write_text("".join(f"{line}\n" for line in lines))
    (folder / "hilog").write_text(f"#!/bin/sh\ncat {folder}/log\n")
    (folder / "hilog").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.fixture
def board(tmp_path: Path) -> LocalBoard:
    return LocalBoard(tmp_path / "board")


def test_the_log_of_a_run_takes_no_longer_than_the_run_has_left_of_its_time(
    session: Session, board: LocalBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(board, "shell", lambda script, *, deadline, on_output: asked.append(deadline.seconds) or OVER)
    request = make_request(tmp_path / "program", timeout=40.0)
    record = start_record(session, program="demo", board=board.serial, content={})
    clock = BoardClock(local=datetime(2026, 1, 1), epoch=0.0, step=0.0, asked=0.0, answered=0.0)
    for ended in (15.0, 40.0, 55.0):
        keep_log(session, board, request, record, clock, (0.0, ended), needed=True)
    # When nothing is left, some seconds all the same: why a program did not end often stands in the log.
    assert asked == [25.0, 10.0, 10.0]


def test_ctrl_c_while_the_log_is_read_is_heard(
    session: Session, board: LocalBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(script: str, **_: object) -> None:
        raise Interrupted("as a board does whose command was interrupted")

    monkeypatch.setattr(board, "shell", interrupted)
    record = start_record(session, program="demo", board=board.serial, content={})
    clock = BoardClock(local=datetime(2026, 1, 1), epoch=0.0, step=0.0, asked=0.0, answered=0.0)
    with pytest.raises(Interrupted):
        keep_log(session, board, make_request(tmp_path / "program"), record, clock, (0.0, 1.0), needed=True)


def test_the_lines_of_every_release_are_understood() -> None:
    first, second, third, fourth = map(parse_line, LINES)
    assert first is not None and second is not None and third is not None and fourth is not None
    assert (first.pid, first.tid, first.level, first.domain, first.tag, first.text) == (
        *(2823, 2824, "I", "A01B05", "AOD"),
        "a --> b: c",
    )
    assert (second.tag, second.text) == ("OHOS::RS", "[Load] Can't find")
    assert (third.tag, third.level) == ("MS_LITE", "W")
    assert (fourth.tag, fourth.text, fourth.time) == ("x", "", "11-15 15:51:04.000000123")
    for other in ("", "  continued", "Usage: hilog", "11-15 15:51:02.087 I text"):
        assert parse_line(other) is None


@pytest.mark.parametrize(
    ("given", "levels"),
    [
        ("", "DIWEF"),
        ("w", "WEF"),
        ("WARN", "WEF"),
        ("F", "F"),
        ("D", "DIWEF"),
        ("I,E", "IE"),
        ("W/E/F", "WEF"),
        ("error fatal", "EF"),
    ],
)
def test_one_level_stands_for_all_that_are_graver_and_several_for_themselves(given: str, levels: str) -> None:
    assert read_filter(given).levels == levels


@pytest.mark.parametrize("given", ["V", "verbose", "W,Q", "DI"])
def test_a_level_that_hilog_lacks_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="hilog has no level"):
        read_filter(given)
    with pytest.raises(UsageError, match="empty"):
        read_filter("", [""])


def test_times_without_a_year_are_found_over_the_end_of_a_year() -> None:
    window = (datetime(2017, 12, 31, 23, 59, 50), datetime(2018, 1, 1, 0, 0, 10))
    assert is_within("12-31 23:59:50.000", window)
    assert is_within("01-01 00:00:09.999999999", window)
    assert not is_within("12-31 23:59:49.999", window)
    assert not is_within("01-01 00:00:10.001", window)
    assert not is_within("02-29 00:00:00.000", window)
    # hilog cuts off what is below a millisecond.
    exact = (datetime(2024, 2, 29, 1, 2, 3, 4900), datetime(2024, 2, 29, 1, 2, 3, 4950))
    assert is_within("02-29 01:02:03.004", exact)


def test_the_window_is_by_the_boards_clock_and_never_too_narrow() -> None:
    # The board said 10:00:00.5 on 5 August 2017 some time between 1000.0 and 1000.2 of the host.
    clock = read_clock("@@clock\n2017-08-05 10:00:00 500000000 1501927200\n", 1000.0, 1000.2)
    assert clock is not None
    begin, end = clock.window(1001.0, 1003.0)
    assert begin == datetime(2017, 8, 5, 10, 0, 1, 300000)
    assert end == datetime(2017, 8, 5, 10, 0, 3, 501000)
    assert clock.epoch_at(1001.0) == pytest.approx(1501927201.3)
    assert clock.as_json() == {"local": "2017-08-05T10:00:00.500", "ahead_seconds": 1501926200.4}


def test_a_clock_without_parts_of_a_second_widens_the_window() -> None:
    clock = read_clock("2017-08-05 10:00:00 N 1501927200", 1000.0, 1000.0)
    assert clock is not None
    assert clock.window(1000.0, 1000.0) == (datetime(2017, 8, 5, 10, 0, 0), datetime(2017, 8, 5, 10, 0, 1))
    assert read_clock("date: not found", 0.0, 1.0) is None


def test_only_the_lines_of_the_window_with_what_belongs_to_them_are_captured(
    session: Session, board: LocalBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_hilog(board, monkeypatch, [*LINES[:2], "  of the second", LINES[2], "  of the third", *LINES[3:]])
    window = (datetime(2026, 11, 15, 15, 51, 2, 90000), datetime(2026, 11, 15, 15, 51, 3, 500000))
    said, _ = capture_log(session, board, tmp_path, window, LogFilter())
    assert (tmp_path / "hilog.log").read_text().splitlines() == [
        LINES[1],
        "  of the second",
        LINES[2],
        "  of the third",
    ]
    assert said == {
        "file": "hilog.log",
        "lines": 2,
        "levels": "DIWEF",
        "tags": [],
        "from": "2026-11-15T15:51:02.090",
        "to": "2026-11-15T15:51:03.500",
        "whole": True,
    }
    chosen, watched = capture_log(session, board, tmp_path, window, read_filter("F", ["AOD"]), ("MS_LITE", "x"))
    assert chosen is not None and chosen["lines"] == 0
    assert watched == [LINES[2]]


@pytest.mark.parametrize(
    "loss",
    [
        "11-15 15:51:03.000  9  9 W C02C02/LOGLIMIT: 108 line(s) dropped in a second!",
        "11-15 15:51:03.000  0  0 I C00000/HiLog: ========Slow reader missed log lines: 137",
        "11-15 15:51:03.000  9  9 W A00032/HiLog: write socket failed, 8 line(s) dropped!",
    ],
)
def test_lines_that_hilog_dropped_are_said(
    session: Session,
    board: LocalBoard,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    loss: str,
) -> None:
    fake_hilog(board, monkeypatch, [*LINES, loss])
    inside = (datetime(2026, 11, 15, 15, 51), datetime(2026, 11, 15, 15, 52))
    said, _ = capture_log(session, board, tmp_path, inside, LogFilter(levels="F"))
    assert said is not None and (said["whole"], said["lines"]) == (False, 0)
    assert "has lost lines of this run" in capsys.readouterr().err
    before = (datetime(2026, 11, 15, 15, 40), datetime(2026, 11, 15, 15, 41))
    said, _ = capture_log(session, board, tmp_path, before, LogFilter())
    assert said is not None and said["whole"]


def test_a_buffer_that_does_not_reach_back_to_the_begin_is_said(
    session: Session, board: LocalBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_hilog(board, monkeypatch, LINES[1:2] * 150)
    window = (datetime(2026, 11, 15, 15, 51, 0), datetime(2026, 11, 15, 15, 52))
    said, _ = capture_log(session, board, tmp_path, window, LogFilter())
    assert said is not None and said["whole"] is False


def test_a_board_without_hilog_leaves_no_file(
    session: Session, board: LocalBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    window = (datetime(2026, 1, 1), datetime(2026, 1, 2))
    assert capture_log(session, board, tmp_path, window, LogFilter()) == (None, [])
    assert not (tmp_path / "hilog.log").exists()
    with pytest.raises(BoardError, match="has no hilog"):
        show_log(session, board, LogFilter(), print)


def test_the_log_is_shown_with_the_last_lines_only_or_since_a_time(
    session: Session, board: LocalBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.strftime("%m-%d %H:%M:%S", time.localtime(time.time() + 1)) + ".000"
    fresh = f"{now}     1     1 I A00000/new: line"
    fake_hilog(board, monkeypatch, [*LINES, fresh])
    shown: list[str] = []
    assert show_log(session, board, read_filter("W"), shown.append) == 2
    assert shown == [LINES[1], LINES[2]]
    shown.clear()
    show_log(session, board, LogFilter(), shown.append, lines=2)
    assert shown == [LINES[3], fresh]
    shown.clear()
    show_log(session, board, LogFilter(), shown.append, since=time.time() - 2)
    assert shown == [fresh]


def test_the_last_run_is_the_one_on_that_board(session: Session) -> None:
    with pytest.raises(UsageError, match="no record of a run on board mine"):
        last_run(session.settings.runs, "mine")
    before = int(time.time())
    for serial in ("mine", "other"):
        start_record(session, program="p", board=serial, content={"board": {"serial": serial}})
    (session.settings.runs / "99999999T000000Z-x-mine-0000").mkdir()
    (session.settings.runs / "99999999T000000Z-x-mine-0000" / "record.json").write_text("{")
    assert before <= last_run(session.settings.runs, "mine") <= time.time()


def test_a_clock_is_kept_with_the_facts_of_a_board() -> None:
    clock = BoardClock(local=datetime(2026, 1, 1), epoch=10.0, step=1.0, asked=9.0, answered=11.0)
    assert clock.as_json() == {"local": "2026-01-01T00:00:00.000", "ahead_seconds": 0.0}
