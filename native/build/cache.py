"""A compiler cache in front of the compiler, when the machine has one: ccache, else sccache."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.session import Session

MOST_KEPT = "2G"
"""Size at which the cache forgets its oldest entries; llama.cpp for one arch takes about 20 MB of it."""


@dataclass(frozen=True, kw_only=True)
class CompilerCache:
    """`program` stands before the compiler; `environment` tells it where it is and what it may share."""

    name: str
    program: str
    environment: Mapping[str, str]
    log: Path
    """ccache's record of what it did with each file; does not exist for sccache."""

    def hits(self) -> tuple[int, int] | None:
        """How many compilations were answered from the cache, of how many; None when that is not known."""
        try:
            lines = self.log.read_text().splitlines()
        except FileNotFoundError:
            return None
        counts = Counter(line.strip() for line in lines if not line.startswith("#"))
        found = counts["direct_cache_hit"] + counts["preprocessed_cache_hit"]
        return found, found + counts["cache_miss"]


def find_compiler_cache(session: Session, *, tree: Path, log: Path) -> CompilerCache | None:
    """The compiler cache for a build in `tree`, or None. A cache that the user has set up himself stays where it is.

    What compiler it is, the toolchain's own environment says.
    """
    log.unlink(missing_ok=True)
    if program := shutil.which("ccache"):
        return CompilerCache(
            name="ccache",
            program=program,
            log=log,
            environment={
                "CCACHE_COMPILERTYPE": "clang",
                # A user's own setting could take flags that change the object for ones that do not.
                "CCACHE_IGNOREOPTIONS": "",
                # Only paths in the build folder are made relative. The flags map both forms to the same text, so what
                # is built is the same with and without a cache; and a source tree keeps its place between builds.
                "CCACHE_BASEDIR": str(tree),
                "CCACHE_NOHASHDIR": "1",
                # What a file includes is taken from the list that the compiler writes for Ninja anyway; else a file
                # that is not in the cache would be preprocessed once more than without one.
                "CCACHE_DEPEND": "1",
                # __DATE__ and __TIME__ are fixed by flags, so a file that uses them is nothing special.
                "CCACHE_SLOPPINESS": "time_macros",
                "CCACHE_STATSLOG": str(log),
                **_unless_set("CCACHE_DIR", str(session.settings.cache / "ccache")),
                **_unless_set("CCACHE_MAXSIZE", MOST_KEPT),
            },
        )
    if program := shutil.which("sccache"):
        return CompilerCache(
            name="sccache",
            program=program,
            log=log,
            environment={
                # The server outlives the build; it has to end by itself.
                **_unless_set("SCCACHE_IDLE_TIMEOUT", "60"),
                **_unless_set("SCCACHE_DIR", str(session.settings.cache / "sccache")),
                **_unless_set("SCCACHE_CACHE_SIZE", MOST_KEPT),
            },
        )
    return None


def _unless_set(name: str, value: str) -> dict[str, str]:
    return {} if name in os.environ else {name: value}
