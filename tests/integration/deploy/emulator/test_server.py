"""The server of the stand-in, as other hdc clients see it.

Bytes of the exchanges were recorded from the real hdc and hdcd 3.2.0f.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.emulator.protocol.wire import number, pack, text, unpack
from tests.support.emulated import ROOT, Hdc, emulated_home
from tests.support.waiting import wait_until

TMP = "/data/local/tmp"
KEY = "emulated-dayu200"


# the server ----------------------------------------------------------------------------------------


class Channel:
    """A client that speaks to the server in bytes."""

    def __init__(self, port: int, key: str = "", *, size: int = 44, tag: bytes = b"H", greeted: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.greeting = self.receive()
        if self.greeting and greeted:
            self.send((self.greeting[:11] + tag + key.encode()).ljust(size, b"\0"))

    def send(self, data: bytes) -> None:
        self.socket.sendall(struct.pack(">I", len(data)) + data)

    def receive(self) -> bytes:
        """The next frame; nothing when the server has closed."""
        head = self._exactly(4)
        return self._exactly(struct.unpack(">I", head)[0]) if head else b""

    def rest(self) -> list[bytes]:
        frames = []
        while frame_ := self.receive():
            frames.append(frame_)
        self.socket.close()
        return frames

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                return b""
            data += chunk
        return data


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdc]:
    with emulated_home(tmp_path_factory.mktemp("server")) as environment:
        hdc = Hdc(environment=environment)
        assert hdc("start").stdout == b""
        yield hdc
        hdc("kill")


@pytest.fixture(scope="module")
def port(server: Hdc) -> int:
    return int(server.environment["OHOS_HDC_SERVER_PORT"])


def ask(port: int, command: bytes, key: str = "", tag: bytes = b"H") -> list[bytes]:
    channel = Channel(port, key, tag=tag)
    channel.send(command + b"\0")
    return channel.rest()


def test_the_server_speaks_first(port: int) -> None:
    channel = Channel(port)
    channel.socket.close()
    assert len(channel.greeting) == 44
    assert channel.greeting[:12] == bytes.fromhex("4f 48 4f 53 20 48 44 43 00 00 00 48")
    assert channel.greeting[16:] == bytes(28)


def test_a_shell_command_is_answered_with_recorded_bytes(port: int) -> None:
    channel = Channel(port, KEY)
    channel.socket.sendall(bytes.fromhex("00 00 00 0e 73 68 65 6c 6c 20 65 63 68 6f 20 68 69 00"))
    channel.socket.settimeout(30)
    data = b""
    while chunk := channel.socket.recv(100):
        data += chunk
    channel.socket.close()
    assert data == bytes.fromhex("00 00 00 03 68 69 0a")


@pytest.mark.parametrize("size", [44, 108, 268])
def test_greetings_of_every_size_are_understood(port: int, size: int) -> None:
    """Plain, with a version behind the key, and with a long key."""
    channel = Channel(port, KEY, size=size)
    channel.send(b"shell echo hi")
    assert channel.rest() == [b"hi\n"]


def test_a_command_that_is_too_long_for_the_board_is_told_by_it(port: int) -> None:
    script = b'"echo ran; : ' + b"x" * 140_000 + b'"'
    assert b"".join(ask(port, b"shell " + script, KEY)) == b"start shell failed -1: Argument list too long\n"


def test_quotes_are_stripped_once(port: int) -> None:
    assert b"".join(ask(port, b'shell "echo "a  b" $((6*7))"', KEY)) == b"a  b 42\n"


def test_targets_are_listed_without_the_clients_column(port: int) -> None:
    assert ask(port, b"list targets") == [f"{KEY}\n".encode()]
    assert ask(port, b"list targets -v") == [f"{KEY}\t\tUSB\tConnected\tlocalhost\n".encode()]


def test_alive_keeps_the_channel_open(port: int) -> None:
    channel = Channel(port)
    channel.send(b"alive\0")
    for _ in range(3):
        channel.send(b"list targets\0")
        assert channel.receive() == f"{KEY}\n".encode()
    channel.socket.close()


NO_MATCH = b"[Fail]Not match target founded, check connect-key please\r\n"
NEED_KEY = b"[Fail]ExecuteCommand need connect-key? please confirm a device by help info\r\n"
BROKEN = b"[Fail][E002106] Failed to communicate with daemon\r\n"
LISTED = f"{KEY}\n".encode()


@pytest.mark.parametrize(
    ("key", "answers"),
    [
        ("", {b"list targets": LISTED, b"fport ls": b"[Empty]\r\n", b"shell id -u": NEED_KEY}),
        ("any", {b"list targets": BROKEN, b"fport ls": BROKEN, b"shell id -u": b"0\n"}),
        (KEY, {b"list targets": BROKEN, b"fport ls": BROKEN, b"tconn 1": BROKEN, b"shell id -u": b"0\n"}),
        ("nobody", {b"list targets": NO_MATCH + LISTED, b"shell id": NO_MATCH + NEED_KEY}),
    ],
)
def test_a_client_names_a_board_for_the_boards_commands_and_none_for_the_servers(
    port: int, key: str, answers: dict[bytes, bytes]
) -> None:
    assert {command: b"".join(ask(port, command, key)) for command in answers} == answers


@pytest.mark.parametrize(("key", "before"), [("", []), (KEY, []), ("nobody", [NO_MATCH])])
def test_what_concerns_no_board_is_answered_with_any_key(port: int, key: str, before: list[bytes]) -> None:
    assert ask(port, b"version", key) == [*before, b"Ver: 3.2.0f\n"]
    assert ask(port, b"kill now", key) == [*before, b"[Fail]Unknown command...\n"]
    (*complaint, text) = ask(port, b"help", key)
    assert complaint == before
    assert b"list targets" in text


def test_the_version_of_the_server(port: int) -> None:
    assert ask(port, b"checkserver") == [b"\x0d\x00Ver: 3.2.0f"]


def test_wait_is_answered_once(port: int) -> None:
    """A ``W`` behind the banner names a board only to wait for it."""
    assert ask(port, b"wait", KEY, tag=b"W") == [f"Wait for connected target is {KEY}\r\n".encode()]
    assert ask(port, b"wait", KEY) == [BROKEN]
    assert ask(port, b"wait", "nobody") == [NO_MATCH, b"[Fail]No any connected target\r\n"]
    channel = Channel(port, "nobody", tag=b"W")
    for _ in range(2):
        channel.send(b"wait\0")
        assert channel.receive() == b"[Fail]No any connected target\r\n"
    channel.socket.close()


def test_an_unknown_command_is_told(port: int) -> None:
    assert ask(port, b"frobnicate now", KEY) == [b"[Fail]Unknown command...\n"]


def test_a_wrong_banner_is_closed_in_silence(port: int) -> None:
    channel = Channel(port, greeted=False)
    channel.send(b"NOT HDC".ljust(44, b"\0"))
    assert channel.socket.recv(10) == b""
    channel.socket.close()


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x2c" + bytes(10), b""])
def test_hostile_bytes_do_not_end_the_server(port: int, data: bytes) -> None:
    channel = Channel(port, greeted=False)
    channel.socket.sendall(data)
    channel.socket.shutdown(socket.SHUT_WR)
    channel.rest()
    assert ask(port, b"shell echo alive", KEY) == [b"alive\n"]


def test_a_client_that_goes_away_ends_its_command(server: Hdc, port: int) -> None:
    channel = Channel(port, KEY)
    channel.send(b"shell echo $$; exec sleep 600\0")
    number_ = channel.receive().strip().decode()
    channel.socket.close()
    wait_until(
        "the end of the command", lambda: server.shell(f"kill -0 {number_} 2>/dev/null || echo gone") == b"gone\n"
    )


def test_the_server_opens_files_itself_for_simple_clients(port: int, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("simple")
    (sent,) = ask(port, f"file send {tmp_path}/x {TMP}/simple".encode(), KEY)
    assert sent.startswith(b"FileTransfer finish, Size:6, File count = 1")
    (got,) = ask(port, f"file recv {TMP}/simple {tmp_path}/y".encode(), KEY)
    assert got.startswith(b"FileTransfer finish, Size:6, File count = 1")
    assert (tmp_path / "y").read_text() == "simple"


def test_a_client_that_sends_a_file_itself_is_relayed(server: Hdc, port: int) -> None:
    channel = Channel(port, KEY)
    channel.send(f'file send remote -cwd "/w/" x {TMP}/relayed'.encode())
    assert channel.receive() == b"\xb8\x0b" + f'-cwd "/w/" x {TMP}/relayed'.encode()
    channel.send(b"\x0c\x00")
    check = pack(5, 0, 0, b"", f"{TMP}/relayed".encode(), b"x", 0, 0, 0, b"", b"/w/", b"", b"")
    channel.send(b"\xb9\x0b" + check)
    assert channel.receive() == bytes.fromhex("ba 0b 05 00 00 00 00 00 00 00")
    prefix = bytes.fromhex("08 00 10 00 18 05 20 05").ljust(64, b"\0")
    channel.send(b"\xbb\x0b" + prefix + b"12345")
    assert channel.receive() == b"\xbc\x0b\x01"
    channel.send(b"\xbc\x0b\x00")
    (summary,) = channel.rest()
    assert summary.startswith(b"FileTransfer finish, Size:5, File count = 1")
    assert server.shell(f"cat {TMP}/relayed") == b"12345"


def test_a_client_that_takes_a_file_itself_is_relayed(server: Hdc, port: int) -> None:
    server.shell(f"printf 54321 >{TMP}/taken")
    channel = Channel(port, KEY)
    channel.send(f'file recv remote -cwd "/w/" {TMP}/taken y'.encode())
    frames = [channel.receive()]
    while not frames[-1].startswith(b"\xb9\x0b"):
        frames.append(channel.receive())
    fields = unpack(frames[-1][2:])
    assert (number(fields, 1), text(fields, 5), text(fields, 6), text(fields, 11)) == (5, b"y", b"taken", b"/w/")
    channel.send(bytes.fromhex("ba 0b 05 00 00 00 00 00 00 00"))
    data = channel.receive()
    assert (data[:2], data[66:]) == (b"\xbb\x0b", b"54321")
    channel.send(b"\xbc\x0b\x01")
    assert channel.receive() == b"\xbc\x0b\x00"
    channel.send(b"\x02\x00\x01")
    assert channel.rest() == []


def test_an_interactive_shell_is_typed_into(port: int) -> None:
    channel = Channel(port, KEY)
    channel.send(b"shell\0")
    output = channel.receive()
    while b"# " not in output:
        output += channel.receive()
    channel.send(b"echo $((6*7)); exit\n")
    output = b"".join(channel.rest())
    assert b"\r\n42\r\n" in output


def test_kill_ends_the_servers_process(tmp_path: Path) -> None:
    with emulated_home(tmp_path) as environment:
        hdc = Hdc(environment=environment)
        port = int(hdc.environment["OHOS_HDC_SERVER_PORT"])
        hdc("start")
        assert ask(port, b"list targets") == [f"{KEY}\n".encode()]
        hdc("kill")
        time.sleep(0.5)
        with pytest.raises(ConnectionRefusedError):
            Channel(port)


# other people's clients ----------------------------------------------------------------------------


@pytest.fixture
def program(server: Hdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in as a program called hdc, for clients that start one."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run(
        [sys.executable, "-m", "deploy.emulator.manage", "hdc", str(tmp_path / "bin")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return Path(done.stdout.strip())


def test_the_program_called_hdc_is_the_stand_in(program: Path) -> None:
    done = subprocess.run(["hdc", "shell", 'printf "%s|" "a  b" c '], capture_output=True, cwd="/", check=True)
    assert done.stdout == b"a  b|c|"


def test_hdctool_can_use_the_board(server: Hdc, port: int, program: Path, tmp_path: Path) -> None:
    hdctool = pytest.importorskip("hdctool", reason="the PyPI package hdctool is not installed")
    client = hdctool.create_client(port=port, bin=str(program))
    assert client.list_targets() == [KEY]
    target = client.get_target(KEY)
    shell = target.shell("echo hi; uname -m")
    assert shell.read_all() == b"hi\naarch64\n"
    shell.end()
    assert target.get_parameters()["const.product.model"] == "DAYU200"
    (tmp_path / "x").write_text("through hdctool")
    target.send_file(str(tmp_path / "x"), f"{TMP}/hdctool")
    target.recv_file(f"{TMP}/hdctool", str(tmp_path / "y"))
    assert (tmp_path / "y").read_text() == "through hdctool"


def test_hdc_py_finds_statuses(program: Path) -> None:
    hdc_py = pytest.importorskip("hdc_py", reason="the PyPI package hdc-py is not installed")
    hdc = hdc_py.Hdc(program)
    assert hdc.list_targets() == [KEY]
    with pytest.raises(subprocess.CalledProcessError) as caught:
        hdc.connect(KEY).cmd("exit 3")
    assert caught.value.returncode == 3
