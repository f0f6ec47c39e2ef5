"""Which board a name, or none, means."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from core.errors import (
    BoardOffline,
    BoardUnauthorised,
    HdcNotFound,
    HdcServerError,
    NoBoard,
    SeveralBoards,
    UnknownName,
    UsageError,
)
from core.process import Result
from core.session import Session
from core.settings import BoardEntry
from core.testing import FakeRunner
from deploy.hdc import choose
from deploy.hdc.board import HdcBoard
from deploy.hdc.choose import choose_board, find_hdc
from deploy.hdc.targets import Target, read_targets
from tests.support.hdc_lists import KEY, LIST, NONE, ONE, OTHER, SILENT, TWO, UNAUTHORISED, MakeSession

# what hdc lists ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("[Empty]\r\thdc\n", []),
        ("[Empty]\r\n", []),
        ("", []),
        (f"{KEY}\t\tUSB\tConnected\tlocalhost\thdc\n", [(KEY, "Connected", "USB")]),
        (f"{KEY}\t\tUSB\tOffline\t\thdc\n", [(KEY, "Offline", "USB")]),  # 3.2 leaves the name empty
        (f"{KEY}\t\tUSB\tUNKNOW\t\thdc\n", [(KEY, "Unknown", "USB")]),
        (f"{KEY}\t\tUSB\tUnauthorized\tunknown...\thdc\n", [(KEY, "Unauthorized", "USB")]),
        ("1" * 32 + "\t\tUSB\tConnected\tlocalhost\thdc\n", [("1" * 32, "Connected", "USB")]),
        ("1" * 33 + "\t\tUSB\tConnected\tlocalhost\thdc\n", []),
        ("a board\t\tUSB\tConnected\tlocalhost\thdc\n", []),
        ("ERROR: ld.so: object '/x.so' from LD_PRELOAD cannot be preloaded: ignored.\n", []),
        ("COM3\t\tUART\tReady\tunknown...\thdc\n", [("COM3", "Ready", "UART")]),
    ],
)
def test_the_list_of_every_version_is_understood(text: str, targets: list[tuple[str, str, str]]) -> None:
    assert read_targets(text) == [Target(key=key, state=state, connection=link) for key, state, link in targets]


# without a name ------------------------------------------------------------------------------------


def test_without_any_hdc_the_emulated_board_is_meant_and_nothing_is_run(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    session = dataclasses.replace(session, runner=FakeRunner())
    board = choose_board(session)
    assert (board.serial, board.emulated, board.profile.name) == ("emulated-dayu200", True, "dayu200")
    assert capsys.readouterr().out == "board: emulated dayu200 (no hdc is installed, so there is no real board)\n"


def test_the_only_connected_board_is_meant(with_hdc: MakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    board = choose_board(with_hdc([(LIST, ONE)]))
    assert (board.serial, board.emulated) == (KEY, False)
    assert f"board: {KEY} (the only connected board" in capsys.readouterr().out


def test_with_no_board_connected_the_emulated_one_is_meant(with_hdc: MakeSession) -> None:
    assert choose_board(with_hdc([(LIST, NONE)])).emulated


def test_of_two_boards_none_is_taken_and_both_are_named(with_hdc: MakeSession) -> None:
    with pytest.raises(SeveralBoards, match=rf"{KEY}, {OTHER}") as caught:
        choose_board(with_hdc([(LIST, TWO)]))
    assert "--board" in caught.value.remedy


def test_a_board_that_waits_for_its_dialog_is_not_passed_over(with_hdc: MakeSession) -> None:
    waiting = f"{KEY}\t\tUSB\tUnauthorized\tunknown...\thdc\n".encode()
    with pytest.raises(BoardUnauthorised, match=KEY) as caught:
        choose_board(with_hdc([(LIST, waiting), (["-t", KEY, "shell"], UNAUTHORISED)]))
    assert "dialog" in caught.value.remedy
    assert "--board dayu200" in caught.value.remedy


def test_an_offline_board_beside_a_connected_one_does_not_count(with_hdc: MakeSession) -> None:
    text = ONE + f"{OTHER}\t\tTCP\tOffline\tunknown...\thdc\n".encode()
    assert choose_board(with_hdc([(LIST, text)])).serial == KEY


@pytest.mark.parametrize("state", ["Offline", "Ready", "Unknown"])
def test_the_emulated_board_never_takes_the_place_of_a_real_one_that_hdc_knows(
    with_hdc: MakeSession, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    listed = f"{OTHER}\t\tTCP\t{state}\tunknown...\thdc\n".encode()
    with pytest.raises(BoardOffline, match=rf"{OTHER} \({state.lower()}\)") as caught:
        choose_board(with_hdc([(LIST, listed)]))
    assert "--board dayu200" in caught.value.remedy
    assert "emulated" not in capsys.readouterr().out


def test_what_other_programs_say_on_standard_error_is_no_board(with_hdc: MakeSession) -> None:
    warning = b"/bin/sh: warning: setlocale: LC_ALL: cannot change locale\nwarning\n"
    listed = Result(argv=(), exit_code=0, stdout=ONE, stderr=warning, seconds=0.1)
    assert choose_board(with_hdc([(LIST, listed)])).serial == KEY
    none = Result(argv=(), exit_code=0, stdout=NONE, stderr=TWO, seconds=0.1)
    assert choose_board(with_hdc([(LIST, none)])).emulated


def test_with_emulated_never_the_emulated_board_is_taken_only_by_its_name(
    with_hdc: MakeSession, session: Session
) -> None:
    for none in (with_hdc([(LIST, NONE)], emulated="never"), session.with_settings(emulated="never")):
        with pytest.raises(NoBoard, match=r"ohforge\.emulated") as caught:
            choose_board(none)
        assert "--board dayu200" in caught.value.remedy
        assert choose_board(none, "dayu200").emulated
    assert choose_board(with_hdc([(LIST, ONE)], emulated="never")).serial == KEY


def test_a_server_that_does_not_come_up_is_told_and_not_taken_for_no_board(with_hdc: MakeSession) -> None:
    with pytest.raises(HdcServerError, match="server"):
        choose_board(with_hdc([(LIST, SILENT)]))


# with a name ---------------------------------------------------------------------------------------


def test_a_serial_names_its_board_among_several(with_hdc: MakeSession) -> None:
    assert choose_board(with_hdc([(LIST, TWO)]), KEY).serial == KEY


def test_the_setting_names_the_board_when_no_flag_does(with_hdc: MakeSession) -> None:
    session = with_hdc([(LIST, TWO)], board=KEY)
    assert choose_board(session).serial == KEY
    assert choose_board(session, "dayu200").emulated


def test_a_name_of_the_settings_stands_for_its_serial_profile_and_server(with_hdc: MakeSession) -> None:
    entry = BoardEntry(serial=KEY, profile="dayu200", hdc_server="10.0.0.2:8711")
    session = with_hdc([(["-s", "10.0.0.2:8711", *LIST], ONE)], boards={"bench": entry})
    board = choose_board(session, "bench")
    assert isinstance(board, HdcBoard)
    assert (board.serial, board.profile.name) == (KEY, "dayu200")
    assert board.hdc.argv[1:] == ("-s", "10.0.0.2:8711")


@pytest.mark.parametrize("name", ["dayu200-arm64", "emulated-dayu200-arm64"])
def test_an_emulated_board_is_named_by_profile_or_serial_and_needs_no_hdc(session: Session, name: str) -> None:
    board = choose_board(dataclasses.replace(session, runner=FakeRunner()), name)
    assert (board.serial, board.profile.name, board.emulated) == ("emulated-dayu200-arm64", "dayu200-arm64", True)


def test_an_emulated_board_is_reached_through_the_stand_in(session: Session, tmp_path: Path) -> None:
    board = choose_board(session, "dayu200")
    assert isinstance(board, HdcBoard)
    assert board.hdc.argv == (sys.executable, "-m", "deploy.emulator.stand_in.cli")
    assert board.hdc.environment["OHFORGE_EMULATOR_HOME"] == str(tmp_path / "data" / "boards")


def test_a_name_that_is_not_there_is_told_with_those_that_are(with_hdc: MakeSession) -> None:
    with pytest.raises(NoBoard, match=r"did you mean 'dayu200'"):
        choose_board(with_hdc([(LIST, ONE)]), "dayu20")
    with pytest.raises(NoBoard, match=KEY):
        choose_board(with_hdc([(LIST, ONE)]), "nonsense")


def test_a_serial_without_any_hdc_says_what_to_install(session: Session) -> None:
    with pytest.raises(NoBoard, match="No hdc is installed") as caught:
        choose_board(session, KEY)
    assert "sdk.fetch" in caught.value.remedy


def test_an_offline_board_is_told(with_hdc: MakeSession) -> None:
    offline = f"{KEY}\t\tUSB\tOffline\tunknown...\thdc\n".encode()
    with pytest.raises(BoardOffline, match=KEY):
        choose_board(with_hdc([(LIST, offline)]), KEY)


def test_an_unknown_profile_of_the_settings_is_told_with_the_nearest(with_hdc: MakeSession) -> None:
    session = with_hdc([(LIST, ONE)], boards={"bench": BoardEntry(serial=KEY, profile="dayu20")})
    with pytest.raises(UnknownName, match="dayu200"):
        choose_board(session, "bench")


# hdc itself ----------------------------------------------------------------------------------------


def test_the_variable_counts_before_the_setting_and_the_setting_before_path(
    session: Session, hdc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second, third = tmp_path / "second", tmp_path / "empty" / "hdc"
    third.parent.mkdir()
    for path in (second, third):
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)

    def found(settings_hdc: str) -> str:
        chosen = find_hdc(
            dataclasses.replace(session, settings=dataclasses.replace(session.settings, hdc=settings_hdc))
        )
        assert chosen is not None
        return chosen.argv[0]

    assert found("") == str(third)
    assert found(str(second)) == str(second)
    monkeypatch.setattr(choose, "_hdc_of_sdk", lambda session: hdc)
    assert found("") == str(hdc)
    monkeypatch.setenv("OHFORGE_HDC", str(hdc))
    assert found(str(second)) == str(hdc)


def test_a_named_hdc_that_is_not_there_or_cannot_be_executed_is_an_error(session: Session, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    for path in (plain, tmp_path / "missing"):
        named = dataclasses.replace(session, settings=dataclasses.replace(session.settings, hdc=str(path)))
        with pytest.raises(HdcNotFound, match=r"ohforge\.hdc"):
            find_hdc(named)


@pytest.mark.parametrize("name", ["second", "emulated-third", "third"])
def test_an_emulated_board_is_found_by_whatever_name_it_was_made_with(session: Session, name: str) -> None:
    for serial in ("second", "emulated-third"):
        folder = session.settings.emulated_boards / serial
        folder.mkdir(parents=True)
        (folder / "board.json").write_text('{"profile": "dayu200-arm64"}')
    board = choose_board(session, name)
    assert (board.serial, board.emulated) == ("second" if name == "second" else "emulated-third", True)


@pytest.mark.parametrize("serial", ["emulated-../../x", "emulated-/etc", "emulated-a/b", "emulated-a\\b"])
@pytest.mark.parametrize("dry", [False, True])
def test_no_serial_leads_out_of_the_folder_of_emulated_boards(
    session: Session, tmp_path: Path, serial: str, dry: bool
) -> None:
    entry = BoardEntry(serial=serial, profile="dayu200")
    settings = dataclasses.replace(session.settings, boards={"mine": entry}, data_dir=str(tmp_path / "data"))
    session = dataclasses.replace(session, settings=settings, runner=FakeRunner(), dry=dry)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="cannot be the name of a board"):
        choose_board(session, "mine")
    assert sorted(tmp_path.rglob("*")) == before
