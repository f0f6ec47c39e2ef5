"""The server of the stand-in: a process to which other hdc clients can talk over TCP.

The stand-in's own commands do without it. It answers with the same code as they do.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from functools import cached_property

from deploy.emulator.protocol.releases import find_release
from deploy.emulator.protocol.wire import OLD_BLOCK, Command, LinkEnded, read_exactly
from deploy.emulator.stand_in.arguments import ONE_WORD, TWO_WORDS, Call
from deploy.emulator.stand_in.client import Client
from deploy.emulator.stand_in.commands import run_command
from deploy.emulator.stand_in.on_board import with_target
from deploy.emulator.stand_in.session import Session
from deploy.emulator.stand_in.state import Server
from deploy.emulator.stand_in.targets import NOT_MATCHED, NoTarget, Target
from deploy.emulator.stand_in.usage import USAGE

BANNER = b"OHOS HDC\0\0\0"
LARGE_BLOCKS = b"H"
GREETING_BYTES = (44, 108, 268)
"""Sizes of a client's first frame: plain, with a version, with a long key."""
WAITS = b"W"
"""Stands behind the banner of a client that names a board only to wait for it."""
ANY = "any"
WITHOUT_BOARD = frozenset(("list targets", "checkserver", "wait", "tconn", "any", "discover", "alive"))
"""What a client that has named a board may not ask for, as ``fport ls``."""
KEY_BYTES = 32
LONGEST_FRAME = 1024 * 1024
IDLE_SECONDS = 900.0


def serve(server: Server, forward_ip: str) -> None:
    """Serves clients until the server is killed or nobody has come for a while."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", server.port))
        except OSError:
            return
        listening.settimeout(1.0)
        server.start()
        with server.change() as state:
            state.process = os.getpid()
            state.forward_ip = forward_ip or state.forward_ip
        server.pid_file.write_text(f"{os.getpid()}")
        # Not before: whoever has started this process takes it for ready when it is connected.
        listening.listen(64)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        last = time.monotonic()
        while time.monotonic() < last + IDLE_SECONDS and server.runs:
            with contextlib.suppress(TimeoutError):
                connection, _ = listening.accept()
                connection.settimeout(None)
                threading.Thread(target=_talk, args=(connection, server), daemon=True).start()
            if threading.active_count() > 1:
                last = time.monotonic()


def _talk(connection: socket.socket, server: Server) -> None:
    with connection, contextlib.suppress(LinkEnded, OSError):
        tag = LARGE_BLOCKS if find_release().block > OLD_BLOCK else b"\0"
        send(connection, BANNER + tag + os.urandom(4) + bytes(28))
        greeting = receive(connection)
        if len(greeting) not in GREETING_BYTES or greeting[:8] != BANNER[:8]:
            return
        key_end = 12 + (len(greeting) - 12 if len(greeting) == GREETING_BYTES[2] else KEY_BYTES)
        key = greeting[12:key_end].split(b"\0")[0].decode("utf-8", "replace")
        waits = greeting[11:12] == WAITS
        channel = Channel(call=Call(key=key), server=server, connection=connection, waits=waits)
        while channel.answer(receive(connection).rstrip(b"\0")):
            pass
        # A thread that still reads from the client would keep a merely closed socket open.
        connection.shutdown(socket.SHUT_RDWR)


def send(connection: socket.socket, data: bytes | memoryview) -> None:
    """One frame: its length in four bytes, then the bytes."""
    connection.sendall(struct.pack(">I", len(data)))
    connection.sendall(data)


def receive(connection: socket.socket) -> bytes:
    """The next frame. Raises LinkEnded."""
    (size,) = struct.unpack(">I", read_exactly(connection, 4))
    if size > LONGEST_FRAME:
        raise LinkEnded(f"a frame of {size} bytes")
    return read_exactly(connection, size)


class Channel(Client):
    """One client of the server."""

    columns = b""

    def __init__(self, *, call: Call, server: Server, connection: socket.socket, waits: bool = False) -> None:
        super().__init__(call=call, server=server)
        self._connection = connection
        self._waits = waits
        self._alive = False

    def answer(self, line: bytes) -> bool:
        """Runs a command; True when the client may send another one."""
        call = read_line(line, self._board)
        here = Channel(call=call, server=self.server, connection=self._connection)
        if call.key and (call.command in WITHOUT_BOARD or call.line == b"fport ls"):
            self.say(self.release.broken_link)
            return False
        if call.command == "alive":
            self._alive = True
            return True
        if call.command == "checkserver":
            self.write(b"\x0d\x00" + f"Ver: {self.release.version}".encode())
        elif call.command == "version":
            self.write(f"Ver: {self.release.version}\n".encode())
        elif call.command == "help":
            self.write(USAGE.encode())
        elif call.command == "wait":
            return self.wait()
        elif call.command == "kill" and call.arguments in ((), ("-r",)):
            self.server.kill()
            os._exit(0)
        elif call.command in ("file send", "file recv") and call.rest.lstrip().startswith(b"remote "):
            relay_file(here)
        elif call.command == "shell" and not call.arguments:
            relay_shell(here)
        elif not run_command(here):
            self.say("[Fail]Unknown command...\n")
        return self._alive

    @cached_property
    def _board(self) -> str:
        """The key of the board that the client has named; empty when it has named none, or one that is not there."""
        if self._waits or not self.call.key:
            return ""
        try:
            return self.targets.find("" if self.call.key == ANY else self.call.key).key
        except NoTarget as error:
            if str(error) == NOT_MATCHED:
                self.say(NOT_MATCHED)
            return ""

    def choose(self) -> Target:
        """Only a client that names a board means one."""
        if not self.call.key:
            raise NoTarget(self.release.need_key)
        return super().choose()

    def wait(self) -> bool:
        """``wait``: says which board is connected, or that the client has to ask again."""
        for target in self.targets.all():
            if target.status == "Connected" and self.call.key in ("", target.key):
                self.say(f"Wait for connected target is {target.key}")
                return False
        self.say("[Fail]No any connected target")
        return self._waits

    def write(self, data: bytes | memoryview) -> None:
        if data:
            send(self._connection, data)

    def log(self, level: str, text: bytes) -> None:
        """The client's log is the client's own business."""

    def open(self, target: Target) -> Session:
        """A session with the board, which ends when the client goes away."""
        session = super().open(target)
        if not (self.call.command.startswith("file ") or (self.call.command == "shell" and not self.call.arguments)):
            threading.Thread(target=self._watch, args=(session,), daemon=True).start()
        return session

    def frames(self) -> Iterator[bytes]:
        """What the client sends while the command runs."""
        with contextlib.suppress(LinkEnded, OSError):
            while True:
                yield receive(self._connection)

    def _watch(self, session: Session) -> None:
        for _ in self.frames():
            pass
        session.break_off()


def read_line(line: bytes, key: str) -> Call:
    """Takes a command apart as it travels from a client to the server."""
    parts = line.decode("utf-8", "surrogateescape").split(" ")
    two = tuple(parts[:2])
    name = " ".join(two) if two in TWO_WORDS else parts[0]
    if name not in ONE_WORD and two not in TWO_WORDS and not name.startswith("wait"):
        return Call(key=key, command=name)
    rest = line[len(name.encode()) :]
    arguments = tuple(word for word in rest.decode("utf-8", "surrogateescape").split() if word)
    return Call(key=key, command="wait" if name.startswith("wait") else name, rest=rest, arguments=arguments)


@with_target()
def relay_file(client: Client, target: Target) -> None:
    """A file command whose client does the work: its frames are passed on, with their command number before them."""
    assert isinstance(client, Channel)
    text = client.call.rest.strip().removeprefix(b"remote ")
    with contextlib.closing(client.open(target)) as session:
        if client.call.command == "file send":
            client.write(struct.pack("<H", Command.FILE_INIT) + text)
        else:
            session.send(Command.FILE_INIT, text)
        threading.Thread(target=_pass_on, args=(client, session), daemon=True).start()
        for command, data in session.answers():
            if command in (Command.ECHO, Command.ECHO_RAW):
                client.show(command, data)
            else:
                client.write(struct.pack("<H", command) + data)


def _pass_on(client: Channel, session: Session) -> None:
    with contextlib.suppress(LinkEnded):
        for frame in client.frames():
            if len(frame) >= 2:
                session.send(struct.unpack("<H", frame[:2])[0], frame[2:])
        session.break_off()


@with_target()
def relay_shell(client: Client, target: Target) -> None:
    """An interactive shell: what the client sends is typed on the board's terminal."""
    assert isinstance(client, Channel)
    with contextlib.closing(client.open(target)) as session:
        session.send(Command.SHELL_START)
        threading.Thread(target=_type, args=(client, session), daemon=True).start()
        for command, data in session.answers():
            client.show(command, data)


def _type(client: Channel, session: Session) -> None:
    with contextlib.suppress(LinkEnded):
        for keys in client.frames():
            session.send(Command.SHELL_DATA, keys)
        session.break_off()
