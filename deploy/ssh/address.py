"""Where an SSH board is: what the user wrote, completed by his OpenSSH configuration."""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.addresses import quoted
from core.errors import ConfigurationError, NoBoard

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


def resolve(text: str, configuration: Path | None = None) -> Hop:
    """How to log in to ``[ssh://][USER@]HOST[:PORT]``; HOST may be a Host of the user's OpenSSH `configuration`.

    Raises NoBoard for another form, ConfigurationError when the configuration cannot be read.
    """
    user, name, port = _parse(text.removeprefix(SCHEME))
    found = _look_up(configuration or Path("~/.ssh/config").expanduser(), name)
    port = port or int(found.get("port", DEFAULT_PORT))
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


def _look_up(file: Path, name: str) -> Mapping[str, Any]:
    import paramiko

    try:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}.", remedy="Check its mode bits.") from None
    try:
        return paramiko.SSHConfig.from_text(text).lookup(name)
    except (paramiko.ConfigParseError, paramiko.CouldNotCanonicalize, ImportError) as error:
        remedy = "Correct it, or write the address out: ssh://USER@HOST:22."
        raise ConfigurationError(f"{file} is not understood: {error}.", remedy=remedy) from None
