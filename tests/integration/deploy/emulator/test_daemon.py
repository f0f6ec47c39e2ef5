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
from pathlib import Path

from deploy.emulator.board.faults import FaultFile
from deploy.emulator.protocol.wire import Auth, Command, frame, pack, read_frame, unpack_tags
from tests.support.daemon_client import agreed, answer, connect, next_frame, shake
from tests.support.emulated import ROOT, Hdc, emulated_home


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


def test_a_command_is_answered_and_closed_twice(daemons: dict[str, tuple[int, Path]]) -> None:
    with agreed(daemons["open"][0]) as link:
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
    with agreed(daemons["open"][0]) as link:
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
    with agreed(daemons["open"][0]) as link:
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
