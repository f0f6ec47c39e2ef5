"""Temporary folders for large files, which do not outlive their owner for long: those of the dead are removed by the next."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from core.files import remove_tree

PREFIX = "ohforge-spool-"
OWNER = ".owner"


@contextlib.contextmanager
def spool_folder() -> Iterator[Path]:
    """A folder that is removed when the block ends; when this process is killed, by `remove_abandoned_spools`.

    Its owner holds a lock in it, which the kernel frees when the owner is dead, however it died.
    """
    remove_abandoned_spools()
    # Under another name until it is locked: nobody shall take it for an abandoned one.
    made = Path(tempfile.mkdtemp(prefix="ohforge-"))
    folder = made.with_name(PREFIX + made.name.removeprefix("ohforge-"))
    try:
        with (made / OWNER).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            made.rename(folder)
            yield folder
    finally:
        remove_tree(made)
        remove_tree(folder)


def remove_abandoned_spools() -> None:
    """Removes this user's folders of `spool_folder` whose owners are dead."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            with (folder / OWNER).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(folder)
