"""An SSH connection that runs one command after another, or several at once."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import itertools
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from core.deadline import Deadline
from core.errors import BoardError, BoardOffline, BoardUnauthorised, HostKeyNotTrusted, LostConnection, OhforgeError
from deploy.board.script import quote
from deploy.ssh.address import Hop, resolve
from deploy.ssh.openssh import Known, NotLetIn, OpenSsh

if TYPE_CHECKING:
    import paramiko

CONNECT_SECONDS = 20.0
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
MANY = 16 * 1024 * 1024
LOOPBACK = "127.0.0.1"
NO_GREETING = ("Error reading SSH protocol banner", "No existing session")
"""What paramiko says of somebody who answers nothing."""
FAST_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
"""Which need no further pass over the data for their integrity."""


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
        self._closing = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    @classmethod
    def open(cls, serial: str, *, accept_new: bool = False, connect_seconds: float = CONNECT_SECONDS) -> SshLink:
        """Logs in at the board of that serial, by way of the computers that the user's configuration names.

        With `accept_new` the key of a host that is not known is noted and trusted from then on. `connect_seconds` are
        for each computer to take the connection, before anything is said.
        Raises BoardOffline, BoardUnauthorised, HostKeyNotTrusted, ConfigurationError.
        """
        clients: list[paramiko.SSHClient] = []
        target = resolve(serial)
        way = [*(resolve(name) for name in target.through), target]
        try:
            for hop in way:
                sock = _connect(hop, clients[-1] if clients else None, connect_seconds)
                clients.append(_log_in(hop, sock, accept_new=accept_new))
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
    ) -> int | None:
        """Runs a command line and hands on what it prints, both streams as one; its status, None when that never came.

        With `on_errors` that gets what comes on standard error, at the end: at most a channel's window, 2 MB.
        Standard input is what `feed` gives, as fast as it is taken, and stays open until the command ends unless something
        was fed. Raises DeadlineExpired, LostConnection when the command was not begun, LinkHadEnded.
        """
        with self._channel(deadline) as channel:
            channel.set_combine_stderr(on_errors is None)
            try:
                channel.exec_command(command)
            except Exception as error:
                raise LostConnection(f"Board {self._serial} did not begin a command: {_reason(error)}.") from None
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
                on_output(chunk)
            while on_errors is not None and channel.recv_stderr_ready():
                on_errors(channel.recv_stderr(CHUNK))
            while not channel.status_event.wait(LOOK_SECONDS) and self.is_open:
                if deadline.expired:
                    raise deadline.error()
            return None if channel.exit_status < 0 else channel.exit_status

    @property
    def many(self) -> int | None:
        """From how many bytes on they go quicker by the system's ssh, logging in included; None: they never do."""
        return MANY if self._openssh is not None else None

    def run_with_file(
        self,
        command: str,
        *,
        size: int,
        deadline: Deadline,
        on_output: Callable[[bytes], object] = lambda chunk: None,
        source: IO[bytes] | None = None,
        sink: IO[bytes] | None = None,
    ) -> int | None:
        """Runs a command line that reads `source`, from where that stands, or writes to `sink`; its status as `run` tells it.

        `size` is how many bytes that will be: many go by the system's ssh, if that is let in where this connection was.
        """
        if self._openssh is not None and size >= MANY:
            start = source.tell() if source is not None else 0
            try:
                return self._openssh.run(command, deadline=deadline, on_output=on_output, source=source, sink=sink)
            except NotLetIn as refusal:
                self._openssh, self.refusal = None, refusal
                if source is not None:
                    source.seek(start)
        # One that is empty ends the input of a file that is.
        feed = () if source is None else itertools.chain([b""], iter(functools.partial(source.read, BLOCK), b""))
        return self.run(command, deadline=deadline, on_output=on_output if sink is None else sink.write, feed=feed)

    @contextlib.contextmanager
    def run_when_lost(self, command: str, deadline: Deadline) -> Iterator[None]:
        """Lets `command`, a line of the shell, be run there when the link ends before the block does."""
        with self._channel(deadline) as channel:
            try:
                channel.exec_command(f"exec /bin/sh -c {quote(f'read -r _ || exec {command}')}")
            except Exception as error:
                raise LostConnection(f"Board {self._serial} did not begin a command: {_reason(error)}.") from None
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
            raise LostConnection(f"Port {port} of board {self._serial} cannot be reached: {_reason(error)}.") from None

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
                raise LinkHadEnded(_reason(error)) from None
            raise LostConnection(f"Board {self._serial} takes no command: {_reason(error)}.") from None
        try:
            yield channel
        finally:
            with _unless_ended():
                channel.close()


def _known(hop: Hop, client: paramiko.SSHClient) -> Known:
    transport = client.get_transport()
    assert transport is not None, "it was logged in to just now"
    key = transport.get_remote_server_key()
    return Known(hop=hop, address=_address(hop, transport), key=f"{key.get_name()} {key.get_base64()}")


def _address(hop: Hop, transport: paramiko.Transport) -> str:
    """Of the very computer that is connected, for a name may stand for several."""
    link = transport.sock
    if not isinstance(link, socket.socket):  # A program's pipe, or a channel.
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
    from paramiko import ProxyCommand

    for client in reversed(list(clients)):
        transport = client.get_transport()
        client.close()
        if transport is not None and isinstance(transport.sock, ProxyCommand):
            transport.join(CONNECT_SECONDS)  # It reads from the program, and asks it to end.
            with transport.sock.process as program:
                program.kill()


# logging in ----------------------------------------------------------------------------------------


def _log_in(hop: Hop, sock: socket.socket, *, accept_new: bool) -> paramiko.SSHClient:
    import paramiko

    class Policy(paramiko.MissingHostKeyPolicy):
        def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
            if not accept_new:
                raise _unknown_key(hop, key)
            _note_key(hop, key)

    # It logs the tracebacks of errors that are raised here too.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    client = paramiko.SSHClient()
    for file in hop.known_hosts:
        # A file that is not there, or has lines of kinds that are not known here, knows fewer hosts.
        with contextlib.suppress(OSError):
            client.load_system_host_keys(file)
    client.set_missing_host_key_policy(Policy())
    try:
        client.connect(
            hop.known_as,
            username=hop.user,
            sock=sock,
            key_filename=[key for key in hop.keys if Path(key).is_file()] or None,  # type: ignore[arg-type]  # or several
            timeout=CONNECT_SECONDS,
            banner_timeout=CONNECT_SECONDS,
            auth_timeout=CONNECT_SECONDS,
            transport_factory=_make_transport,
        )
    except OhforgeError:
        _close_all([client])
        raise
    except Exception as error:
        _close_all([client])
        raise _refusal(hop, error) from None
    return client


def _make_transport(*args: object, **options: object) -> paramiko.Transport:
    import paramiko

    transport = paramiko.Transport(*args, **options)  # type: ignore[arg-type]
    ciphers = transport.get_security_options().ciphers
    transport.get_security_options().ciphers = sorted(ciphers, key=lambda name: name not in FAST_CIPHERS)
    return transport


def _connect(hop: Hop, way: paramiko.SSHClient | None, seconds: float) -> socket.socket:
    """The bytes of the link, opened directly, through a computer that is logged in to, or by a program."""
    import paramiko

    where = f"{hop.host}:{hop.port}"
    try:
        if way is not None:
            transport = way.get_transport()
            assert transport is not None, "it was logged in to just now"
            return transport.open_channel("direct-tcpip", (hop.host, hop.port), (LOOPBACK, 0), timeout=seconds)  # type: ignore[return-value]
        if hop.command:
            return paramiko.ProxyCommand(hop.command)  # type: ignore[return-value]
        link = socket.create_connection((hop.host, hop.port), timeout=seconds)
        # Else each command waits for the acknowledgement of what opens its channel, 40 ms where that is delayed.
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link
    except (OSError, paramiko.SSHException) as error:
        raise BoardOffline(
            f"{where} cannot be reached by SSH: {_reason(error)}.",
            remedy="See with `ssh -v` to the same address whether its name is known, it is on and its sshd runs.",
        ) from None


def _refusal(hop: Hop, error: Exception) -> OhforgeError:
    import paramiko

    where = f"{hop.user}@{hop.host}:{hop.port}"
    if isinstance(error, paramiko.BadHostKeyException):
        return HostKeyNotTrusted(
            f"{hop.known_as} shows another key than the one that is known: {fingerprint(error.key)} instead of "
            f"{fingerprint(error.expected_key)}. Somebody may be listening, or the system was installed anew.",
            remedy=f"When you know why: `ssh-keygen -R '{hop.known_as}'`, then once with --accept-new.",
        )
    if isinstance(error, paramiko.PasswordRequiredException):
        return BoardUnauthorised(
            f"{where}: a private key has a passphrase.", remedy="Give it to ssh-agent with ssh-add."
        )
    if isinstance(error, paramiko.AuthenticationException):
        return BoardUnauthorised(
            f"{where} does not let this user in: {_reason(error)}.",
            remedy=f"Put a key of yours there with `ssh-copy-id -p {hop.port} {hop.user}@{hop.host}`, or give it to ssh-agent.",
        )
    if isinstance(error, paramiko.SSHException) and "No authentication methods" in str(error):
        return BoardUnauthorised(
            f"There is no key with which to log in at {where}.",
            remedy="Make one with ssh-keygen, or name it as IdentityFile in ~/.ssh/config.",
        )
    if isinstance(error, OSError | EOFError | paramiko.SSHException):
        reason = "no greeting of an sshd came" if str(error).startswith(NO_GREETING) else _reason(error)
        return BoardOffline(
            f"{where} does not speak SSH with us: {reason}.",
            remedy="See with `ssh -v` to the same address what is there.",
        )
    return BoardError(f"{where}: {_reason(error)}.")


def fingerprint(key: paramiko.PKey) -> str:
    """A host's key as OpenSSH shows it (``ssh-keygen -l``)."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"SHA256:{digest} ({key.get_name()})"


def _unknown_key(hop: Hop, key: paramiko.PKey) -> HostKeyNotTrusted:
    return HostKeyNotTrusted(
        f"The key of {hop.known_as} is not known: {fingerprint(key)}.",
        remedy="Compare it with `ssh-keygen -lf` of the key there, then accept it once: ohforge board.info --board … --accept-new.",
    )


def _note_key(hop: Hop, key: paramiko.PKey) -> None:
    """Adds a host's key to the user's own file. Raises HostKeyNotTrusted when that cannot be done."""
    file = Path(hop.known_hosts[0]) if hop.known_hosts else Path("~/.ssh/known_hosts").expanduser()
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with file.open("a", encoding="utf-8") as known:
            known.write(f"{hop.known_as} {key.get_name()} {key.get_base64()}\n")
    except OSError as error:
        raise HostKeyNotTrusted(f"{file} cannot be written: {error.strerror}.", remedy="Check its mode bits.") from None


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).strip().rstrip(".") or type(error).__name__
