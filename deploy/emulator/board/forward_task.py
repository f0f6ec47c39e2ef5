"""What hdcd does for ``fport`` and ``rport``."""

from __future__ import annotations

from deploy.emulator.board.session import Session
from deploy.emulator.protocol.relay import ID_BYTES, PARAMETER, BadNode, Relay, check_node, listen_at
from deploy.emulator.protocol.wire import Command


class ForwardTask:
    """The board's end of a forwarded port: connects (``fport``) or listens (``rport``)."""

    def __init__(self, session: Session, channel: int) -> None:
        self._session = session
        self._channel = channel
        self._relay = Relay(self._send, session.board.to_host)
        self._rule = b""

    def start(self) -> None:
        """The host says what it wants in its first frame."""

    def handle(self, command: int, data: bytes) -> None:
        try:
            if command == Command.FORWARD_CHECK:
                check_node(data[ID_BYTES + len(PARAMETER) :].rstrip(b"\0").decode("utf-8", "replace"))
                self._send(Command.FORWARD_CHECK_RESULT, data[:ID_BYTES] + b"\0")
            elif command == Command.FORWARD_INIT:
                self._listen(data.rstrip(b"\0"))
            elif command == Command.FORWARD_CHECK_RESULT:
                self._send(Command.FORWARD_SUCCESS, b"0|" + self._rule + b"\0")
            else:
                self._relay.handle(command, data)
        except BadNode as error:
            self._session.end(self._channel, fail=str(error))

    def stop(self) -> None:
        self._relay.close()

    def _listen(self, rule: bytes) -> None:
        here, _, there = rule.decode("utf-8", "replace").partition(" ")
        self._rule = rule
        self._relay.serve(listen_at(here, self._session.board.to_host), there)
        self._send(Command.FORWARD_CHECK, bytes(3) + b"\1" + PARAMETER + there.encode() + b"\0")

    def _send(self, command: int, data: bytes) -> None:
        self._session.send(self._channel, command, data)
