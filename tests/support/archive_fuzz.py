"""Unpacks archives that nobody would make, and judges what came of each: ``python -m tests.support.archive_fuzz --help``.

Each input has a number that makes it, so a finding can be made again: ``--first NUMBER --count 1``.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import os
import resource
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

from core.console import UNSEEN, Console, Verbosity
from core.errors import OhforgeError, explain_exception
from core.files import remove_tree
from core.session import Session
from core.settings import Settings
from core.tree import Limits
from core.unpack import unpack_tar, unpack_zip
from tests.support.archives import any_archive
from toolchains.install import fetch_sdk
from toolchains.installed import sdk_root

LIMITS = Limits(ratio_from=4_000_000)
LONGEST_SECONDS, HANGS_SECONDS = 30.0, 60.0
OUTSIDE = "outside-of-archives"
MEMORY = 1 << 30
"""Bytes that the process may have."""


class Finding(AssertionError):
    """What an archive must not do."""


class Judge:
    """Unpacks archives into a folder of its own, and looks whether anything else was touched. Raises Finding."""

    def __init__(self, folder: Path) -> None:
        # The same for every run, so that the same number makes the same bytes.
        self.outside, self._box = Path(tempfile.gettempdir(), OUTSIDE), folder / "box"
        for made in (self.outside, self._box):
            made.mkdir(parents=True, exist_ok=True)
        (self.outside / "kept").write_text("kept")
        settings = replace(Settings(), data_dir=str(folder / "data"), cache_dir=str(folder / "cache"))
        self._session = Session(settings=settings, console=Console(json_mode=True, verbosity=Verbosity.QUIET))

    def look_at(self, kind: str, content: bytes, random: Random) -> str:
        """Unpacks an archive of that kind by the product's own way; returns what came of it: ``good`` or a code."""
        archive = self._box / "archive"
        archive.write_bytes(content)
        started = time.monotonic()
        try:
            self._unpack(kind, archive, random)
            code = "good"
        except Finding:
            raise
        except BaseException as error:
            told = error if isinstance(error, OhforgeError) else explain_exception(error)
            code = told.code
            if code == "OHF9901" or not told.message or not told.remedy:
                raise Finding(f"{kind}: {code}: {type(error).__name__}: {error}") from error
        if time.monotonic() - started > LONGEST_SECONDS:
            raise Finding(f"{kind}: it took {time.monotonic() - started:.1f} s")
        self._look_around(code)
        return code

    def _unpack(self, kind: str, archive: Path, random: Random) -> None:
        if kind == "sdk":
            with contextlib.redirect_stderr(io.StringIO()) as said:
                fetch_sdk(self._session, host="linux-x64", components=["toolchains"], archive=str(archive))
            if UNSEEN.search(said.getvalue().replace("\n", "")):
                raise Finding(f"control characters on the terminal: {said.getvalue()!r}")
            return
        unpack = unpack_zip if kind == "zip" else unpack_tar
        subfolder, exclude = random.choice(["", "", "*", "top", "*/d"]), random.choice([(), (), ("b", "*.txt")])
        unpack(archive, self._box / "out", subfolder=subfolder, exclude=exclude, limits=LIMITS)

    def _look_around(self, code: str) -> None:
        """Whether there is what was made and nothing else, and clears it away."""
        if [path.name for path in self.outside.iterdir()] != ["kept"]:
            raise Finding("something was written outside")
        made = {path.name for path in self._box.iterdir()} - {"archive"}
        if made - ({"out"} if code == "good" else set()):
            raise Finding(f"{code} left {made}")
        root = sdk_root(self._session)
        sdks = [path for path in root.iterdir() if path.suffix != ".lock"] if root.is_dir() else []
        if any(path.name.startswith(".") for path in sdks) or (code != "good" and sdks):
            raise Finding(f"{code} left {sdks}")
        for tree in (self._box / "out", *sdks):
            if tree.is_dir():
                self._look_into(tree)
                shutil.rmtree(tree)
        shutil.rmtree(self._session.settings.cache, ignore_errors=True)

    def _look_into(self, tree: Path) -> None:
        top = tree.resolve()
        for place, folders, names in os.walk(tree):
            for path in (Path(place, name) for name in (*folders, *names)):
                mode = path.lstat().st_mode
                if stat.S_ISLNK(mode):
                    if not path.resolve().is_relative_to(top):
                        raise Finding(f"the link {path} leads to {path.resolve()}")
                elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or mode & 0o7022:
                    raise Finding(f"{path} has the mode {mode:o}")


def look_at_number(judge: Judge, number: int) -> str:
    """Judges the archive that `number` makes. Raises Finding."""
    random = Random(number)
    return judge.look_at(*any_archive(random, str(judge.outside)), random)


def run(
    folder: Path, numbers: range, before_each: Callable[[], object] = lambda: None
) -> tuple[Counter[str], list[str]]:
    """Judges an archive for each number; returns how often each end came, and what was found."""
    judge, ends, findings = Judge(folder), Counter[str](), list[str]()
    for number in numbers:
        before_each()
        try:
            ends[look_at_number(judge, number)] += 1
        except Finding as finding:
            findings.append(f"{number}: {finding}")
            print(findings[-1], flush=True)
            remove_tree(folder)
            judge = Judge(folder)
    return ends, findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="archive-fuzz-") as folder:
        numbers = range(options.first, options.first + options.count)
        ends, findings = run(
            Path(folder) / "fuzz",
            numbers,
            lambda: faulthandler.dump_traceback_later(HANGS_SECONDS, exit=True),
        )
    remove_tree(Path(tempfile.gettempdir(), OUTSIDE))
    seconds = time.monotonic() - started
    print(f"{options.count} archives in {seconds:.0f} s: {dict(ends.most_common())}, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
