"""What a client that means harm can do through the door of the emulated board's daemon: to this computer, nothing."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from random import Random

import pytest

from deploy.emulator.protocol.wire import Command, frame, pack
from tests.support.daemon_client import agreed, answer, connect, next_frame

TMP = "/data/local/tmp"


def test_a_file_whose_name_climbs_stays_on_the_board(daemons: dict[str, tuple[int, Path]], tmp_path: Path) -> None:
    name = "../" * 12 + str(tmp_path / "planted")
    with agreed(daemons["open"][0]) as link:
        link.sendall(frame(5, Command.WAKEUP, b""))
        link.sendall(frame(5, Command.FILE_CHECK, pack(4, 0, 0, b"", f"{TMP}/in".encode(), name.encode(), 0, 0, 0)))
        while next_frame(link)[1] not in (Command.FILE_BEGIN, Command.CHANNEL_CLOSE):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_file_of_this_computer_brings_nothing(daemons: dict[str, tuple[int, Path]], tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with agreed(daemons["open"][0]) as link:
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
        with agreed(port) as link, contextlib.suppress(OSError):
            for _ in range(20):
                command = random.choice([*Command, 9999])
                if command not in (Command.REBOOT, Command.ROOTRUN):
                    link.sendall(frame(random.randrange(4), command, random.randbytes(random.randrange(80))))
    with agreed(port) as link:
        link.sendall(frame(9, Command.EXECUTE, b"echo alive"))
        assert next_frame(link) == (9, Command.ECHO_RAW, b"alive\n")
