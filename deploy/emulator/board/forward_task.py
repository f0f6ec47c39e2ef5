"""What hdcd does for ``fport`` and ``rport``."""

from __future__ import annotations

from deploy.emulator.board.session import Session
from deploy.emulator.protocol.relay import FIRST_ID, ID_BYTES, PARAMETER, BadNode, Relay, check_node, listen_at
from deploy.emulator.protocol.wire import Command, Level


class ForwardTask:
    """The board's end of ``fport``: the host listens, the board connects."""

    def __init__(self, session: Session, channel: int) -> None:
        self._session = session
        self._channel = channel
        self._relay = Relay(self._send, session.board.to_host)

    def start(self) -> None:
        """The host speaks first."""

    def handle(self, command: int, data: bytes) -> None:
        try:
            if command == Command.FORWARD_CHECK:
                check_node(data[ID_BYTES + len(PARAMETER) :].rstrip(b"\0").decode("utf-8", "replace"))
                self._send(Command.FORWARD_CHECK_RESULT, data[:ID_BYTES] + b"\0")
            else:
                self._relay.handle(command, data)
        except BadNode as error:
            self._session.end(self._channel, fail=str(error))

    def stop(self) -> None:
        self._relay.close()

    def _send(self, command: int, data: bytes) -> None:
        self._session.send(self._channel, command, data)


class ReverseTask:
    """The board's end of ``rport``: the board listens, wakes the host's end and leads it."""

    def __init__(self, session: Session, channel: int, rule: bytes) -> None:
        self._session = session
        self._channel = channel
        self._rule = rule.rstrip(b"\0")
        self._relay = Relay(self._send, session.board.to_host)

    def start(self) -> None:
        here, _, there = self._rule.decode("utf-8", "replace").partition(" ")
        self._send(Command.WAKEUP, b"")
        try:
            self._relay.serve(listen_at(here, self._session.board.to_host), there)
        except BadNode as error:
            self._session.end(self._channel, fail=str(error))
        else:
            self._send(Command.FORWARD_CHECK, FIRST_ID + PARAMETER + there.encode() + b"\0")

    def handle(self, command: int, data: bytes) -> None:
        if command == Command.FORWARD_CHECK_RESULT:
            self._session.echo(self._channel, Level.PLAIN, "Forwardport result:OK")
            self._send(Command.FORWARD_SUCCESS, b"0|" + self._rule + b"\0")
        else:
            self._relay.handle(command, data)

    def stop(self) -> None:
        self._relay.close()

    def _send(self, command: int, data: bytes) -> None:
        self._session.send(self._channel, command, data)
