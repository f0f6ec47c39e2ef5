"""The stand-in as the hdc of older releases of OpenHarmony: what differs, on an old board and from an old client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.emulator.board.boards import connect, create_board
from deploy.emulator.board.faults import FaultFile
from deploy.emulator.protocol.wire import Auth, Command, frame, pack, pack_tags, read_frame, text, unpack, unpack_tags
from deploy.emulator.stand_in import cli
from tests.support.emulated import Hdc, emulated_home, free_port

TMP = "/data/local/tmp"
RELEASE = "OHFORGE_EMULATOR_HDC_VERSION"
VERSIONS = {"4.1": b"2.0.0a", "5.0": b"3.1.0b", "5.0.3": b"3.1.0e"}


@pytest.fixture(scope="module", params=list(VERSIONS))
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdc]:
    """Client, server and board of one release; the board is also reached over TCP, and asks for the key."""
    with emulated_home(tmp_path_factory.mktemp("old")) as environment:
        home = Path(environment["OHFORGE_EMULATOR_HOME"])
        create_board("emulated-dayu200", home=home, version=request.param)
        create_board("emulated-net", home=home, profile="dayu200", version=request.param, port=free_port(), secure=True)
        yield Hdc(environment={**environment, RELEASE: request.param})


@pytest.fixture
def faults(old: Hdc) -> Iterator[FaultFile]:
    file = FaultFile(folder=Path(old.environment["OHFORGE_EMULATOR_HOME"]) / old.key)
    yield file
    file.clear()


def release_of(hdc: Hdc) -> str:
    return hdc.environment[RELEASE]


def net_of(hdc: Hdc) -> str:
    home = Path(hdc.environment["OHFORGE_EMULATOR_HOME"])
    return str(create_board("emulated-net", home=home).key)


def test_the_version_is_that_of_the_release(old: Hdc) -> None:
    version = VERSIONS[release_of(old)]
    assert old("-v").stdout == b"Ver: " + version + b"\n"
    assert old("checkserver").stdout == b"Client version:Ver: %b, server version:Ver: %b\n" % (version, version)


def test_commands_run_as_ever(old: Hdc, tmp_path: Path) -> None:
    assert old.shell("echo hi; exit 3") == b"hi\n"
    (tmp_path / "x").write_bytes(bytes(range(256)) * 5000)
    assert b"finish" in old.board("file", "send", str(tmp_path / "x"), f"{TMP}/x")
    assert b"finish" in old.board("file", "recv", f"{TMP}/x", str(tmp_path / "y"))
    assert (tmp_path / "y").read_bytes() == (tmp_path / "x").read_bytes()


def test_a_full_disk_is_not_told_at_all(old: Hdc, faults: FaultFile, tmp_path: Path) -> None:
    faults.set("full-disk", at=100)
    (tmp_path / "x").write_bytes(bytes(5000))
    assert old.board("file", "send", str(tmp_path / "x"), f"{TMP}/full") == b""
    assert old.shell(f"stat -c %s {TMP}/full") == b"100\n"


def test_an_offline_board_is_told_without_a_code(old: Hdc, faults: FaultFile) -> None:
    faults.set("offline")
    assert old.board("shell", "echo hi ") == b"[Fail]Device not founded or connected\r\n"
    name = "" if release_of(old) == "4.1" else "unknown..."
    assert f"{old.key}\t\tUSB\tOffline\t{name}\thdc\n" in old("list", "targets", "-v").stdout.decode()


def test_a_broken_link_has_its_code_from_5_0_3_on(old: Hdc, faults: FaultFile) -> None:
    faults.set("broken-link")
    code = b"[E002106] " if release_of(old) == "5.0.3" else b""
    assert old.board("shell", "echo hi ") == b"[Fail]" + code + b"Failed to communicate with daemon\r\n"


def test_which_board_is_meant_must_be_said(old: Hdc) -> None:
    old("tconn", net_of(old))
    more = b"" if release_of(old) == "4.1" else b" please confirm a device by help info"
    assert old("shell", "id ").stdout == b"[Fail]ExecuteCommand need connect-key?" + more + b"\r\n"
    old("tconn", net_of(old), "-remove")


def test_an_address_is_not_looked_at_before_the_port(old: Hdc) -> None:
    assert old("tconn", "999.0.0.1:5555").stdout == b"[Fail]IP:Port incorrect\n"
    assert old("tconn", "999.0.0.1:http").stdout == b"[Fail]Port incorrect\n"


def test_a_folder_that_cannot_be_made_has_no_code(old: Hdc, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "x").write_text("1")
    answer = old.board("file", "send", str(tmp_path / "tree"), "/proc/nowhere/x")
    assert answer == b"[Fail]Error create directory, path:/proc/nowhere\r\n"


def test_keys_are_not_protected(old: Hdc, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("1")
    place = "/data/service/el1/public/hdc/x"
    answer = old.board("file", "send", str(tmp_path / "x"), place)
    assert answer == f"[Fail]Error opening file: no such file or directory, path:{place}\r\n".encode()


def test_bundles_are_an_option_from_5_0_3_on(old: Hdc, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("1")
    shell = old.board("shell", "-b", "com.example.none", "ls")
    sent = old.board("file", "send", "-b", "com.example.none", str(tmp_path / "x"), "x")
    if release_of(old) == "5.0.3":
        assert shell == b"[Fail][E003001] Invalid bundle name: com.example.none\r\n"
        assert sent == b"[Fail][E005101] Invalid bundle name: com.example.none\r\n"
    else:
        assert b"E003" not in shell
        assert sent == b"[Fail]Unknown file option: -b\n"


def test_before_5_nobody_is_asked(old: Hdc, faults: FaultFile) -> None:
    faults.set("unauthorised")
    answer = old.board("shell", "echo hi ")
    if release_of(old) == "4.1":
        assert answer == b"hi\n"
        assert old("list", "targets").stdout == f"{old.key}\n".encode()
        return
    end = b"\n" if release_of(old) == "5.0" else b"\r\n"
    assert answer == end.join(
        [
            b"[Fail][E000002]:The device unauthorized.",
            b"This server's public key is not set.",
            b"Please check for a confirmation dialog on your device.",
            b"Otherwise try 'hdc kill' if that seems wrong.\r\n",
        ]
    )
    assert f"{old.key}\tUnauthorized\n".encode() in old("list", "targets").stdout


def test_a_refusal_has_its_line_ends_from_5_0_3_on(old: Hdc, faults: FaultFile) -> None:
    faults.set("refused")
    answer = old.board("shell", "echo hi ")
    if release_of(old) == "5.0":
        assert answer == (
            b"[Fail][E000003]:The device unauthorized.\nThe user denied the access for the device.\n"
            b"Please execute 'hdc kill' and redo your command, then check for a confirmation dialog on your device.\r\n"
        )
    elif release_of(old) == "5.0.3":
        assert answer.count(b"\r\n") == 4


@pytest.mark.parametrize(("release", "seconds"), [("3.2", 5.0), ("4.1", 12.0), ("7.0", 12.0)])
def test_a_server_is_looked_for_as_long_as_the_release_does(
    tmp_path: Path,
    release: str,
    seconds: float,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    slept: list[float] = []
    monkeypatch.setenv("OHFORGE_EMULATOR_HOME", str(tmp_path))
    monkeypatch.setenv(RELEASE, release)
    monkeypatch.setattr(cli.time, "sleep", slept.append)
    assert cli.main(["-p", "list", "targets"]) == 0
    assert tuple(capfdbinary.readouterr()) == (b"", b"Connect server failed\n")
    assert slept == [seconds]


def test_an_old_client_is_refused_by_a_board_that_authorises(tmp_path: Path) -> None:
    with emulated_home(tmp_path) as environment:
        home = Path(environment["OHFORGE_EMULATOR_HOME"])
        board = create_board("emulated-net", home=home, profile="dayu200", version="7.0", port=free_port(), secure=True)
        hdc = Hdc(environment={**environment, RELEASE: "4.1"}, key=board.key)
        assert hdc("tconn", hdc.key).stdout == b"Connect OK\r\n"
        time.sleep(0.5)  # The first command after it is lost.
        refusal = b"[Fail][E000001]:The sdk hdc.exe version is too low, please upgrade to the latest version.\r\n"
        assert hdc.board("shell", "id ") == refusal


def test_a_board_names_only_the_abilities_of_its_release(old: Hdc) -> None:
    board = create_board(old.key, home=Path(old.environment["OHFORGE_EMULATOR_HOME"]))
    with connect(board) as link:
        hello = pack(b"OHOS HDC", Auth.NONE, 1, b"", pack_tags({"authtype": "1"}), b"Ver: 3.2.0f0123456789abcdef")
        link.sendall(frame(0, Command.HANDSHAKE, hello))
        tags = unpack_tags(text(unpack(read_frame(link)[2]), 5))
    assert ("1200" in tags, "supportfeatures" in tags) == (release_of(old) == "5.0.3", False)


def test_a_new_client_is_told_that_an_old_board_has_no_bundles(tmp_path: Path) -> None:
    with emulated_home(tmp_path) as environment:
        create_board("emulated-dayu200", home=Path(environment["OHFORGE_EMULATOR_HOME"]), version="5.0")
        answer = Hdc(environment=environment).board("shell", "-b", "com.example.none", "ls")
        assert answer == b"[Fail][E002105] Unsupport command\r\n"
