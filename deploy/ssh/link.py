"""An SSH connection that runs one command after another, or several at once."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING

from core.deadline import Deadline
from core.errors import LostConnection
from deploy.board.script import quote
from deploy.ssh.address import Hop, way_to
from deploy.ssh.login import CONNECT_SECONDS, LOOPBACK, close, log_in, reason
from deploy.ssh.openssh import Known, NotLetIn, OpenSsh
from deploy.ssh.start_files import AfterToken

if TYPE_CHECKING:
    import paramiko

LOOK_SECONDS = 0.1
"""How long the end of a deadline may go unseen."""
ALIVE_SECONDS = 15.0
"""Between two questions whether the other end still answers, which also keep routers on the way from forgetting the link."""
SILENT_SECONDS = 60.0
"""After which a link by which nothing comes and goes, answers neither, is taken for dead."""
SLOWEST_LINK = 20_000
"""Bytes a second: the answer to a question comes after all that was sent before it, which buffers on the way hold."""
KEEPALIVE = "keepalive@openssh.com"
CHUNK = 65_536
BLOCK = 1024 * 1024
MANY = 128 * 1024 * 1024
"""Bytes that pay for another login: on loopback that takes 0.3 s, and of each 64 MiB then 0.1 s are spared."""


class LinkHadEnded(Exception):
    """A command was not begun, because the link had ended before it."""


class SshLink:
    """A connection that is open."""

    def __init__(self, serial: str, clients: list[paramiko.SSHClient], way: list[Hop]) -> None:
        self._serial = serial
        self._clients = clients
        """Those of the computers on the way, the board's own last."""
        self._openssh = OpenSsh.find(list(map(_known, way, clients)), SILENT_SECONDS)
        self.refusal: NotLetIn | None = None
        """Why the system's ssh was not let in where this connection was."""
        self.is_silent = False
        """Whether it was ended because nothing came by it any more."""
        self._moved_at = time.monotonic()
        self._sent = 0
        """Bytes, since the link was opened."""
        self._is_greeted = False
        """Whether the start files of the user's shell print something there."""
        self._closing = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    @classmethod
    def open(
        cls, serial: str, *, deadline: Deadline, accept_new: bool = False, connect_seconds: float = CONNECT_SECONDS
    ) -> SshLink:
        """Logs in at the board of that serial, by way of the computers that the user's configuration names.

        With `accept_new` the key of a host that is not known is noted and trusted from then on. `connect_seconds` are
        for each computer to take the connection, before anything is said.
        Raises BoardOffline, also when that is not done by `deadline`, BoardUnauthorised, HostKeyNotTrusted, ConfigurationError;
        DeadlineExpired when it was over before.
        """
        if deadline.expired:
            raise deadline.error()
        clients: list[paramiko.SSHClient] = []
        way = way_to(serial)
        try:
            for hop in way:
                before = clients[-1] if clients else None
                client = log_in(
                    hop,
                    before,
                    serial=serial,
                    deadline=deadline,
                    accept_new=accept_new,
                    connect_seconds=connect_seconds,
                )
                clients.append(client)
        except BaseException:
            _close_all(clients)
            raise
        return cls(serial, clients, way)

    @property
    def is_open(self) -> bool:
        transport = self._clients[-1].get_transport()
        return transport is not None and transport.is_active()

    def close(self) -> None:
        """Ends the connection and whatever runs by it."""
        self._closing.set()
        _close_all(self._clients)

    def _watch(self) -> None:
        """Ends the connection when the other end is silent, so that what waits for it does not do so until its deadline."""
        transport, arrived = self._clients[-1].get_transport(), 0
        while transport is not None and transport.is_active() and not self._closing.wait(ALIVE_SECONDS):
            asked, sent, answered = time.monotonic(), self._sent, threading.Event()
            threading.Thread(target=_ask, args=(transport, answered), daemon=True).start()
            while not answered.wait(ALIVE_SECONDS / 10):
                patience = SILENT_SECONDS + (self._sent - arrived) / SLOWEST_LINK
                if time.monotonic() - max(asked, self._moved_at) > patience:
                    self.is_silent = True
                    transport.close()
                    return
            arrived = sent

    def run(
        self,
        command: str,
        *,
        deadline: Deadline,
        on_output: Callable[[bytes], object],
        on_errors: Callable[[bytes], object] | None = None,
        feed: Iterable[bytes | memoryview] = (),
        token: str = "",
    ) -> int | None:
        """Runs a command line and hands on what it prints, both streams as one; its status, None when that never came.

        With `on_errors` that gets what comes on standard error, at the end: at most a channel's window, 2 MB.
        Standard input is what `feed` gives, as fast as it is taken, and stays open until the command ends unless something
        was fed. With a `token`, which the command prints on a line of its own when it begins, what comes before that is left
        out; all that is wanted comes on standard output then, unless there is `on_errors`.
        Raises DeadlineExpired, LostConnection when the command was not begun, LinkHadEnded.
        """
        output = AfterToken(token=token, hand_on=on_output)
        errors = AfterToken(token=token, hand_on=on_errors or on_output)
        with self._channel(deadline) as channel:
            channel.set_combine_stderr(on_errors is None and not token)
            try:
                channel.exec_command(command)
            except Exception as error:
                raise LostConnection(f"Board {self._serial} did not begin a command: {reason(error)}.") from None
            channel.settimeout(LOOK_SECONDS)
            fed = False
            for chunk in feed:
                fed = True
                if not self._send_all(channel, chunk, deadline):
                    break  # It has ended before it took everything; why, it will have said.
            if fed:
                with _unless_ended():
                    channel.shutdown_write()
            while chunk := _next_output(channel, deadline):
                self._moved_at = time.monotonic()
                output.add(chunk)
            output.finish()
            self._is_greeted = self._is_greeted or bool(output.greeting)
            while (on_errors is not None or not output.begun) and channel.recv_stderr_ready():
                errors.add(channel.recv_stderr(CHUNK))
            errors.finish()
            while not channel.status_event.wait(LOOK_SECONDS) and self.is_open:
                if deadline.expired:
                    raise deadline.error()
            return None if channel.exit_status < 0 else channel.exit_status

    def run_script(
        self,
        script: str,
        *,
        deadline: Deadline,
        on_output: Callable[[bytes], object],
        on_errors: Callable[[bytes], object] | None = None,
        feed: Iterable[bytes | memoryview] = (),
    ) -> int | None:
        """As `run`, whatever the user's own shell is there, and whatever its start files print."""
        token = f"OHF{secrets.token_hex(8)}"
        begin = f"exec 2>&1; echo {token}" if on_errors is None else f"echo {token}; echo {token} >&2"
        command = f"exec /bin/sh -c {quote(f'{begin}; {script}')}"
        return self.run(command, deadline=deadline, on_output=on_output, on_errors=on_errors, feed=feed, token=token)

    @property
    def many(self) -> int | None:
        """From how many bytes on they go quicker by the system's ssh, logging in included; None: they never do."""
        return MANY if self._openssh is not None else None

    def run_with_file(
        self,
        script: str,
        *,
        size: int,
        deadline: Deadline,
        on_output: Callable[[bytes], object] = lambda chunk: None,
        on_errors: Callable[[bytes], object] | None = None,
        source: IO[bytes] | None = None,
        sink: IO[bytes] | None = None,
    ) -> int | None:
        """Runs a script that reads `source` or fills `sink`, from where that stands; its status as `run_script` tells it.

        With `on_errors` that gets what comes on standard error. `size` is how many bytes that will be: many go by the system's
        ssh, if that is let in where this connection was.
        """
        # A file that ssh itself writes to would begin with the greeting.
        if self._openssh is not None and size >= MANY and not (sink is not None and self._is_greeted):
            file = source or sink
            start = file.tell() if file is not None else 0
            try:
                return self._openssh.run(
                    f"exec /bin/sh -c {quote(script)}",
                    deadline=deadline,
                    on_output=on_output,
                    on_errors=on_errors or (lambda chunk: None),
                    source=source,
                    sink=sink,
                )
            except NotLetIn as refusal:
                self._openssh, self.refusal = None, refusal
                if file is not None:
                    file.seek(start)
                if sink is not None:
                    sink.truncate()
        # One that is empty ends the input of a file that is.
        feed = () if source is None else itertools.chain([b""], iter(functools.partial(source.read, BLOCK), b""))
        take = on_output if sink is None else sink.write
        return self.run_script(script, deadline=deadline, on_output=take, on_errors=on_errors, feed=feed)

    def run_with_feed(
        self,
        command: str,
        feed: Iterable[bytes | memoryview],
        *,
        size: int,
        deadline: Deadline,
        on_output: Callable[[bytes], object],
    ) -> int | None:
        """As `run_with_file`, with bytes that are made as they are taken. Raises what `feed` does, LostConnection."""
        if self._openssh is None or size < MANY:
            return self.run(command, deadline=deadline, on_output=on_output, feed=feed)
        with _piped(feed) as source:
            try:
                return self._openssh.run(command, deadline=deadline, on_output=on_output, source=source)
            except NotLetIn as refusal:
                self._openssh, self.refusal = None, refusal
        raise LostConnection(f"The system's ssh was not let in at {self._serial} ({self.refusal}).")

    @contextlib.contextmanager
    def run_when_lost(self, command: str, deadline: Deadline) -> Iterator[None]:
        """Lets `command`, a line of the shell, be run there when the link ends before the block does."""
        with self._channel(deadline) as channel:
            try:
                channel.exec_command(f"exec /bin/sh -c {quote(f'read -r _ || exec {command}')}")
            except Exception as error:
                raise LostConnection(f"Board {self._serial} did not begin a command: {reason(error)}.") from None
            try:
                yield
            finally:
                with _unless_ended():
                    channel.sendall(b"\n")

    def open_port(self, port: int) -> paramiko.Channel:
        """A connection to a TCP port of the board's loopback. Raises LostConnection when the board refuses it."""
        transport = self._clients[-1].get_transport()
        try:
            assert transport is not None, "the link was opened"
            return transport.open_channel("direct-tcpip", (LOOPBACK, port), (LOOPBACK, 0), timeout=CONNECT_SECONDS)
        except Exception as error:
            raise LostConnection(f"Port {port} of board {self._serial} cannot be reached: {reason(error)}.") from None

    def _send_all(self, channel: paramiko.Channel, chunk: bytes | memoryview, deadline: Deadline) -> bool:
        """Whether all of it was taken before the other side ended."""
        view = memoryview(chunk)
        with _unless_ended():
            while view:
                if deadline.expired:
                    raise deadline.error()
                with contextlib.suppress(TimeoutError):
                    count = channel.send(bytes(view[:CHUNK]))
                    view, self._sent, self._moved_at = view[count:], self._sent + count, time.monotonic()
        return not view

    @contextlib.contextmanager
    def _channel(self, deadline: Deadline) -> Iterator[paramiko.Channel]:
        transport = self._clients[-1].get_transport()
        if transport is None:
            raise LinkHadEnded("it is closed")
        try:
            channel = transport.open_session(timeout=min(deadline.remaining, CONNECT_SECONDS))
        except Exception as error:
            if deadline.expired:
                raise deadline.error() from None
            if not transport.is_active():
                raise LinkHadEnded(reason(error)) from None
            raise LostConnection(f"Board {self._serial} takes no command: {reason(error)}.") from None
        try:
            yield channel
        finally:
            with _unless_ended():
                channel.close()


@contextlib.contextmanager
def _piped(feed: Iterable[bytes | memoryview]) -> Iterator[IO[bytes]]:
    """A file in which what `feed` gives can be read once. Raises what that raises."""
    reading, writing = os.pipe()
    failures: list[BaseException] = []

    def fill() -> None:
        try:
            with os.fdopen(writing, "wb", buffering=0) as sink:
                for block in feed:
                    view = memoryview(block)
                    while view:
                        view = view[sink.write(view) :]
        except BrokenPipeError:
            pass  # Nobody reads any more; why, that one says.
        except BaseException as error:
            failures.append(error)

    filling = threading.Thread(target=fill, name="ssh feed", daemon=True)
    filling.start()
    try:
        with os.fdopen(reading, "rb", buffering=0) as source:
            yield source
    finally:
        filling.join()
        if failures:
            raise failures[0]


def _known(hop: Hop, client: paramiko.SSHClient) -> Known:
    transport = client.get_transport()
    assert transport is not None, "it was logged in to just now"
    key = transport.get_remote_server_key()
    return Known(hop=hop, address=_address(hop, transport), key=f"{key.get_name()} {key.get_base64()}")


def _address(hop: Hop, transport: paramiko.Transport) -> str:
    """Of the very computer that is connected, for a name may stand for several."""
    link = transport.sock
    if not isinstance(link, socket.socket) or link.family == socket.AF_UNIX:  # A channel, or a program's link.
        return hop.host
    with contextlib.suppress(OSError):
        address, _, *scope = link.getpeername()
        if scope[1:] in ([], [0]):
            return str(address)
    return hop.host


def _ask(transport: paramiko.Transport, answered: threading.Event) -> None:
    """An sshd answers what it does not know, too. A link that has ended needs no further watching."""
    with _unless_ended():
        transport.global_request(KEEPALIVE, wait=True)
    answered.set()


def _unless_ended() -> contextlib.suppress:
    """Suppresses what paramiko raises of a channel whose other side, or whose link, has ended."""
    from paramiko import SSHException

    return contextlib.suppress(OSError, EOFError, SSHException)


def _next_output(channel: paramiko.Channel, deadline: Deadline) -> bytes:
    """What came next; empty at the end of the output, or of the link."""
    while True:
        if deadline.expired:
            raise deadline.error()
        try:
            return channel.recv(CHUNK)
        except TimeoutError:
            continue


def _close_all(clients: Iterable[paramiko.SSHClient]) -> None:
    for client in reversed(list(clients)):
        close(client)
