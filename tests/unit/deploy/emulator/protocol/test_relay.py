"""What both ends of a forwarded port do with connections that end at any moment."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deploy.emulator.protocol.relay import Relay
from deploy.emulator.protocol.wire import Command, read_frame
from deploy.emulator.stand_in.session import Session

NUMBER = b"\0\0\0\2"


class Vanishing(dict[bytes, socket.socket]):
    """Connections of which each ends right after it was looked for."""

    def __contains__(self, key: object) -> bool:
        return self.pop(key, None) is not None  # type: ignore[call-overload]

    def get(self, key: bytes, default: Any = None) -> Any:
        found = super().get(key, default)
        self.pop(key, None)
        return found


@pytest.mark.parametrize("command", [Command.FORWARD_DATA, Command.FORWARD_ACTIVE_MASTER, Command.FORWARD_FREE])
def test_a_frame_for_a_connection_that_ends_meanwhile_harms_no_other(command: int) -> None:
    here, there = socket.socketpair()
    relay = Relay(lambda command, data: None)
    relay._open = Vanishing({NUMBER: here})
    with here, there:
        relay.handle(command, NUMBER + b"data")
        relay.handle(command, NUMBER + b"data")


def test_frames_that_several_connections_send_at_once_arrive_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_greet", lambda *_: {})
    here, there = socket.socketpair()
    there.settimeout(20.0)
    session = Session(here, "key", "version")
    payloads = [bytes([place]) * 20_000 for place in range(4)]
    together = threading.Barrier(len(payloads))

    def send(payload: bytes) -> None:
        together.wait()
        for _ in range(5):
            session.send(Command.FORWARD_DATA, payload)

    with here, there, ThreadPoolExecutor(len(payloads)) as pool:
        sent = [pool.submit(send, payload) for payload in payloads]
        arrived = [bytes(read_frame(there)[2]) for _ in range(5 * len(payloads))]
        for each in sent:
            each.result()
    assert sorted(arrived) == sorted(payloads * 5)
