"""A file on its way from a board, beside the name that it will have: of its process alone, and not there for long after that."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

PART_NAME = f".ohforge-pull-{secrets.token_hex(8)}.part"
"""Of what is on its way: nobody can foresee it and lay a link there, and it is as short as any name may be long. Not that of a stream,
which is gone on with."""
_ANY = re.compile(r"\.ohforge-pull-[0-9a-f]{16}\.part")


@contextlib.contextmanager
def own_part(part: Path) -> Iterator[None]:
    """Makes `part` anew, empty and for this user alone, and holds it while the block runs.

    hdc would write through a link that lies there, and keeps the mode of what it writes over. The lock goes when this
    process ends, however it does.
    """
    part.unlink(missing_ok=True)
    while True:
        with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)) as held:
            with contextlib.suppress(OSError):  # Not every file system knows locks.
                fcntl.flock(held, fcntl.LOCK_EX)
            if os.fstat(held.fileno()).st_nlink:
                yield
                return
        # Somebody took it for an abandoned one before it was held.


def remove_abandoned_parts(folder: Path) -> None:
    """Removes this user's parts in `folder` whose pulls were killed: their hdc may have gone on to the end."""
    with contextlib.suppress(OSError):
        for part in (Path(entry.path) for entry in os.scandir(folder) if _ANY.fullmatch(entry.name)):
            with contextlib.suppress(OSError):
                descriptor = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                with os.fdopen(descriptor) as held:
                    if os.fstat(descriptor).st_uid == os.getuid():
                        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        part.unlink()
