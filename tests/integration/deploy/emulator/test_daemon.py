"""The daemon of the stand-in, as other hdc servers see it.

Bytes of the exchanges were recorded from the real hdc and hdcd 3.2.0f.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from deploy.emulator.board.boards import create_board, start_board
from deploy.emulator.board.faults import FaultFile
from deploy.emulator.protocol.wire import (
    Auth,
    Command,
    LinkEnded,
    frame,
    number,
    pack,
    pack_tags,
    read_frame,
    text,
    unpack,
    unpack_tags,
)
from tests.support.emulated import ROOT, Hdc, emulated_home, free_port

TMP = "/data/local/tmp"
KEY = "emulated-dayu200"


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
    script = "from deploy.emulator.protocol.auth import *; print(public_pem(host_key()).decode(), end='')"
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


# forwarded ports: the frames of a real hdc with a real hdcd -----------------------------------------


def test_a_forwarded_port_leads_to_a_server_on_the_board(daemons: dict[str, tuple[int, Path]]) -> None:
    with connect(daemons["open"][0]) as link:
        answer(link)
        next_frame(link)
        link.sendall(frame(40, Command.EXECUTE, LISTENING % (7002, b"read x; echo board got $x", 7002)))
        assert next_frame(link)[1] == Command.CHANNEL_CLOSE
        link.sendall(frame(41, Command.WAKEUP))
        link.sendall(frame(41, Command.FORWARD_CHECK, b"5\xfc\xb5\xea" + bytes(8) + b"tcp:7002\0"))
        assert next_frame(link) == (41, Command.FORWARD_CHECK_RESULT, b"5\xfc\xb5\xea\0")
        link.sendall(frame(41, Command.FORWARD_ACTIVE_SLAVE, b"\x08\xfc\xcf?" + bytes(8) + b"tcp:7002\0"))
        assert next_frame(link) == (41, Command.FORWARD_ACTIVE_MASTER, b"\x08\xfc\xcf?")
        link.sendall(frame(41, Command.FORWARD_DATA, b"\x08\xfc\xcf?hello\n"))
        assert next_frame(link) == (41, Command.FORWARD_DATA, b"\x08\xfc\xcf?board got hello\n")
        assert next_frame(link) == (41, Command.FORWARD_FREE, b"\x08\xfc\xcf?")
        # Nobody listens there any more.
        link.sendall(frame(41, Command.FORWARD_ACTIVE_SLAVE, b"\x06\xee\xca\xff" + bytes(8) + b"tcp:7002\0"))
        assert next_frame(link) == (41, Command.FORWARD_FREE, b"\x06\xee\xca\xff")


LISTENING = (
    b"nc -l -p %d -s 127.0.0.1 sh -c '%b' >/dev/null 2>&1 </dev/null & until netstat -lnt | grep -q %d; do :; done"
)


def test_a_reverse_forward_wakes_the_host_and_passes_on_what_the_boards_programs_send(
    daemons: dict[str, tuple[int, Path]],
) -> None:
    with connect(daemons["open"][0]) as link:
        answer(link)
        next_frame(link)
        link.sendall(frame(42, Command.FORWARD_INIT, b"tcp:7003 tcp:7004"))
        assert next_frame(link) == (42, Command.WAKEUP, b"")
        channel, command, asked = next_frame(link)
        assert (channel, command, asked[4:]) == (42, Command.FORWARD_CHECK, bytes(8) + b"tcp:7004\0")
        link.sendall(frame(42, Command.FORWARD_CHECK_RESULT, asked[:4] + b"\0"))
        assert next_frame(link) == (42, Command.ECHO, b"\2Forwardport result:OK")
        assert next_frame(link) == (42, Command.FORWARD_SUCCESS, b"0|tcp:7003 tcp:7004\0")
        link.sendall(frame(43, Command.EXECUTE, b"(echo hi; sleep 10) | nc 127.0.0.1 7003"))
        channel, command, opened = next_frame(link)
        assert (channel, command, opened[4:]) == (42, Command.FORWARD_ACTIVE_SLAVE, bytes(8) + b"tcp:7004\0")
        link.sendall(frame(42, Command.FORWARD_ACTIVE_MASTER, opened[:4]))
        assert next_frame(link) == (42, Command.FORWARD_DATA, opened[:4] + b"hi\n")
        link.sendall(frame(42, Command.FORWARD_DATA, opened[:4] + b"answer\n"))
        assert next_frame(link) == (43, Command.ECHO_RAW, b"answer\n")
        link.sendall(frame(44, Command.FORWARD_INIT, b"tcp:7003 tcp:7004"))
        assert next_frame(link) == (44, Command.WAKEUP, b"")
        assert next_frame(link) == (44, Command.ECHO, b"\0TCP Port listen failed at 7003")
        assert next_frame(link) == (44, Command.CHANNEL_CLOSE, b"\1")
        # The rule is removed by a close, and its port is free again.
        link.sendall(frame(42, Command.CHANNEL_CLOSE, b"\0"))
        link.sendall(frame(45, Command.FORWARD_INIT, b"tcp:7003 tcp:7004"))
        assert next_frame(link) == (45, Command.WAKEUP, b"")
        assert next_frame(link)[:2] == (45, Command.FORWARD_CHECK)


# packages, lists and reports: recorded likewise --------------------------------------------------------

NO_MANAGER = b"E: /bin/sh: bm: inaccessible or not found "


def test_packages_are_answered_as_an_image_without_bundle_manager_does(daemons: dict[str, tuple[int, Path]]) -> None:
    with connect(daemons["open"][0]) as link:
        answer(link)
        next_frame(link)
        link.sendall(frame(50, Command.WAKEUP))
        said = b""
        for name in (b"56f7d11c6.hsp", b"6af4717de.hap"):
            check = pack(2, 0, 0, b"", b"", name, 0, 0, 0, b"install", b"/w/", b"", b"")
            link.sendall(frame(50, Command.APP_CHECK, check))
            assert next_frame(link) == (50, Command.APP_BEGIN, bytes.fromhex("05 00 00 00 00 00 00 00"))
            prefix = bytes.fromhex("08 00 10 00 18 02 20 02") + bytes(56)
            link.sendall(frame(50, Command.APP_DATA, prefix + b"x\n"))
            said += NO_MANAGER  # Each answer repeats those before.
            assert next_frame(link) == (50, Command.APP_FINISH, b"\1\0" + said)
        link.sendall(frame(50, Command.CHANNEL_CLOSE, b"\1"))
        assert next_frame(link) == (50, Command.CHANNEL_CLOSE, b"\0")
        link.sendall(frame(51, Command.WAKEUP))
        link.sendall(frame(51, Command.APP_UNINSTALL, b"-n com.a\0"))
        assert next_frame(link) == (51, Command.WAKEUP, b"")
        assert next_frame(link) == (51, Command.APP_FINISH, b"\2\0" + NO_MANAGER)
        link.sendall(frame(52, Command.EXECUTE, f"ls {TMP} | grep -c 'hap\\|hsp'".encode()))
        assert next_frame(link) == (52, Command.ECHO_RAW, b"0\n")


def test_debuggable_programs_and_reports_are_answered_as_by_an_image_without_them(
    daemons: dict[str, tuple[int, Path]],
) -> None:
    with connect(daemons["open"][0]) as link:
        answer(link)
        next_frame(link)
        link.sendall(frame(53, Command.JDWP_TRACK, b"a"))
        assert next_frame(link) == (53, Command.ECHO, b"\x020000\n")
        link.sendall(frame(54, Command.BUGREPORT))
        missing = b"E: /bin/sh: hidumper: inaccessible or not found\n"
        assert next_frame(link) == (54, Command.BUGREPORT_DATA, missing)
        assert next_frame(link) == (54, Command.CHANNEL_CLOSE, b"\1")


@pytest.mark.parametrize(
    ("kind", "frames"),
    [
        (
            "shell",
            [(Command.EXECUTE, b"id"), (Command.HILOG, b"h"), (Command.RUNMODE, b"usb"), (Command.SHELL_START, b"")],
        ),
        ("file", [(Command.FILE_INIT, b"/system a"), (Command.FILE_CHECK, b""), (Command.APP_CHECK, b"")]),
        ("fport", [(Command.FORWARD_INIT, b"tcp:7005 tcp:7006"), (Command.FORWARD_CHECK, bytes(12) + b"tcp:1\0")]),
    ],
)
def test_a_parameter_keeps_hosts_from_what_it_names(
    daemons: dict[str, tuple[int, Path]], kind: str, frames: list[tuple[Command, bytes]]
) -> None:
    port, folder = daemons["open"]
    set_here = folder / "data/.emulator-param"
    set_here.write_text(f"persist.hdc.control.{kind} = false\n")
    try:
        with connect(port) as link:
            answer(link)
            next_frame(link)
            for channel, (command, data) in enumerate(frames, 60):
                link.sendall(frame(channel, Command.WAKEUP) + frame(channel, command, data))
                assert next_frame(link) == (channel, Command.ECHO, b"\0debugging is not allowed")
                assert next_frame(link) == (channel, Command.CHANNEL_CLOSE, b"\1")
    finally:
        set_here.unlink()


def test_a_killed_daemon_is_started_again_and_its_programs_go_on(daemons: dict[str, tuple[int, Path]]) -> None:
    port = daemons["open"][0]
    with connect(port) as link:
        answer(link)
        next_frame(link)
        line = b"sleep 300 >/dev/null 2>&1 </dev/null & echo $(pidof hdcd); kill -9 $(pidof hdcd); sleep 60"
        link.sendall(frame(55, Command.EXECUTE, line))
        before = next_frame(link)[2]
        assert before.strip().isdigit()
        with pytest.raises(LinkEnded):
            next_frame(link)
    with connect(port) as link:
        answer(link)
        next_frame(link)
        link.sendall(frame(56, Command.EXECUTE, b"pidof hdcd; ps -A -o ARGS | grep -c '^sleep 300'"))
        lines = b""
        while (got := next_frame(link))[1] == Command.ECHO_RAW:
            lines += got[2]
        now, programs = lines.splitlines()
        assert now.isdigit()
        assert now != before.strip()
        assert programs == b"1"


# what a hostile client may do -----------------------------------------------------------------------


def test_a_file_whose_name_climbs_stays_on_the_board(daemons: dict[str, tuple[int, Path]], tmp_path: Path) -> None:
    name = "../" * 12 + str(tmp_path / "planted")
    with connect(daemons["open"][0]) as link:
        answer(link)
        next_frame(link)
        link.sendall(frame(5, Command.WAKEUP, b""))
        link.sendall(frame(5, Command.FILE_CHECK, pack(4, 0, 0, b"", f"{TMP}/in".encode(), name.encode(), 0, 0, 0)))
        while next_frame(link)[1] not in (Command.FILE_BEGIN, Command.CHANNEL_CLOSE):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_file_of_this_computer_brings_nothing(daemons: dict[str, tuple[int, Path]], tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with connect(daemons["open"][0]) as link:
        answer(link)
        next_frame(link)
        link.sendall(
            frame(6, Command.EXECUTE, f"ln -s {tmp_path}/secret {TMP}/link; echo x >{TMP}/plain; echo done".encode())
        )
        assert next_frame(link)[2] == b"done\n"
        assert offers_file(link, 70, f"{TMP}/plain")
        closed = (f"{TMP}/link", str(tmp_path / "secret"), f"/proc/1/root{tmp_path}/secret", "/proc/self/environ")
        assert [path for at, path in enumerate(closed) if offers_file(link, 71 + at, path)] == []


def offers_file(link: socket.socket, channel: int, path: str) -> bool:
    """Whether the board begins to send a file when it is asked for it."""
    link.sendall(frame(channel, Command.FILE_INIT, f"remote -cwd /w/ {path} /w/got".encode()))
    while (got := next_frame(link))[:2] not in ((channel, Command.FILE_CHECK), (channel, Command.CHANNEL_CLOSE)):
        pass
    return got[1] == Command.FILE_CHECK


def test_no_port_of_this_computer_is_reached_through_the_board(daemons: dict[str, tuple[int, Path]]) -> None:
    with socket.socket() as service, connect(daemons["open"][0]) as link:
        service.bind(("127.0.0.1", 0))
        service.listen()
        service.settimeout(0.2)
        node = f"tcp:{service.getsockname()[1]}".encode()
        answer(link)
        next_frame(link)
        link.sendall(frame(8, Command.WAKEUP))
        link.sendall(frame(8, Command.FORWARD_CHECK, b"\0\0\0\1" + bytes(8) + node + b"\0"))
        assert next_frame(link) == (8, Command.FORWARD_CHECK_RESULT, b"\0\0\0\1\0")
        link.sendall(frame(8, Command.FORWARD_ACTIVE_SLAVE, b"\0\0\0\1" + bytes(8) + node + b"\0"))
        assert next_frame(link)[:2] == (8, Command.FORWARD_FREE)
        with pytest.raises(TimeoutError):
            service.accept()


def test_nonsense_ends_its_session_only(daemons: dict[str, tuple[int, Path]]) -> None:
    random = Random(20)
    port = daemons["open"][0]
    for _ in range(60):
        with connect(port) as link, contextlib.suppress(OSError):
            answer(link)
            next_frame(link)
            for _ in range(20):
                command = random.choice([*Command, 9999])
                if command not in (Command.REBOOT, Command.ROOTRUN):
                    link.sendall(frame(random.randrange(4), command, random.randbytes(random.randrange(80))))
    with connect(port) as link:
        answer(link)
        next_frame(link)
        link.sendall(frame(9, Command.EXECUTE, b"echo alive"))
        assert next_frame(link) == (9, Command.ECHO_RAW, b"alive\n")
