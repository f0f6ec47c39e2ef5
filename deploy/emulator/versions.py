"""What hdc says in the releases of OpenHarmony that differ."""

from __future__ import annotations

import os
from dataclasses import dataclass

VARIABLE = "OHFORGE_EMULATOR_HDC_VERSION"
"""Variable: the OpenHarmony release (such as 5.0, 5.1 or 7.0) whose hdc the stand-in plays."""
NEWEST = "7.0"


@dataclass(frozen=True, kw_only=True)
class Words:
    """Version number and texts of one release."""

    release: str
    version: str
    need_key: str = "[Fail]ExecuteCommand need connect-key? please confirm a device by help info"
    offline: str = "[Fail][E001005] Device not found or connected"
    no_folder: str = "[E005005] Error create directory: {reason}, path:{masked}"
    bad_address: str = "[Fail][E001104]:IP address incorrect\n"
    unknown_state: str = "Unknown"
    unknown_name: str = "unknown..."
    notices_full_disk: bool = True
    authorises: bool = True


_OLD_OFFLINE = "[Fail]Device not founded or connected"
_OLD_NO_FOLDER = "Error create directory, path:{path}"
_OLD_ADDRESS = "[Fail]IP address incorrect\n"


def _before_5(release: str, version: str) -> Words:
    return Words(
        release=release,
        version=version,
        need_key="[Fail]ExecuteCommand need connect-key?",
        offline=_OLD_OFFLINE,
        no_folder=_OLD_NO_FOLDER,
        bad_address=_OLD_ADDRESS,
        unknown_state="UNKNOW",
        unknown_name="",
        notices_full_disk=False,
        authorises=False,
    )


def _before_5_1(release: str, version: str) -> Words:
    return Words(
        release=release,
        version=version,
        offline=_OLD_OFFLINE,
        no_folder=_OLD_NO_FOLDER,
        bad_address=_OLD_ADDRESS,
        notices_full_disk=False,
    )


RELEASES = {
    "3.2": _before_5("3.2", "1.2.0a"),
    "4.0": _before_5("4.0", "1.3.0a"),
    "4.1": _before_5("4.1", "2.0.0a"),
    "5.0": _before_5_1("5.0", "3.1.0b"),
    "5.0.3": _before_5_1("5.0.3", "3.1.0e"),
    "5.1": Words(release="5.1", version="3.1.0e"),
    "6.0": Words(release="6.0", version="3.2.0c"),
    "6.1": Words(release="6.1", version="3.2.0c"),
    "7.0": Words(release="7.0", version="3.2.0f"),
}


def words_of(release: str = "") -> Words:
    """The texts of a release; without one, of the release that the variable names, else of the newest.

    A patch release that is not listed (5.1.2) speaks as its minor release does. Raises UnknownName.
    """
    name = release or os.environ.get(VARIABLE, "") or NEWEST
    found = RELEASES.get(name) or RELEASES.get(".".join(name.split(".")[:2]))
    if found is None:
        from core.errors import unknown_name

        raise unknown_name("OpenHarmony release of hdc", name, RELEASES)
    return found
