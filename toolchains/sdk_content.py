"""What is in an SDK, in one hash that costs a look at its files and no more, as long as nothing was changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import SdkIncomplete
from core.files import sha256_json, sha256_text, write_atomic
from toolchains.installed import crc32_of_file, read_entries
from toolchains.sdk import DESCRIPTION, MARKER

if TYPE_CHECKING:
    from core.session import Session
    from toolchains.sdk import Sdk

PARTS = (DESCRIPTION, "build", "llvm", "sysroot")
"""What of the native folder takes part in a build."""


def hash_content(session: Session, sdk: Sdk) -> str:
    """SHA-256 over name, size and CRC-32 of all that a build takes from `sdk`; the same in every folder.

    A file is read when it is new or when its size or times are not those of the last look. One that is as
    ``sdk.fetch`` has written it has its checksum in the list of then. Raises SdkIncomplete for a folder that cannot be read.
    """
    try:
        links, looks = _look_through(sdk.native)
    except OSError as error:
        raise SdkIncomplete(f"The SDK in {sdk.root} cannot be read: {error}.") from error
    place = session.settings.cache / "sdk-content" / f"{sha256_text(str(sdk.native))[:16]}.json"
    kept = _read_kept(place)
    if kept.get("links") == links and kept.get("looks") == looks:
        return str(kept["id"])
    sums = _checksums(session, sdk, looks, kept)
    content = {name: [looks[name][0], sums[name]] for name in looks}
    identity = sha256_json({"links": links, "files": content})
    if not session.dry:
        write_atomic(place, json.dumps({"id": identity, "links": links, "looks": looks, "sums": sums}))
    return identity


def _look_through(native: Path) -> tuple[dict[str, str], dict[str, list[int]]]:
    """Links to other places of the SDK, and the files as they are seen from outside."""
    links: dict[str, str] = {}
    looks: dict[str, list[int]] = {}
    for name, entry in _walk(str(native), PARTS):
        if entry.is_symlink() and _leads_within(native, entry.path):
            links[name] = str(Path(entry.path).readlink())
        elif entry.is_file():
            found = entry.stat()
            looks[name] = [found.st_size, found.st_mtime_ns, found.st_ctime_ns]
    return links, looks


def _walk(native: str, parts: tuple[str, ...]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """All files and links of the SDK by their names in it; what a link to a folder elsewhere has, too."""
    stack, followed = [("", native)], set()
    while stack:
        prefix, folder = stack.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                name = f"{prefix}{entry.name}"
                if (not prefix and name not in parts) or entry.name == "__pycache__":
                    continue
                if entry.is_symlink():
                    target = os.path.realpath(entry.path)
                    if not entry.is_dir() or target in followed or _leads_within(Path(native), entry.path):
                        yield name, entry
                        continue
                    followed.add(target)
                if entry.is_dir():
                    stack.append((f"{name}/", entry.path))
                else:
                    yield name, entry


def _leads_within(native: Path, path: str) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(native))


def _checksums(session: Session, sdk: Sdk, looks: Mapping[str, list[int]], kept: Mapping[str, Any]) -> dict[str, int]:
    known, before = kept.get("looks", {}), kept.get("sums", {})
    sums = {name: before[name] for name, look in looks.items() if name in before and known.get(name) == look}
    sums = {**_checksums_of_installation(sdk, looks), **sums}
    unread = [name for name in looks if name not in sums]
    with (
        session.console.progress("reading the SDK", sum(looks[name][0] for name in unread)) as bar,
        ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool,
    ):
        read = pool.map(lambda name: crc32_of_file(sdk.native / name), unread)
        for name, checksum in zip(unread, read, strict=True):
            bar.advance(looks[name][0])
            sums[name] = checksum
    return sums


def _checksums_of_installation(sdk: Sdk, looks: Mapping[str, list[int]]) -> dict[str, int]:
    """Those that ``sdk.fetch`` has noted of the files that nobody has touched since; its marker was written last."""
    try:
        installed = (sdk.root / MARKER).stat().st_mtime_ns
        entries = read_entries(sdk.root)[sdk.native.name]
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # unpacked by hand, or its list is damaged, which `sdk.verify` tells
    untouched = {name for name, (_, changed, entered) in looks.items() if max(changed, entered) <= installed}
    return {
        entry.name: entry.crc32 for entry in entries if entry.name in untouched and entry.size == looks[entry.name][0]
    }


def _read_kept(place: Path) -> dict[str, Any]:
    try:
        kept = json.loads(place.read_text())
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}
