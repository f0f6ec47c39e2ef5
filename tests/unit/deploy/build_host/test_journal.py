"""What a build says on its host is what is shown here."""

from __future__ import annotations

import io
import json

import pytest

from core.console import Console, Verbosity
from deploy.build_host.host import make_error
from deploy.build_host.journal import JournalConsole, Replay


def _say(console: Console) -> None:
    console.chosen("toolchain", "zig", "--toolchain")
    console.detail("+ cc main.c")
    console.info("building")
    console.table(["WHAT", "SIZE"], [["hello", "7"]])
    console.warn("old")


@pytest.mark.parametrize("verbosity", [Verbosity.QUIET, Verbosity.NORMAL, Verbosity.VERBOSE])
@pytest.mark.parametrize("size", [1, 1000])
def test_a_replay_shows_what_the_same_words_would_have_shown(
    verbosity: Verbosity, size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file = io.StringIO()
    _say(JournalConsole(file))
    written = file.getvalue().encode()
    replay = Replay(Console(verbosity=verbosity))
    for start in range(0, len(written), size):
        replay.feed(written[start : start + size])
    shown = capsys.readouterr()
    _say(Console(verbosity=verbosity))
    if verbosity is Verbosity.QUIET:  # Tables are shown with --quiet too; of a host they are as all it says.
        assert "WHAT" not in shown.out
        assert shown.err == "warning: old\n"
    else:
        assert shown == capsys.readouterr()
    assert replay.seen == len(written)


def test_what_was_cut_within_a_line_is_shown_once_when_it_comes_again(capsys: pytest.CaptureFixture[str]) -> None:
    file = io.StringIO()
    console = JournalConsole(file)
    console.info("first")
    console.info("second")
    written = file.getvalue().encode()
    cut = Replay(Console())
    cut.feed(written[:-5])
    cut.close()
    Replay(Console()).feed(written[cut.seen :])
    assert capsys.readouterr().out == "first\nsecond\n"


def test_steps_are_noted_with_all_that_a_late_reader_needs(capsys: pytest.CaptureFixture[str]) -> None:
    file = io.StringIO()
    with JournalConsole(file).progress("compiling", 3, "steps") as bar:
        bar.say("main.c")
        bar.advance(3)
    events = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [(event["kind"], event.get("done")) for event in events] == [("at", 0), ("at", 3), ("end", None)]
    assert {**events[1], "step": 0} == {
        "kind": "at",
        "step": 0,
        "title": "compiling",
        "unit": "steps",
        "done": 3,
        "total": 3,
        "text": "main.c",
    }
    replay = Replay(Console())
    replay.feed(f"{json.dumps(events[1])}\n{json.dumps(events[2])}\n".encode())
    replay.feed(b"Traceback of something\n")
    assert capsys.readouterr().out == ""


def test_an_error_of_the_host_is_the_same_error_here() -> None:
    there = {"code": "OHF6802", "category": "toolchain", "message": "No SDK.", "remedy": "Fetch it."}
    error = make_error(there, "ssh://arm-server")
    assert (type(error).__name__, error.exit_status, error.remedy) == ("SdkNotFound", 68, "Fetch it.")
    assert error.message == "No SDK.\n(on the build host ssh://arm-server)"
