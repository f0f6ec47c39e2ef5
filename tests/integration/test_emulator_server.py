"""The sockets of the stand-in: its server, as other hdc clients see it, and its daemon, as other hdc servers see it.

Bytes of the exchanges were recorded from the real hdc and hdcd 3.2.0f.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.emulator.disk import create_board, start_board
from deploy.emulator.faults import FaultFile
from deploy.emulator.wire import Auth, Command, frame, number, pack, pack_tags, read_frame, text, unpack, unpack_tags
from tests.support.emulated import ROOT, Hdc, emulated_home, free_port

TMP = "/data/local/tmp"
KEY = "emulated-dayu200"


# the server ----------------------------------------------------------------------------------------


class Channel:
    """A client that speaks to the server in bytes."""

    def __init__(self, port: int, key: str = "") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.greeting = self.receive()
        if self.greeting:
            self.send(self.greeting[:12] + key.encode().ljust(32, b"\0"))

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
        hdc = Hdc(environment={**environment, "OHOS_HDC_SERVER_PORT": str(free_port())})
        assert hdc("start").stdout == b""
        yield hdc
        hdc("kill")


@pytest.fixture(scope="module")
def port(server: Hdc) -> int:
    return int(server.environment["OHOS_HDC_SERVER_PORT"])


def ask(port: int, command: bytes, key: str = "") -> list[bytes]:
    channel = Channel(port, key)
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


def test_a_wrong_key_is_answered_twice(port: int) -> None:
    assert ask(port, b"shell id", "nobody") == [
        b"[Fail]Not match target founded, check connect-key please\r\n",
        b"[Fail]ExecuteCommand need connect-key? please confirm a device by help info\r\n",
    ]


def test_any_is_the_only_board(port: int) -> None:
    assert ask(port, b"shell echo any", "any") == [b"any\n"]


def test_the_version_of_the_server(port: int) -> None:
    assert ask(port, b"checkserver") == [b"\x0d\x00Ver: 3.2.0f"]


def test_wait_is_answered_once(port: int) -> None:
    assert ask(port, b"wait", KEY) == [f"Wait for connected target is {KEY}\r\n".encode()]
    channel = Channel(port, "nobody")
    for _ in range(2):
        channel.send(b"wait\0")
        assert channel.receive() == b"[Fail]No any connected target\r\n"
    channel.socket.close()


def test_an_unknown_command_is_told(port: int) -> None:
    assert ask(port, b"frobnicate now", KEY) == [b"[Fail]Unknown command...\n"]


def test_a_wrong_banner_is_closed_in_silence(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.recv(48, socket.MSG_WAITALL)
        client.sendall(struct.pack(">I", 44) + b"NOT HDC".ljust(44, b"\0"))
        assert client.recv(10) == b""


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x2c" + bytes(10), b""])
def test_hostile_bytes_do_not_end_the_server(port: int, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.recv(48, socket.MSG_WAITALL)
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        client.recv(10)
    assert ask(port, b"shell echo alive", KEY) == [b"alive\n"]


def test_a_client_that_goes_away_ends_its_command(server: Hdc, port: int) -> None:
    channel = Channel(port, KEY)
    channel.send(b"shell echo $$; exec sleep 600\0")
    number_ = channel.receive().strip().decode()
    channel.socket.close()
    for _ in range(100):
        if server.shell(f"kill -0 {number_} 2>/dev/null || echo gone") == b"gone\n":
            return
        time.sleep(0.1)
    pytest.fail("the command goes on")


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
        hdc = Hdc(environment={**environment, "OHOS_HDC_SERVER_PORT": str(free_port())})
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


# the daemon ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[int, Path]]]:
    """An open and a secure board with TCP ports: name → port and folder."""
    with emulated_home(tmp_path_factory.mktemp("daemon")) as environment:
        home = Path(environment["OHFORGE_EMULATOR_HOME"])
        found = {}
        for name, secure in (("open", False), ("secure", True)):
            port = free_port()
            board = create_board(f"emulated-{name}", home=home, profile="dayu200", port=port, secure=secure)
            start_board(board)
            found[name] = (port, board.folder)
        yield found


def connect(port: int) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", port), timeout=30)
    link.sendall(frame(0, Command.HANDSHAKE, shake(Auth.NONE, pack_tags({"authtype": "1"}))))
    return link


def shake(kind: int, message: bytes) -> bytes:
    return pack(b"OHOS HDC", kind, 4242, b"127.0.0.1:1", message, b"Ver: 3.2.0f0123456789abcdef")


def answer(link: socket.socket) -> tuple[int, bytes]:
    """Kind and message of the next handshake frame."""
    while True:
        channel, command, data = read_frame(link)
        if command == Command.HANDSHAKE:
            assert channel == 0
            fields = unpack(data)
            assert (text(fields, 1), number(fields, 3), text(fields, 4)) == (b"OHOS HDC", 0, b"")
            return number(fields, 2), text(fields, 5)


def test_an_open_board_agrees_at_once(daemons: dict[str, tuple[int, Path]]) -> None:
    with connect(daemons["open"][0]) as link:
        kind, message = answer(link)
        assert kind == Auth.OK
        assert unpack_tags(message) == {
            "emgmsg": "",
            "devname": "localhost",
            "daemonauthstatus": "SUCCESS",
            "1200": "enable",
            "supportfeatures": "heartbeat",
        }
        assert next_frame(link) == (0, Command.CHANNEL_CLOSE, b"\x01")


def next_frame(link: socket.socket) -> tuple[int, int, bytes]:
    while True:
        channel, command, data = read_frame(link)
        if command != Command.HEARTBEAT:
            return channel, command, data


def test_a_command_is_answered_and_closed_twice(daemons: dict[str, tuple[int, Path]]) -> None:
    with connect(daemons["open"][0]) as link:
        answer(link)
        next_frame(link)
        link.sendall(frame(0, Command.CHANNEL_CLOSE, b"\0"))
        link.sendall(frame(77, Command.EXECUTE, b'"echo hi; echo there >&2"'))
        output = b""
        while (got := next_frame(link))[1] == Command.ECHO_RAW:
            assert got[0] == 77
            output += got[2]
        assert output == b"hi\nthere\n"
        assert got == (77, Command.CHANNEL_CLOSE, b"\x01")
        for _ in range(2):
            link.sendall(frame(77, Command.CHANNEL_CLOSE, b"\0"))
        link.sendall(frame(78, Command.CHANNEL_CLOSE, b"\3"))
        assert next_frame(link) == (78, Command.CHANNEL_CLOSE, b"\2")


def test_many_commands_share_one_session(daemons: dict[str, tuple[int, Path]]) -> None:
    with connect(daemons["open"][0]) as link:
        answer(link)
        next_frame(link)
        for channel in range(100, 110):
            link.sendall(frame(channel, Command.EXECUTE, b"sleep 0.2; echo %d" % channel))
        outputs = {}
        closed = 0
        while closed < 10:
            channel, command, data = next_frame(link)
            if command == Command.ECHO_RAW:
                outputs[channel] = outputs.get(channel, b"") + data
            closed += command == Command.CHANNEL_CLOSE
        assert outputs == {channel: b"%d\n" % channel for channel in range(100, 110)}


def test_a_percent_in_a_message_is_doubled(daemons: dict[str, tuple[int, Path]]) -> None:
    with connect(daemons["open"][0]) as link:
        answer(link)
        next_frame(link)
        link.sendall(frame(5, Command.WAKEUP))
        check = pack(1, 0, 0, b"", b"/none/50%/x", b"x", 0, 0, 0, b"", b"/w/", b"", b"")
        link.sendall(frame(5, Command.FILE_CHECK, check))
        assert next_frame(link) == (
            5,
            Command.ECHO,
            b"\0Error opening file: no such file or directory, path:/none/50%%/x",
        )


def test_the_heartbeat_counts_from_0(daemons: dict[str, tuple[int, Path]]) -> None:
    with connect(daemons["open"][0]) as link:
        answer(link)
        command, data = 0, b""
        while command != Command.HEARTBEAT:
            _, command, data = read_frame(link)
        assert data == bytes.fromhex("08 00 12 00")


def test_a_secure_board_asks_for_the_key_and_its_signature(
    daemons: dict[str, tuple[int, Path]], tmp_path: Path
) -> None:
    # Signed with openssl, a library of its own, to see that both mean the same scheme.
    private, public = tmp_path / "key", tmp_path / "key.pub"
    run = ("openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:3072", "-out", private)
    subprocess.run(run, check=True, capture_output=True)
    subprocess.run(("openssl", "pkey", "-in", private, "-pubout", "-out", public), check=True, capture_output=True)
    with connect(daemons["secure"][0]) as link:
        kind, message = answer(link)
        assert (kind, unpack_tags(message)) == (Auth.PUBLIC_KEY, {"authtype": "1"})
        link.sendall(frame(0, Command.HANDSHAKE, shake(Auth.PUBLIC_KEY, b"host\x0c" + public.read_bytes())))
        kind, token = answer(link)
        assert (kind, len(token)) == (Auth.SIGNATURE, 20)
        link.sendall(frame(0, Command.HANDSHAKE, shake(Auth.SIGNATURE, openssl_signature(private, token))))
        kind, message = answer(link)
        assert kind == Auth.OK
        assert unpack_tags(message)["daemonauthstatus"] == "SUCCESS"


def openssl_signature(private: Path, token: bytes) -> bytes:
    options = ("rsa_padding_mode:pss", "rsa_pss_saltlen:64", "rsa_mgf1_md:sha512")
    words = ["openssl", "dgst", "-sha512", "-sign", private]
    for option in options:
        words += ["-sigopt", option]
    signature = subprocess.run(words, input=token, check=True, capture_output=True).stdout
    encoded = subprocess.run(["openssl", "base64", "-A"], input=signature, check=True, capture_output=True).stdout
    assert len(encoded) == 512
    return encoded


def test_a_wrong_signature_is_refused(daemons: dict[str, tuple[int, Path]], tmp_path: Path) -> None:
    script = "from deploy.emulator.auth import *; print(public_pem(host_key()).decode(), end='')"
    pem = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "HOME": str(tmp_path)},
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    with connect(daemons["secure"][0]) as link:
        answer(link)
        link.sendall(frame(0, Command.HANDSHAKE, shake(Auth.PUBLIC_KEY, b"h\x0c" + pem)))
        assert answer(link)[0] == Auth.SIGNATURE
        link.sendall(frame(0, Command.HANDSHAKE, shake(Auth.SIGNATURE, b"A" * 512)))
        assert answer(link)[0] == Auth.FAIL
        assert link.recv(1) == b""


def test_a_host_key_is_made_once_and_has_the_usual_size(tmp_path: Path, daemons: dict[str, tuple[int, Path]]) -> None:
    port, _ = daemons["secure"]
    with emulated_home(tmp_path) as environment:
        hdc = Hdc(environment={**environment, "HOME": str(tmp_path)}, key=f"127.0.0.1:{port}")
        assert hdc("tconn", hdc.key).stdout == b"Connect OK\r\n"
        private, public = tmp_path / ".harmony/hdckey", tmp_path / ".harmony/hdckey.pub"
        assert len(public.read_bytes()) == 625
        assert private.stat().st_mode & 0o777 == 0o600
        before = private.read_bytes()
        assert hdc.shell("param get const.hdc.secure") == b"1\n"
        assert private.read_bytes() == before


def test_an_unanswered_dialog_is_told_and_then_answered(daemons: dict[str, tuple[int, Path]], tmp_path: Path) -> None:
    port, folder = daemons["secure"]
    faults = FaultFile(folder=folder)
    faults.set("unauthorised")
    pem = subprocess.run(["openssl", "genpkey", "-algorithm", "RSA"], check=True, capture_output=True).stdout
    pem = subprocess.run(["openssl", "pkey", "-pubout"], input=pem, check=True, capture_output=True).stdout
    try:
        with connect(port) as link:
            answer(link)
            link.sendall(frame(0, Command.HANDSHAKE, shake(Auth.PUBLIC_KEY, b"h\x0c" + pem)))
            kind, message = answer(link)
            tags = unpack_tags(message)
            assert (kind, tags["daemonauthstatus"]) == (Auth.OK, "DAEMON_UNAUTH")
            assert tags["emgmsg"].startswith("[E000002]:The device unauthorized.\r\n")
            assert next_frame(link) == (0, Command.CHANNEL_CLOSE, b"\x01")
            assert re.match(rb"\0\[E000002\]", next_frame(link)[2])
            faults.clear()
            assert answer(link)[0] == Auth.SIGNATURE
    finally:
        faults.clear()


def test_a_client_that_is_none_is_dropped(daemons: dict[str, tuple[int, Path]]) -> None:
    for data in (b"GET / HTTP/1.1\r\n\r\n", frame(0, Command.EXECUTE, b"id"), frame(0, Command.HANDSHAKE, pack(b"X"))):
        with socket.create_connection(("127.0.0.1", daemons["open"][0]), timeout=30) as link:
            link.sendall(data)
            # What was sent and not read makes the end of a connection a reset.
            with contextlib.suppress(ConnectionResetError):
                assert link.recv(1) == b""
