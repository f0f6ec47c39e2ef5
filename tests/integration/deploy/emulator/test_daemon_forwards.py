"""Forwarded ports of the emulated board's daemon: the frames of a real hdc with a real hdcd."""

from __future__ import annotations

from pathlib import Path

from deploy.emulator.protocol.wire import Command, frame
from tests.support.daemon_client import agreed, next_frame

LISTENING = (
    b"nc -l -p %d -s 127.0.0.1 sh -c '%b' >/dev/null 2>&1 </dev/null & until netstat -lnt | grep -q %d; do :; done"
)


def test_a_forwarded_port_leads_to_a_server_on_the_board(daemons: dict[str, tuple[int, Path]]) -> None:
    with agreed(daemons["open"][0]) as link:
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


def test_a_reverse_forward_wakes_the_host_and_passes_on_what_the_boards_programs_send(
    daemons: dict[str, tuple[int, Path]],
) -> None:
    with agreed(daemons["open"][0]) as link:
        link.sendall(frame(42, Command.FORWARD_INIT, b"tcp:7003 tcp:7004"))
        assert next_frame(link) == (42, Command.WAKEUP, b"")
        channel, command, asked = next_frame(link)
        assert (channel, command, asked[4:]) == (42, Command.FORWARD_CHECK, bytes(8) + b"tcp:7004\0")
        link.sendall(frame(42, Command.FORWARD_CHECK_RESULT, asked[:4] + b"\0"))
        assert next_frame(link) == (42, Command.ECHO, b"\2Forwardport result:OK")
        assert next_frame(link) == (42, Command.FORWARD_SUCCESS, b"0|tcp:7003 tcp:7004\0")
        link.sendall(frame(43, Command.EXECUTE, b"(echo hi; sleep 120) | nc 127.0.0.1 7003"))
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
