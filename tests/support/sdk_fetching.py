"""What the tests of fetching an SDK share."""

from __future__ import annotations

from core.session import Session
from toolchains.installed import sdk_root

HOST = "linux-x64"


def nothing_is_installed(session: Session) -> bool:
    return not list(sdk_root(session).glob("[!.]*"))
