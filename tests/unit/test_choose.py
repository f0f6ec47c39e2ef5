"""Which hdc and which board: every way to say it, and every state that a board can be in."""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import (
    BoardOffline,
    BoardUnauthorised,
    ConfigurationError,
    HdcNotFound,
    HdcServerError,
    NoBoard,
    SeveralBoards,
    UnknownName,
)
from core.process import Result
from core.session import Session
from core.settings import BoardEntry, read_settings
from core.testing import Answer, FakeRunner
from deploy import choose
from deploy.board_list import list_boards
from deploy.choose import Target, choose_board, find_hdc, read_targets
from deploy.hdc import Hdc, HdcBoard
from deploy.server import OwnServer, own_hdc, own_servers
from tests.support.hdc_answers import answered, in_turn

KEY = "7001005458323933328a01bce16d3800"
OTHER = "192.168.1.9:8710"
ONE = f"{KEY}\t\tUSB\tConnected\tlocalhost\thdc\n".encode()
TWO = ONE + f"{OTHER}\t\tTCP\tConnected\trk3568\thdc\n".encode()
NONE = b"[Empty]\r\thdc\n"
SILENT = Result(argv=(), exit_code=0, stdout=b"", stderr=b"Connect server failed\n", seconds=12.3)


@pytest.fixture(autouse=True)
def no_hdc_of_this_computer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(choose, "_hdc_of_sdk", lambda session: None)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@pytest.fixture
def hdc(tmp_path: Path) -> Path:
    path = tmp_path / "toolchains" / "hdc"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


MakeSession = Callable[..., Session]


@pytest.fixture
def with_hdc(session: Session, hdc: Path) -> MakeSession:
    """A session whose hdc gives these answers; further settings by name."""

    def make(answers: list[tuple[list[str], Answer]], **settings: object) -> Session:
        runner = FakeRunner(answers=[([str(hdc), *words], answer) for words, answer in answers])
        changed = dataclasses.replace(session.settings, hdc=str(hdc), **settings)  # type: ignore[arg-type]
        return dataclasses.replace(session, settings=changed, runner=runner)

    return make


LIST = ["list", "targets", "-v"]


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
        (f"{KEY}\r\n{OTHER}\r\n", [(KEY, "Connected", ""), (OTHER, "Connected", "")]),
        (f"{KEY}\tUnauthorized\n", [(KEY, "Unauthorized", "")]),
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
        choose_board(with_hdc([(LIST, waiting)]))
    assert "dialog" in caught.value.remedy


def test_an_offline_board_beside_a_connected_one_does_not_count(with_hdc: MakeSession) -> None:
    text = ONE + f"{OTHER}\t\tTCP\tOffline\tunknown...\thdc\n".encode()
    assert choose_board(with_hdc([(LIST, text)])).serial == KEY


def test_an_offline_board_is_named_when_the_emulated_one_is_taken(
    with_hdc: MakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    board = choose_board(with_hdc([(LIST, f"{OTHER}\t\tTCP\tOffline\tunknown...\thdc\n".encode())]))
    assert board.emulated
    assert f"no real board is connected; {OTHER} is offline" in capsys.readouterr().out


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
    assert board.hdc.argv == (sys.executable, "-m", "deploy.emulator.cli")
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


@pytest.mark.parametrize("said", [b"Connect OK\r\n", b"[Info]Target is connected, repeat operation\r\n"])
def test_a_tcp_board_is_connected_through_a_server_of_its_own(
    with_hdc: MakeSession, said: bytes, tmp_path: Path
) -> None:
    session = with_hdc([(LIST, NONE), (["tconn", OTHER], said), (["-t", OTHER, "shell"], answered())])
    board = choose_board(session, OTHER)
    assert isinstance(board, HdcBoard)
    assert board.serial == OTHER
    assert board.hdc.environment["TMPDIR"].startswith(str(tmp_path / "data" / "hdc-servers"))
    assert board.hdc.environment["OHOS_HDC_SERVER_PORT"] not in ("", "8710")
    assert Path(board.hdc.environment["TMPDIR"]).is_dir()
    again = choose_board(session, OTHER)
    assert isinstance(again, HdcBoard)
    assert again.hdc.environment == board.hdc.environment


def test_after_connecting_a_board_is_asked_until_it_answers(with_hdc: MakeSession) -> None:
    swallowed_once = in_turn(b"", answered())
    session = with_hdc([(LIST, NONE), (["tconn", OTHER], b"Connect OK\r\n"), (["-t", OTHER, "shell"], swallowed_once)])
    assert choose_board(session, OTHER).serial == OTHER


def test_two_tcp_boards_have_two_servers(with_hdc: MakeSession) -> None:
    connected = b"[Info]Target is connected, repeat operation\r\n"
    session = with_hdc([(LIST, NONE), (["tconn"], connected)])
    boards = [choose_board(session, key) for key in (OTHER, "192.168.1.10:8710")]
    environments = [board.hdc.environment for board in boards if isinstance(board, HdcBoard)]
    assert environments[0]["TMPDIR"] != environments[1]["TMPDIR"]
    assert environments[0]["OHOS_HDC_SERVER_PORT"] != environments[1]["OHOS_HDC_SERVER_PORT"]


def test_with_own_servers_off_the_usual_one_is_used(with_hdc: MakeSession) -> None:
    connected = b"[Info]Target is connected, repeat operation\r\n"
    board = choose_board(with_hdc([(["tconn", OTHER], connected)], own_servers=False), OTHER)
    assert isinstance(board, HdcBoard)
    assert board.hdc.renew is None
    assert "TMPDIR" not in board.hdc.environment


def test_a_server_whose_port_is_taken_gets_another_one(with_hdc: MakeSession) -> None:
    ports = []

    def connect(argv: tuple[str, ...]) -> Result | bytes:
        ports.append(argv)
        return SILENT if len(ports) == 1 else b"[Info]Target is connected, repeat operation\r\n"

    session = with_hdc([(LIST, NONE), (["tconn", OTHER], connect), (["kill"], b"")])
    board = choose_board(session, OTHER)
    assert isinstance(board, HdcBoard)
    assert session.runner.calls[-2][1:] == ("kill",)  # type: ignore[attr-defined]


def test_a_server_that_never_comes_up_is_told_after_three_ports(with_hdc: MakeSession) -> None:
    session = with_hdc([(LIST, NONE), (["tconn", OTHER], SILENT), (["kill"], b"")])
    with pytest.raises(HdcServerError, match=OTHER):
        choose_board(session, OTHER)
    assert sum("tconn" in call for call in session.runner.calls) == 3  # type: ignore[attr-defined]


def test_a_port_that_another_program_has_taken_is_not_used_again(session: Session) -> None:
    server = OwnServer.of(session, OTHER)
    port = server.choose_port()
    assert server.choose_port() == port
    with socket.create_server(("127.0.0.1", port)):
        assert server.choose_port() != port


def test_a_note_from_before_the_computers_restart_does_not_count(session: Session) -> None:
    server = OwnServer.of(session, OTHER)
    server.choose_port()
    note = server.folder / "server.json"
    for text in ("", "[]", "{}", note.read_text().replace('"boot": "', '"boot": "x'), '{"port": "x"}'):
        note.write_text(text)
        assert server.read_note() == {}
    assert own_servers(session, Hdc(argv=("hdc",), title="hdc")) == []


def test_the_server_of_another_program_is_never_ended(with_hdc: MakeSession) -> None:
    session = with_hdc([])
    board = own_hdc(session, Hdc(argv=("hdc",), title="hdc"), OTHER)
    # The number that a dead server left has gone to this test's own process since.
    Path(board.environment["TMPDIR"], ".HDCServer.pid").write_text(f"{os.getpid()}\n")
    assert board.renew is not None
    fresh = board.renew(session)
    assert session.runner.calls == []  # type: ignore[attr-defined]
    assert fresh.environment["OHOS_HDC_SERVER_PORT"] != board.environment["OHOS_HDC_SERVER_PORT"]


def test_a_board_that_the_usual_server_holds_is_used_through_that(with_hdc: MakeSession) -> None:
    session = with_hdc([(LIST, TWO), (["tconn", OTHER], b"[Fail]Connect failed\r\n")])
    board = choose_board(session, OTHER)
    assert isinstance(board, HdcBoard)
    assert board.hdc.renew is None


def tries(session: Session) -> int:
    """How often hdc was asked to connect."""
    return sum("tconn" in call for call in session.runner.calls)  # type: ignore[attr-defined]


def test_a_tcp_board_that_refuses_is_tried_a_few_times_and_then_offline(
    with_hdc: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("deploy.choose.time.sleep", pauses.append)
    session = with_hdc([(LIST, NONE), (["tconn", OTHER], b"[Fail]Connect failed\r\n")])
    with pytest.raises(BoardOffline, match=OTHER):
        choose_board(session, OTHER)
    assert tries(session) == 4
    assert pauses == [0.5, 1.0, 2.0]


def test_a_tcp_board_that_is_being_started_is_connected_at_last(
    with_hdc: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.choose.time.sleep", lambda seconds: None)
    refused = b"[Fail]Connect failed\r\n"
    already = b"[Info]Target is connected, repeat operation\r\n"
    session = with_hdc([(LIST, NONE), (["tconn", OTHER], in_turn(refused, refused, already))])
    assert choose_board(session, OTHER).serial == OTHER
    assert tries(session) == 3


def test_a_wrong_address_is_told_at_once(with_hdc: MakeSession) -> None:
    session = with_hdc([(LIST, NONE), (["tconn"], b"[Fail][E001104]:IP address incorrect\n")])
    with pytest.raises(NoBoard, match="IP:PORT"):
        choose_board(session, "300.1.1.1:8710")
    assert tries(session) == 1


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


# board.list ----------------------------------------------------------------------------------------


def test_the_list_has_real_boards_named_ones_and_emulated_ones(with_hdc: MakeSession) -> None:
    boards = {"bench": BoardEntry(serial=KEY, profile="dayu200"), "shelf": BoardEntry(serial="AABB")}
    listed = {board["serial"]: board for board in list_boards(with_hdc([(LIST, TWO)], boards=boards))}
    assert (listed[KEY]["state"], listed[KEY]["profile"], listed[KEY]["name"]) == ("connected", "dayu200", "bench")
    assert (listed["AABB"]["state"], listed["AABB"]["name"]) == ("not connected", "shelf")
    assert not listed[OTHER]["emulated"]
    assert listed["emulated-dayu200"]["emulated"]


def test_the_list_needs_no_hdc(session: Session) -> None:
    assert {board["serial"] for board in list_boards(session)} >= {"emulated-dayu200", "emulated-dayu200-arm64"}


def test_no_test_of_this_file_reaches_a_real_hdc() -> None:
    assert "empty" in os.environ["PATH"]


# boards as data ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("boards", "key", "text"),
    [
        ({"bench": {"profile": "dayu20"}}, "bench.profile", "did you mean 'dayu200'"),
        ({"a": {"serial": KEY}, "bench": {"serial": KEY}}, "bench.serial", r"ohforge\.boards\.a too"),
        ({"bench": {"serial": "300.1.1.1:8710"}}, "bench.serial", "IP:PORT"),
        ({"bench": {"serial": "192.168.1.9:0"}}, "bench.serial", "IP:PORT"),
        ({"bench": {"serial": "192.168.1.9:"}}, "bench.serial", "IP:PORT"),
        ({"bench": {"serial": KEY, "hdc_server": "lab"}}, "bench.hdc_server", "IP:PORT"),
        ({"bench": {"serial": KEY, "hdc_server": "10.0.0.1:99999"}}, "bench.hdc_server", "IP:PORT"),
    ],
)
def test_an_entry_that_cannot_be_right_is_told_with_file_and_key(boards: dict[str, Any], key: str, text: str) -> None:
    files = {"/home/me/.invoke.yaml": {"ohforge": {"boards": boards}}}
    with pytest.raises(ConfigurationError, match=text) as caught:
        read_settings({"boards": boards}, lambda: files)
    assert caught.value.message.startswith(f"/home/me/.invoke.yaml: ohforge.boards.{key}")


def test_entries_that_can_be_right_are_taken() -> None:
    boards = {"lab": {"serial": OTHER, "hdc_server": "8711"}, "x": {"profile": "dayu200"}, "y": {"profile": "dayu200"}}
    assert read_settings({"boards": boards}).boards["lab"].hdc_server == "8711"


def test_an_entry_without_a_serial_is_an_emulated_board_of_its_own(session: Session, tmp_path: Path) -> None:
    boards = {"second": BoardEntry(profile="dayu200"), "third": BoardEntry(serial="emulated-x", profile="generic")}
    session = dataclasses.replace(session, settings=dataclasses.replace(session.settings, boards=boards))
    second = choose_board(session, "second")
    assert (second.serial, second.profile.name, second.emulated) == ("emulated-second", "dayu200", True)
    assert choose_board(session, "third").serial == "emulated-x"
    listed = {board["serial"]: board["profile"] for board in list_boards(session)}
    assert (listed["emulated-second"], listed["emulated-x"]) == ("dayu200", "generic")
    # It exists from now on, whatever the settings say.
    later = dataclasses.replace(session, settings=dataclasses.replace(session.settings, boards={}))
    assert choose_board(later, "emulated-second").profile.name == "dayu200"
    changed = {"second": BoardEntry(profile="generic")}
    with pytest.raises(ConfigurationError, match="dayu200"):
        choose_board(
            dataclasses.replace(session, settings=dataclasses.replace(session.settings, boards=changed)), "second"
        )


def test_each_server_that_the_settings_name_is_listed(with_hdc: MakeSession) -> None:
    entry = BoardEntry(serial=KEY, hdc_server="10.0.0.2:8711")
    there = (["-s", "10.0.0.2:8711", *LIST], ONE)
    listed = {board["serial"]: board for board in list_boards(with_hdc([(LIST, NONE), there], boards={"lab": entry}))}
    assert (listed[KEY]["state"], listed[KEY]["name"]) == ("connected", "lab")


def test_a_named_server_that_does_not_answer_is_told_and_the_rest_is_listed(
    with_hdc: MakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = BoardEntry(serial=OTHER, hdc_server="10.0.0.2:8711")
    silent = (["-s", "10.0.0.2:8711", *LIST], SILENT)
    listed = {board["serial"]: board for board in list_boards(with_hdc([(LIST, ONE), silent], boards={"lab": entry}))}
    assert (listed[KEY]["state"], listed[OTHER]["state"]) == ("connected", "not connected")
    assert "10.0.0.2:8711 does not answer" in capsys.readouterr().err
