"""Logging in over SSH: with whose key, to whom, and in what words it is refused."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from core.deadline import Deadline
from core.errors import BoardError, BoardOffline, BoardUnauthorised, HostKeyNotTrusted, OhforgeError
from deploy.board.script import quote
from deploy.ssh.address import Hop

if TYPE_CHECKING:
    import paramiko

CONNECT_SECONDS = 20.0
LOOPBACK = "127.0.0.1"
NO_ANSWER = ("No existing session", "Authentication timeout")
"""What paramiko says of somebody who does not answer any more."""
FAST_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
"""Which need no further pass over the data for their integrity."""


def log_in(
    hop: Hop,
    way: paramiko.SSHClient | None,
    *,
    serial: str,
    deadline: Deadline,
    accept_new: bool,
    connect_seconds: float,
) -> paramiko.SSHClient:
    """A connection to `hop` through `way`, on the way to the board of that serial; see `deploy.ssh.link.SshLink.open`."""
    import paramiko

    class Policy(paramiko.MissingHostKeyPolicy):
        def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
            if not accept_new:
                raise _unknown_key(hop, key, serial)
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
        link = _connect(hop, way, min(connect_seconds, deadline.remaining))
        seconds = min(CONNECT_SECONDS, deadline.remaining)
        with _given_up_at(deadline, client):
            client.connect(
                hop.known_as,
                username=hop.user,
                sock=link,
                key_filename=[key for key in hop.keys if Path(key).is_file()] or None,  # type: ignore[arg-type]  # or several
                timeout=seconds,
                banner_timeout=seconds,
                auth_timeout=seconds,
                transport_factory=_make_transport,
            )
    except OhforgeError:
        close(client)
        raise
    except Exception as error:
        transport = client.get_transport()
        greeted = transport is not None and bool(transport.remote_version)
        is_late = deadline.expired or str(error).startswith(NO_ANSWER)
        close(client)
        raise _refusal(hop, error, serial, greeted=greeted, is_late=is_late) from None
    return client


def close(client: paramiko.SSHClient) -> None:
    """Ends a connection, and the program that it goes by."""
    from paramiko import ProxyCommand

    transport = client.get_transport()
    client.close()
    if transport is not None and isinstance(transport.sock, ProxyCommand):
        transport.join(CONNECT_SECONDS)  # It reads from the program, and asks it to end.
        with transport.sock.process as program:
            program.kill()


@contextlib.contextmanager
def _given_up_at(deadline: Deadline, client: paramiko.SSHClient) -> Iterator[None]:
    """Ends the connection when the block takes longer: paramiko's own limits are for each step and each key."""

    def end() -> None:
        if (transport := client.get_transport()) is not None:
            transport.close()

    timer = threading.Timer(deadline.remaining, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


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
            f"{where} cannot be reached by SSH: {reason(error)}.",
            remedy="See with `ssh -v` to the same address whether its name is known, it is on and its sshd runs.",
        ) from None


def _refusal(hop: Hop, error: Exception, serial: str, *, greeted: bool, is_late: bool) -> OhforgeError:
    import paramiko

    where = f"{hop.user}@{hop.host}:{hop.port}"
    if isinstance(error, paramiko.BadHostKeyException):
        return HostKeyNotTrusted(
            f"{hop.known_as} shows another key than the one that is known: {fingerprint(error.key)} instead of "
            f"{fingerprint(error.expected_key)}. Somebody may be listening, or the system was installed anew.",
            remedy=f"When you know why: `ssh-keygen -f {quote(_file_that_knows(hop))} -R {quote(hop.known_as)}`, then once "
            f"{_accepting(serial)}.",
        )
    if isinstance(error, paramiko.PasswordRequiredException):
        return BoardUnauthorised(
            f"{where}: a private key has a passphrase.", remedy="Give it to ssh-agent with ssh-add."
        )
    if isinstance(error, paramiko.AuthenticationException) and not is_late:
        return BoardUnauthorised(
            f"{where} does not let this user in: {reason(error)}.",
            remedy=f"Put a key of yours there with `ssh-copy-id -p {hop.port} {hop.user}@{hop.host}`, or give it to ssh-agent.",
        )
    if isinstance(error, paramiko.SSHException) and "No authentication methods" in str(error):
        return BoardUnauthorised(
            f"There is no key with which to log in at {where}.",
            remedy="Make one with ssh-keygen, or name it as IdentityFile in ~/.ssh/config.",
        )
    if isinstance(error, OSError | EOFError | paramiko.SSHException):
        why = "it does not go on with logging in" if is_late else reason(error)
        why = why if greeted else "no greeting of an sshd came"
        return BoardOffline(
            f"{where} does not speak SSH with us: {why}.",
            remedy="See with `ssh -v` to the same address what is there.",
        )
    return BoardError(f"{where}: {reason(error)}.")


def fingerprint(key: paramiko.PKey) -> str:
    """A host's key as OpenSSH shows it (``ssh-keygen -l``)."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"SHA256:{digest} ({key.get_name()})"


def _unknown_key(hop: Hop, key: paramiko.PKey, serial: str) -> HostKeyNotTrusted:
    return HostKeyNotTrusted(
        f"The key of {hop.known_as} is not known: {fingerprint(key)}.",
        remedy=f"Compare it with `ssh-keygen -lf` of the key there, then accept it once: {_accepting(serial)}.",
    )


def _accepting(serial: str) -> str:
    """What accepts the keys on the way to a board, to the host of one, or to a build host: for all that is one command."""
    return f"`ohforge board.info --board {quote(serial)} --accept-new`"


def _file_that_knows(hop: Hop) -> str:
    """The first of the files of known hosts in which a key of `hop` stands."""
    import paramiko

    for file in hop.known_hosts:
        with contextlib.suppress(OSError):
            if paramiko.HostKeys(file).lookup(hop.known_as) is not None:
                return file
    return hop.known_hosts[0]


def _note_key(hop: Hop, key: paramiko.PKey) -> None:
    """Adds a host's key to the user's own file. Raises HostKeyNotTrusted when that cannot be done."""
    file = Path(hop.known_hosts[0]) if hop.known_hosts else Path("~/.ssh/known_hosts").expanduser()
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with file.open("a", encoding="utf-8") as known:
            known.write(f"{hop.known_as} {key.get_name()} {key.get_base64()}\n")
    except OSError as error:
        raise HostKeyNotTrusted(f"{file} cannot be written: {error.strerror}.", remedy="Check its mode bits.") from None


def reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).strip().rstrip(".") or type(error).__name__
