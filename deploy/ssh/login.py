"""Logging in over SSH: with whose key, to whom, and in what words it is refused."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.deadline import Deadline
from core.errors import BoardError, BoardOffline, BoardUnauthorised, HostKeyNotTrusted, OhforgeError
from deploy.board.script import quote
from deploy.ssh.address import Hop
from deploy.ssh.known_hosts import KnownKey, fingerprint, read_known
from deploy.ssh.program import ProgramLink

if TYPE_CHECKING:
    import paramiko

CONNECT_SECONDS = 20.0
LOOPBACK = "127.0.0.1"
NO_ANSWER = ("No existing session", "Authentication timeout")
"""What paramiko says of somebody who does not answer any more."""
RSA = {"rsa-sha2-512": "ssh-rsa", "rsa-sha2-256": "ssh-rsa"}
"""Ways to sign with a key that is called otherwise."""
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

    known = read_known(hop.known_hosts, hop.known_as)

    class Policy(paramiko.MissingHostKeyPolicy):
        def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
            # The client itself knows no host at all, so that each is judged here.
            _judge(hop, key, known, serial, accept_new=accept_new)

    def make_transport(*args: object, **options: object) -> paramiko.Transport:
        transport = paramiko.Transport(*args, **options)  # type: ignore[arg-type]
        options_of = transport.get_security_options()
        options_of.ciphers = sorted(options_of.ciphers, key=lambda name: name not in FAST_CIPHERS)
        kinds = {entry.kind for entry in known if not entry.revoked}
        options_of.key_types = sorted(options_of.key_types, key=lambda name: RSA.get(name, name) not in kinds)
        return transport

    # It logs the tracebacks of errors that are raised here too.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(Policy())
    try:
        if hop.agent:
            client._agent = _open_agent(hop.agent)  # type: ignore[attr-defined]  # paramiko knows the environment's only
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
                transport_factory=make_transport,
                allow_agent=hop.agent != "",
            )
    except OhforgeError:
        close(client)
        raise
    except Exception as error:
        transport = client.get_transport()
        greeted = transport is not None and bool(transport.remote_version)
        is_late = deadline.expired or str(error).startswith(NO_ANSWER)
        said = close(client)
        raise _refusal(hop, error, serial, greeted=greeted, is_late=is_late, said=said) from None
    return client


def _open_agent(path: str) -> paramiko.Agent:
    """The agent at that socket; one that does not answer has no keys."""
    import paramiko

    class NamedAgent(paramiko.Agent):
        def __init__(self) -> None:
            paramiko.agent.AgentSSH.__init__(self)
            with contextlib.suppress(OSError, paramiko.SSHException):
                link = socket.socket(socket.AF_UNIX)
                link.settimeout(CONNECT_SECONDS)
                link.connect(path)
                self._connect(link)  # type: ignore[attr-defined]

    return NamedAgent()


def close(client: paramiko.SSHClient) -> str:
    """Ends a connection, and the program that it goes by; what that said last."""
    transport = client.get_transport()
    client.close()
    if transport is not None and isinstance(transport.sock, ProgramLink):
        transport.join(CONNECT_SECONDS)  # It reads from the program.
        return transport.sock.end()
    return ""


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
            return ProgramLink.start(hop.command)
        link = socket.create_connection((hop.host, hop.port), timeout=seconds)
        # Else each command waits for the acknowledgement of what opens its channel, 40 ms where that is delayed.
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link
    except (OSError, paramiko.SSHException) as error:
        raise BoardOffline(
            f"{where} cannot be reached by SSH: {reason(error)}.",
            remedy="See with `ssh -v` to the same address whether its name is known, it is on and its sshd runs.",
        ) from None


def _refusal(hop: Hop, error: Exception, serial: str, *, greeted: bool, is_late: bool, said: str = "") -> OhforgeError:
    """The error for what paramiko raised; `said`: what the program of the link said last."""
    import paramiko

    where = f"{hop.user}@{hop.host}:{hop.port}"
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
        if hop.command and not greeted:
            why += " by its ProxyCommand" + (f", which said: {said}" if said else "")
        return BoardOffline(
            f"{where} does not speak SSH with us: {why}.",
            remedy="See with `ssh -v` to the same address what is there.",
        )
    return BoardError(f"{where}: {reason(error)}.")


def _judge(hop: Hop, key: paramiko.PKey, known: Sequence[KnownKey], serial: str, *, accept_new: bool) -> None:
    """Raises HostKeyNotTrusted for a key that a host has shown unless it is one of the known ones, or accepted now."""
    blob, shows = key.asbytes(), fingerprint(key.get_name(), key.asbytes())
    trusted = [entry for entry in known if not entry.revoked]
    revoked = next((entry for entry in known if entry.revoked and entry.blob == blob), None)
    if revoked is not None:
        raise HostKeyNotTrusted(
            f"{hop.known_as} shows a key that was revoked: {shows}. Somebody may be listening.",
            remedy=f"It stands in {revoked.file}. Ask who has revoked it; the host needs a new key.",
        )
    if any(entry.blob == blob for entry in trusted):
        return
    if trusted:
        other = next((entry for entry in trusted if entry.kind == key.get_name()), trusted[0])
        raise HostKeyNotTrusted(
            f"{hop.known_as} shows another key than the one that is known: {shows} instead of "
            f"{fingerprint(other.kind, other.blob)}. Somebody may be listening, or the system was installed anew.",
            remedy=f"When you know why: `ssh-keygen -f {quote(other.file)} -R {quote(hop.known_as)}`, then once "
            f"{_accepting(serial)}.",
        )
    if not accept_new or not hop.noted_in:
        keep = "" if hop.noted_in else "let UserKnownHostsFile of it in ~/.ssh/config name a file that keeps it, and "
        raise HostKeyNotTrusted(
            f"The key of {hop.known_as} is not known: {shows}.",
            remedy=f"Compare it with `ssh-keygen -lf` of the key there, then {keep}accept it once: {_accepting(serial)}.",
        )
    _note_key(hop, key)


def _accepting(serial: str) -> str:
    """What accepts the keys on the way to a board, to the host of one, or to a build host: for all that is one command."""
    return f"`ohforge board.info --board {quote(serial)} --accept-new`"


def _note_key(hop: Hop, key: paramiko.PKey) -> None:
    """Adds a host's key to the user's own file. Raises HostKeyNotTrusted when that cannot be done."""
    file = Path(hop.noted_in)
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with file.open("ab+") as known:
            begins = "" if not known.tell() or os.pread(known.fileno(), 1, known.tell() - 1) == b"\n" else "\n"
            known.write(f"{begins}{hop.known_as} {key.get_name()} {key.get_base64()}\n".encode())
    except OSError as error:
        raise HostKeyNotTrusted(f"{file} cannot be written: {error.strerror}.", remedy="Check its mode bits.") from None


def reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).strip().rstrip(".") or type(error).__name__
