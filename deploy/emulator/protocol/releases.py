"""What hdc says in the releases of OpenHarmony that differ."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from core.errors import unknown_name

VARIABLE = "OHFORGE_EMULATOR_HDC_VERSION"
"""Variable: the OpenHarmony release (such as 5.0, 5.1 or 7.0) whose hdc the stand-in plays."""
NEWEST = "7.0"


@dataclass(frozen=True, kw_only=True)
class Release:
    """Version number, texts and abilities of one release; without more said, those of 5.1 and later."""

    name: str
    version: str
    need_key: str = "[Fail]ExecuteCommand need connect-key? please confirm a device by help info"
    offline: str = "[Fail][E001005] Device not found or connected"
    broken_link: str = "[Fail][E002106] Failed to communicate with daemon"
    no_folder: str = "[E005005] Error create directory: {reason}, path:{path}"
    checks_address: bool = True
    """Whether an address is looked at by itself, before the port."""
    not_answered: str = (
        "[Fail][E000002]:The device unauthorized.\r\n"
        "This server's public key is not set.\r\n"
        "Please check for a confirmation dialog on your device.\r\n"
        "Otherwise try 'hdc kill' if that seems wrong."
    )
    refused: str = (
        "[Fail][E000003]:The device unauthorized.\r\n"
        "The user denied the access for the device.\r\n"
        "Please execute 'hdc kill' and redo your command,\r\n"
        "then check for a confirmation dialog on your device."
    )
    unknown_name: str = "unknown..."
    server_seconds: float = 12.0
    """How long a client looks for a server before it gives up."""
    block: int = 418_611
    """Payload of one FILE_DATA frame in bytes: 0.8 of the buffer, which is 15, 60 or 511 KiB."""
    authorises: bool = True
    bundles: bool = True
    """Whether ``-b`` is an option of ``shell`` and of file commands."""
    bundle_terminal: bool = False
    """Whether ``shell -b BUNDLE`` without a command asks for a terminal, which was refused before."""
    notices_full_disk: bool = True
    heartbeat: bool = True
    protects_keys: bool = True
    tells_debug_mode: bool = True
    """Whether ``target mount`` says by a code that the image is no debug image."""


_OLD_OFFLINE = "[Fail]Device not founded or connected"
_OLD_BROKEN_LINK = "[Fail]Failed to communicate with daemon"
_OLD_NO_FOLDER = "Error create directory, path:{path}"


def _before_5_1(name: str, version: str) -> Release:
    return Release(
        name=name,
        version=version,
        offline=_OLD_OFFLINE,
        no_folder=_OLD_NO_FOLDER,
        checks_address=False,
        notices_full_disk=False,
        heartbeat=False,
        protects_keys=False,
        tells_debug_mode=False,
    )


def _before_5_0_3(name: str, version: str) -> Release:
    later = _before_5_1(name, version)
    return replace(
        later,
        broken_link=_OLD_BROKEN_LINK,
        not_answered=later.not_answered.replace("\r\n", "\n"),
        refused=later.refused.replace("command,\r\n", "command, ").replace("\r\n", "\n"),
        bundles=False,
    )


def _before_5(name: str, version: str, block: int, server_seconds: float) -> Release:
    return replace(
        _before_5_0_3(name, version),
        need_key="[Fail]ExecuteCommand need connect-key?",
        unknown_name="",
        server_seconds=server_seconds,
        block=block,
        authorises=False,
    )


RELEASES = {
    "3.2": _before_5("3.2", "1.2.0a", 12_288, 5.0),
    "4.0": _before_5("4.0", "1.3.0a", 49_152, 5.0),
    "4.1": _before_5("4.1", "2.0.0a", 49_152, 12.0),
    "5.0": _before_5_0_3("5.0", "3.1.0b"),
    "5.0.3": _before_5_1("5.0.3", "3.1.0e"),
    "5.1": Release(name="5.1", version="3.1.0e"),
    "6.0": Release(name="6.0", version="3.2.0c"),
    "6.1": Release(name="6.1", version="3.2.0c"),
    "7.0-Beta1": Release(name="7.0-Beta1", version="3.2.0e", bundle_terminal=True),
    "7.0": Release(name="7.0", version="3.2.0f", bundle_terminal=True),
}


def find_release(name: str = "") -> Release:
    """The texts of a release; without one, of the release that the variable names, else of the newest.

    A patch release that is not listed (5.1.2) speaks as its minor release does. Raises UnknownName.
    """
    name = name or os.environ.get(VARIABLE, "") or NEWEST
    found = RELEASES.get(name) or RELEASES.get(".".join(name.split(".")[:2]))
    if found is None:
        raise unknown_name("OpenHarmony release of hdc", name, RELEASES)
    return found
