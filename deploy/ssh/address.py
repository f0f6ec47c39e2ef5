"""Where an SSH board is: what the user wrote, completed by his OpenSSH configuration."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from core.addresses import quoted
from core.errors import ConfigurationError, NoBoard
from deploy.ssh.configuration import look_up

SCHEME = "ssh://"
WRITTEN = re.compile(
    r"(?:(?P<user>[^@/\s:-][^@/\s:]*)@)?(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[\w][\w.-]*)(?::(?P<port>\d{1,5}))?"
)
DEFAULT_PORT = 22


@dataclass(frozen=True, kw_only=True)
class Hop:
    """A computer to log in to, and with what."""

    host: str
    """Name or address to connect to."""
    port: int
    user: str
    known_as: str
    """The name under which its key stands in the files of known hosts."""
    keys: tuple[str, ...] = ()
    """Files of private keys that the configuration names."""
    known_hosts: tuple[str, ...] = ()
    """Files of known host keys, the user's own first."""
    noted_in: str = ""
    """The file that gets the keys which the user accepts; empty: the configuration names none that would keep them."""
    agent: str | None = None
    """The socket of the agent to ask, empty for none at all; None: that of the environment."""
    command: str = ""
    """A program whose standard input and output are the link (ProxyCommand)."""
    through: tuple[str, ...] = ()
    """Computers to go through first (ProxyJump), as they are written."""
    ciphers: str = ""
    """Those that the configuration wants; empty: it does not say."""


def is_ssh(serial: str) -> bool:
    """Whether a serial is that of an SSH board."""
    return serial.startswith(SCHEME)


def ssh_serial(text: str) -> str:
    """The serial of the SSH board at ``[ssh://][USER@]HOST[:PORT]``. Raises NoBoard for another form."""
    written = text.removeprefix(SCHEME).rstrip("/")
    _parse(written)
    return f"{SCHEME}{written}"


def split_host(text: str) -> tuple[str, str] | None:
    """Host and board of ``ssh://[USER@]HOST[:PORT]/KEY``, the serial of a board behind a host; None for another form."""
    host, _, key = text.removeprefix(SCHEME).partition("/")
    return (ssh_serial(host), key) if is_ssh(text) and key else None


def way_to(text: str, configuration: Path | None = None) -> list[Hop]:
    """The computers to log in to, one through the other, so as to get to `text`, the last. Raises as `resolve`."""
    return list(_way(text, configuration, ()))


def _way(text: str, configuration: Path | None, after: tuple[str, ...]) -> Iterator[Hop]:
    """As OpenSSH goes it: of several in a row only the first has a way of its own."""
    target = resolve(text, configuration)
    if target.through and target.through[0] not in after:
        first, *others = target.through
        yield from _way(first, configuration, (*after, first))
        yield from (resolve(name, configuration) for name in others)
    yield target


def resolve(text: str, configuration: Path | None = None) -> Hop:
    """How to log in to ``[ssh://][USER@]HOST[:PORT]``; HOST may be a Host of the user's OpenSSH `configuration`.

    Raises NoBoard for another form, ConfigurationError when the configuration cannot be read.
    """
    user, name, port = _parse(text.removeprefix(SCHEME))
    file = configuration or Path("~/.ssh/config").expanduser()
    found = look_up(file, name)
    port = port or _port(str(found.get("port", DEFAULT_PORT)), file)
    host = str(found.get("hostname", name))
    alias = str(found.get("hostkeyalias", host))
    jump = str(found.get("proxyjump", "none"))
    command = str(found.get("proxycommand", "none"))
    files = str(found.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")).split()
    system = str(found.get("globalknownhostsfile", "/etc/ssh/ssh_known_hosts")).split()
    return Hop(
        host=host,
        port=port,
        user=user or str(found.get("user", "")) or getpass.getuser(),
        known_as=alias if port == DEFAULT_PORT or "hostkeyalias" in found else f"[{alias}]:{port}",
        keys=tuple(str(Path(key).expanduser()) for key in found.get("identityfile", ())),
        known_hosts=tuple(str(Path(file).expanduser()) for file in [*files, *system] if file != "none"),
        noted_in=next((str(Path(file).expanduser()) for file in files if file not in ("none", os.devnull)), ""),
        agent=_agent(str(found.get("identityagent", "SSH_AUTH_SOCK"))),
        command="" if command == "none" else command,
        through=() if jump == "none" else tuple(jump.split(",")),
        ciphers=str(found.get("ciphers", "")),
    )


def _parse(text: str) -> tuple[str, str, int]:
    """User (may be empty), host and port (0: none written)."""
    found = WRITTEN.fullmatch(text)
    port = int(found["port"] or 0) if found is not None else 0
    if found is None or port > 65535:
        raise NoBoard(
            f"{quoted(text)} is no address of an SSH board.",
            remedy="Write ssh://USER@HOST, with :PORT after it when that is not 22; a password is never taken from it.",
        )
    return found["user"] or "", found["host"].strip("[]"), port


def _port(text: str, file: Path) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise ConfigurationError(
            f"{file} has a Port that is none: {text!r}.", remedy="Correct it: a number up to 65535."
        )
    return int(text)


def _agent(text: str) -> str | None:
    """What IdentityAgent names."""
    if text == "SSH_AUTH_SOCK":
        return None
    if text == "none":
        return ""
    return str(Path(os.path.expandvars(text.replace("%d", "~").replace("%u", getpass.getuser()))).expanduser())
