"""``board.lock``, ``board.unlock`` and ``board.list``, seen as a user sees them."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import pytest

from commands.program import OhforgeProgram
from commands.source import _push_libraries
from core.errors import BoardBusy
from core.session import Session
from deploy.lease.lease import Lease, LeasePlace
from deploy.lease.owner import current_user, steady_time

SERIAL = "7001005458323933328a01bce16d3800"
TCP = "192.168.1.9:8710"


def call(*words: str) -> int:
    """Calls ohforge; gives the exit status."""
    try:
        OhforgeProgram().run(["ohforge", *words])
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code
    return 0


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return dict(json.loads(capsys.readouterr().out))


def held_by_anna(session: Session, serial: str) -> None:
    held_by_anna_at(LeasePlace.of(session, serial, emulated=False))


def held_by_anna_at(place: LeasePlace) -> None:
    owner = dataclasses.replace(current_user(), uid=4242, user="anna")
    now = time.time()
    lease = Lease(owner=owner, purpose="her series", since=now, until=now + 60, ends=steady_time() + 60)
    with place.change() as shared:
        shared.value["standing"] = dataclasses.asdict(lease)


def test_a_lock_stays_after_the_command_and_is_listed_until_it_is_released(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("board.lock", "--board", "dayu200", "--for", "2h", "--purpose", "night run", "--json") == 0
    lease = answer(capsys)["lease"]
    since, until = (time.mktime(time.strptime(lease[key], "%Y-%m-%dT%H:%M:%SZ")) for key in ("since", "until"))
    assert until - since == 7200
    assert call("board.list", "--json") == 0
    listed = {board["serial"]: board["lease"] for board in answer(capsys)["boards"]}
    assert listed["emulated-dayu200"]["purpose"] == "night run"
    assert listed["emulated-dayu200-arm64"] is None
    assert call("board.list") == 0
    assert "night run" in capsys.readouterr().out
    assert call("board.unlock", "--board", "emulated-dayu200", "--json") == 0
    assert [gone["purpose"] for gone in answer(capsys)["released"]] == ["night run"]
    assert call("board.unlock", "--board", "dayu200", "--json") == 0
    assert answer(capsys)["released"] == []


@pytest.mark.parametrize("serial", [SERIAL, TCP])
def test_a_board_that_is_not_connected_can_be_locked_and_released(
    serial: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("board.lock", "--board", serial) == 0
    assert call("board.unlock", "--board", serial) == 0
    assert serial in capsys.readouterr().out


def test_a_name_of_the_settings_means_its_serial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".invoke.yaml").write_text(f"ohforge:\n  boards:\n    bench: {{serial: {SERIAL}}}\n")
    assert call("board.lock", "--board", "bench", "--json") == 0
    assert answer(capsys)["board"] == SERIAL


def test_a_command_of_bytes_that_are_no_text_is_shown_with_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("board.shell", "--board", "dayu200", "--dry", "echo \udcff") == 0
    assert "echo \\udcff" in capsys.readouterr().out
    assert call("board.shell", "--board", "dayu200", "--dry", "--json", "echo \udcff") == 0
    assert [would["what"] for would in answer(capsys)["would"]] == ["echo \udcff"]


def test_words_behind_two_dashes_are_joined_by_blanks_which_the_help_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("board.shell", "--board", "dayu200", "--dry", "--json", "--", "printf", "%s|", "b  c") == 0
    assert [would["what"] for would in answer(capsys)["would"]] == ["printf %s| b  c"]
    assert call("board.shell", "--help") == 0
    assert "joined by blanks" in " ".join(capsys.readouterr().out.split())


def test_anothers_board_is_refused_with_the_status_for_busy(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    held_by_anna(session, SERIAL)
    assert call("board.lock", "--board", SERIAL, "--wait", "0", "--json") == 78
    error = answer(capsys)["error"]
    assert (error["code"], error["details"]["user"], error["details"]["purpose"]) == ("OHF7802", "anna", "her series")
    assert call("board.unlock", "--board", SERIAL) == 78
    assert call("board.unlock", "--board", SERIAL, "--force") == 0
    assert call("board.lock", "--board", SERIAL, "--wait", "0") == 0


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172800), (" 2H ", 7200)]
)
def test_a_time_is_written_in_the_usual_ways(text: str, seconds: int) -> None:
    from commands.words import read_duration

    assert read_duration("--for", text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1h", "1.5h", "h", "30m1h", "0", "99999d"])
def test_what_is_no_time_is_refused_before_anything_is_written(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("board.lock", "--board", SERIAL, f"--for={text}") == 64
    assert "OHF6401" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ("64K", 65536), ("500m", 524288000), ("2G", 2**31), ("2GB", 2**31)]
)
def test_a_size_is_written_in_the_usual_ways(text: str, size: int) -> None:
    from commands.words import read_size

    assert read_size("--larger-than", text) == size


@pytest.mark.parametrize("text", ["much", "-1", "1.5G", "G", "1T"])
def test_what_is_no_size_is_refused_before_anything_is_removed(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("board.clean", "--board", SERIAL, f"--larger-than={text}") == 64
    assert "OHF6401" in capsys.readouterr().err


def test_built_libraries_are_not_pushed_to_a_board_that_another_holds(session: Session, tmp_path: Path) -> None:
    place = LeasePlace.of(session, "emulated-dayu200", emulated=True)
    held_by_anna_at(place)
    timeouts = dataclasses.replace(session.settings.timeouts, lease=0.0)
    impatient = dataclasses.replace(session, settings=dataclasses.replace(session.settings, timeouts=timeouts))
    with pytest.raises(BoardBusy, match="anna"):
        _push_libraries(impatient, tmp_path, "/data/local/tmp/", "dayu200")
