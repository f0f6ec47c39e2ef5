"""A release tarball, read once: hashed and unpacked while it comes, without a copy of it on the disk.

tar.gz → the wanted packages (zips) → their files. Only one zip and what is unpacked lie on the disk. Every few
megabytes the whole state (hash, decompression, place in the tar, length of the zip) is saved, so that another process
goes on there after a crash, a kill or a power cut, and fetches next to nothing twice.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import re
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from core.download import write_all
from core.errors import DamagedArchive, HostileArchive
from core.files import remove_tree, require_space
from core.gunzip import Gunzip, GunzipState
from core.names import checked_name
from core.session import Session
from core.sha256 import Sha256, new_sha256, restore_sha256
from core.tarstream import TarPlace, TarStream
from core.tree import Entry, Limits, Unpacked
from core.unpack import unpack_zip_into, unpacked_bytes
from toolchains.sources import host_folder

CHECKPOINT = "checkpoint.json"
CHECKPOINT_BYTES = 4 * 1024 * 1024
"""Input between two saved states: what a killed process has to fetch again at most, and a little more."""
STEP_BYTES = 256 * 1024
"""Input that is hashed at once; what is fetched again begins where a step does."""
GROWTH = 3.2
"""Unpacked bytes for each byte of a package, as measured on published ones: for the first look at the disk's room."""
MOST_BYTES = Limits().total_bytes
SCHEMA = 2


@dataclass(kw_only=True)
class Spool:
    """A package's zip on the disk, or what has come of it."""

    name: str
    size: int
    length: int = 0
    crc: int = 0

    @property
    def whole(self) -> bool:
        return self.length == self.size


class OnePass:
    """Reads a tarball into `staging`. ``with OnePass(…) as reader: … reader.feed(chunk) … reader.finish()``.

    `sha256` is the hash that the tarball must have; without one nothing is resumed, and the stream is decompressed to
    its end, so that its own checksum is looked at. `offset` says from which byte on it wants to be fed.
    """

    def __init__(
        self, session: Session, staging: Path, *, host: str, components: tuple[str, ...], sha256: str, size: int | None
    ) -> None:
        self._session, self._staging, self._size = session, staging, size
        self._sha256 = sha256
        self._components = components
        folder, machine = host_folder(host)
        self._pattern = re.compile(
            rf"(?:^|/){folder}/({'|'.join(components)})-{folder}-{machine}-[^/]+\.zip\Z", re.DOTALL
        )
        self._identity = {"schema": SCHEMA, "sha256": sha256, "host": host, "components": sorted(components)}
        self._spools: dict[str, Spool] = {}
        self._unpacked: dict[str, Unpacked] = {}
        self._jobs: dict[str, Future[None]] = {}
        self._hash: Sha256 = new_sha256()
        self._gunzip: Gunzip | None = Gunzip()
        self._tar = TarStream(self._open_member)
        self._writer: _SpoolWriter | None = None
        self.offset = self._saved_at = 0
        self._restore()
        self._pool = ThreadPoolExecutor(max_workers=1)

    def __enter__(self) -> OnePass:
        for component, spool in self._spools.items():
            if spool.whole and component not in self._unpacked:
                self._begin_unpacking(component)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        if self._writer is not None:
            self._writer.file.close()

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes. Raises DamagedArchive, HostileArchive, NotEnoughSpace, OSError of the disk."""
        for at in range(0, len(chunk), STEP_BYTES):
            self._step(chunk[at : at + STEP_BYTES])

    def _step(self, chunk: bytes) -> None:
        self._raise_failed_jobs()
        if self._gunzip is not None:
            self._unpack_step(self._gunzip, chunk)
        self._hash.update(chunk)
        self.offset += len(chunk)
        if self._gunzip is None:
            self._save_if_due(None)

    def finish(self) -> str:
        """Waits until all is unpacked and returns the tarball's SHA-256, which the caller compares."""
        if self._gunzip is not None:
            self._gunzip.finish()
            self._tar.finish()
        missing = [name for name in self._components if name not in self._spools]
        if missing:
            seen = self._tar.place.seen
            zips = [name for name in seen if name.endswith(".zip")]
            raise DamagedArchive(
                f"The archive holds no {' and no '.join(missing)} for this host; it holds "
                f"{', '.join(zips[:12]) or ', '.join(seen[:12]) or 'no files'}.",
                remedy="Choose another host or other components, or another archive.",
            )
        for job in self._jobs.values():
            job.result()
        return self._hash.hexdigest()

    @property
    def packages(self) -> dict[str, str]:
        """The package's name for each component, as it stands in the tarball."""
        return {component: spool.name for component, spool in self._spools.items()}

    @property
    def unpacked(self) -> dict[str, Unpacked]:
        return self._unpacked

    # the stream --------------------------------------------------------------------------------------

    def _unpack_step(self, gunzip: Gunzip, chunk: bytes) -> None:
        for plain in gunzip.feed(chunk):
            self._tar.feed(plain)
            self._save_if_due(gunzip)
        if self._sha256 and all(name in self._spools and self._spools[name].whole for name in self._components):
            self._gunzip = None  # what follows is hashed, but holds nothing that is wanted

    def _open_member(self, name: str, size: int) -> _SpoolWriter | None:
        found = self._pattern.search(name)
        if found is None:
            return None
        component = found[1]
        checked_name(name.rpartition("/")[2], f"The name of the package {component} in the archive")
        spool = self._spools.get(component)
        if spool is not None and (spool.name != name or spool.whole):
            raise HostileArchive(f"The archive holds {component} twice: {spool.name} and {name}.")
        if spool is None:
            if size > (MOST_BYTES if self._size is None else min(MOST_BYTES, max(256_000_000, 20 * self._size))):
                raise HostileArchive(f"The archive claims that {name} has {size} bytes, far more than it could hold.")
            require_space(self._staging, size + int(GROWTH * size), f"Unpacking {name}")
            spool = self._spools[component] = Spool(name=name, size=size)
        self._writer = _SpoolWriter(self, component, spool, self._zip(component))
        return self._writer

    def member_ended(self, component: str) -> None:
        self._begin_unpacking(component)

    # unpacking ---------------------------------------------------------------------------------------

    def _begin_unpacking(self, component: str) -> None:
        self._jobs[component] = self._pool.submit(self._unpack, component)

    def _unpack(self, component: str) -> None:
        packed, tree = self._zip(component), self._staging / component
        remove_tree(tree)
        tree.mkdir()
        require_space(tree, unpacked_bytes(packed), f"Unpacking {component}")
        done = unpack_zip_into(packed, tree, subfolder=component)
        write_quickly(self._entries_file(component), json.dumps([dataclasses.asdict(entry) for entry in done.entries]))
        self._unpacked[component] = done
        if not self._sha256:
            packed.unlink(missing_ok=True)

    def _raise_failed_jobs(self) -> None:
        for job in self._jobs.values():
            if job.done():
                job.result()

    # saving and restoring ----------------------------------------------------------------------------

    def _save_if_due(self, gunzip: Gunzip | None) -> None:
        """Saves the state as it is where the current step began, and how `gunzip` goes on from there."""
        if not self._sha256 or self.offset - self._saved_at < CHECKPOINT_BYTES:
            return
        place = gunzip.save() if gunzip is not None else None
        digest = self._hash.save()
        if digest and (gunzip is None or place is not None):
            self._save(digest, place)

    def _save(self, digest: bytes, gunzip: GunzipState | None) -> None:
        trees = sorted(self._unpacked)
        state = {
            "identity": self._identity,
            "offset": self.offset,
            "hash": _text(digest),
            "gunzip": {**dataclasses.asdict(gunzip), "window": _text(gunzip.window)} if gunzip else None,
            "tar": {**dataclasses.asdict(self._tar.place), "held": _text(self._tar.place.held)},
            "spools": {component: dataclasses.asdict(spool) for component, spool in self._spools.items()},
            "trees": trees,
        }
        write_quickly(self._staging / CHECKPOINT, json.dumps(state))
        self._saved_at = self.offset
        for component in trees:  # its zip is needed no more, now that the state says so
            self._zip(component).unlink(missing_ok=True)

    def _restore(self) -> None:
        """Takes up a saved state, if one fits and what it speaks of is still there; else begins anew."""
        try:
            saved = json.loads((self._staging / CHECKPOINT).read_text())
            fits = bool(self._sha256) and saved["identity"] == self._identity
            digest = restore_sha256(_bytes(saved["hash"])) if fits else None
            if digest is not None and self._restore_packages(saved):
                self._take_up(saved, digest)
                return
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._session.console.detail(f"cannot go on from what is in {self._staging}: {error}")
        self._spools, self._unpacked = {}, {}
        remove_tree(self._staging)
        self._staging.mkdir(parents=True)

    def _take_up(self, saved: dict[str, Any], digest: Sha256) -> None:
        self._hash = digest
        self.offset = self._saved_at = saved["offset"]
        place = TarPlace(**{**saved["tar"], "held": _bytes(saved["tar"]["held"])})
        self._tar = TarStream(self._open_member, place)
        self._gunzip = None
        if saved["gunzip"] is not None:
            self._gunzip = Gunzip(GunzipState(**{**saved["gunzip"], "window": _bytes(saved["gunzip"]["window"])}))

    def _restore_packages(self, saved: dict[str, Any]) -> bool:
        for component, raw in saved["spools"].items():
            spool = self._spools[component] = Spool(**raw)
            tree = self._staging / component
            if component in saved["trees"]:
                self._unpacked[component] = _read_entries(self._entries_file(component), tree)
                continue
            remove_tree(tree)
            with self._zip(component).open("r+b") as file:
                file.truncate(spool.length)
                if _crc_of(file.fileno(), spool.length) != spool.crc:
                    return False
        return True

    def _zip(self, component: str) -> Path:
        return self._staging / f"{component}.zip"

    def _entries_file(self, component: str) -> Path:
        return self._staging / f"{component}.entries.json"


class _SpoolWriter:
    """Takes a package out of the tar, from where its spool ends."""

    def __init__(self, owner: OnePass, component: str, spool: Spool, path: Path) -> None:
        self._owner, self._component, self._spool = owner, component, spool
        self.file = path.open("ab" if spool.length else "wb", buffering=0)

    def write(self, data: memoryview) -> None:
        write_all(self.file, data)
        self._spool.crc = zlib.crc32(data, self._spool.crc)
        self._spool.length += len(data)

    def close(self) -> None:
        self.file.close()
        self._owner.member_ended(self._component)


def clean_staging(staging: Path) -> None:
    """Removes what was needed only on the way, once all is verified and described."""
    for pattern in ("*.zip", "*.entries.json", CHECKPOINT):
        for path in staging.glob(pattern):
            path.unlink(missing_ok=True)


def write_quickly(path: Path, text: str) -> None:
    """Replaces a file without waiting for the disk: after a power cut it may be old, which its readers notice."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(text)
    temporary.replace(path)


def _read_entries(file: Path, tree: Path) -> Unpacked:
    """What a finished tree was unpacked to. Raises ValueError when the tree on the disk is another."""
    entries = tuple(Entry(**raw) for raw in json.loads(file.read_text()))
    for entry in entries:
        stat = (tree / entry.name).lstat()
        if not entry.link and stat.st_size != entry.size:
            raise ValueError(f"{tree / entry.name} has {stat.st_size} bytes, not {entry.size}")
    links = sum(bool(entry.link) for entry in entries)
    total = sum(entry.size for entry in entries)
    return Unpacked(files=len(entries) - links, links=links, total_bytes=total, entries=entries)


def _crc_of(descriptor: int, length: int) -> int:
    crc = at = 0
    while at < length and (chunk := os.pread(descriptor, min(1 << 20, length - at), at)):
        crc = zlib.crc32(chunk, crc)
        at += len(chunk)
    return crc if at == length else -1


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
