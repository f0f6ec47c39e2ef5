"""Downloads that end either with the whole, verified file under its final name or with a part that resumes."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from core.addresses import shown
from core.console import Progress
from core.deadline import Deadline
from core.errors import DISK_FULL, CannotWrite, IntegrityError, NotEnoughSpace, NotTheFile
from core.files import CHUNK, human_bytes, require_space, sha256_file, sha256_text, write_json
from core.http import Fetch, RemoteState, Transport, refuse_offline
from core.locks import hold
from core.session import Session

UNWRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST})


@dataclass(frozen=True, kw_only=True)
class Downloaded:
    """A file that is whole and, when a hash was given, verified."""

    path: Path
    bytes_downloaded: int
    """Bytes that came over the network by this call."""
    bytes_reused: int
    """Bytes of the file that an earlier call had fetched already."""
    sha256: str
    seconds: float


def download(
    session: Session,
    url: str,
    target: Path,
    *,
    sha256: str = "",
    size: int | None = None,
    title: str = "",
    transport: Transport | None = None,
) -> Downloaded:
    """Fetches `url` into `target`, going on from what an earlier, broken-off call left in ``<target>.part``.

    With `sha256` an existing target is verified and reused, and a fetched one is refused when it differs; without
    it an existing target is reused only while the server says that it is still the same file. `size` in bytes is
    checked before anything is fetched.
    Other processes with the same target wait and then reuse.

    Raises the classes of `core.http`, IntegrityError (the file is kept as ``<target>.rejected-…``), NotEnoughSpace,
    CannotWrite, and Busy.
    """
    title = title or target.name
    started = time.monotonic()
    with writing_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        deadline = Deadline.after(session.settings.timeouts.lock, f"the download of {title}")
        with hold(target.with_name(f".{target.name}.lock"), deadline, session.console.info):
            job = _Job(
                session=session,
                url=url,
                target=target,
                sha256=sha256.lower(),
                size=size,
                title=title,
                transport=transport,
            )
            digest = job.reuse_target() or job.fetch()
            return Downloaded(
                path=target,
                bytes_downloaded=job.downloaded,
                bytes_reused=job.reused,
                sha256=digest,
                seconds=time.monotonic() - started,
            )


def download_cached(
    session: Session,
    url: str,
    *,
    sha256: str = "",
    size: int | None = None,
    title: str = "",
    transport: Transport | None = None,
) -> Downloaded:
    """`download` into the cache, under the hash of the content when it is known, else under that of the address."""
    return download(
        session,
        url,
        _cached(session, url, sha256),
        sha256=sha256,
        size=size,
        title=title or Path(urlsplit(url).path).name,
        transport=transport,
    )


def bytes_here(target: Path) -> int:
    """How much of what is to be downloaded to `target` an earlier call has left, whole or in part; nothing is checked."""
    kept = (path for path in (target, _part_of(target)) if path.is_file())
    return next((path.stat().st_size for path in kept), 0)


def bytes_in_cache(session: Session, url: str = "", *, sha256: str = "") -> int:
    """As `bytes_here`, of what `download_cached` fetches."""
    return bytes_here(_cached(session, url, sha256))


def _cached(session: Session, url: str, sha256: str) -> Path:
    return session.settings.cache / "downloads" / (sha256.lower() or f"url-{sha256_text(url)}")


def _part_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


def in_cache(session: Session, sha256: str) -> Path | None:
    """The cached file with that hash, verified; None when there is none."""
    path = session.settings.cache / "downloads" / sha256.lower()
    return path if sha256 and path.is_file() and sha256_file(path) == sha256.lower() else None


@dataclass(kw_only=True)
class _Job:
    """One call of `download`, under the lock of its target."""

    session: Session
    url: str
    target: Path
    sha256: str
    size: int | None
    title: str
    transport: Transport | None
    downloaded: int = 0
    reused: int = 0

    @property
    def part(self) -> Path:
        return _part_of(self.target)

    @property
    def notes(self) -> Path:
        """What the server said of the file: of the part while there is one, then of the target."""
        return self.target.with_name(f"{self.target.name}.origin.json")

    def reuse_target(self) -> str:
        """The hash of the target when it is there and right; empty when it must be fetched."""
        if not self.target.is_file():
            return ""
        if not self.sha256 and not self._unchanged_on_server():
            return ""
        digest = sha256_file(self.target)
        if self.sha256 and digest != self.sha256:
            aside = set_aside(self.target, self.target, digest)
            self.session.console.warn(
                f"{self.target} has sha256 {digest}, not {self.sha256}: kept as {aside.name} and fetched anew."
            )
            return ""
        self.reused = self.target.stat().st_size
        return digest

    def fetch(self) -> str:
        """Fetches the file, from the part when there is one; returns its hash."""
        refuse_offline(self.session, self.url)
        digest, resumed = self._fetch_once()
        if self._wrong(digest) and resumed:
            # A part without validators may stem from an older edition of the file: that is no reason to refuse it.
            self.session.console.warn(
                f"{self.title}: the resumed file has another hash; fetching it once more in full."
            )
            self._forget_part()
            digest, _ = self._fetch_once()
        if self._wrong(digest):
            raise rejected(self.part, self.url, self.target, self.sha256, digest)
        self.part.replace(self.target)
        _sync_folder(self.target.parent)
        return digest

    def _fetch_once(self) -> tuple[str, bool]:
        known, length = self._resumable_part()
        state = hashlib.sha256()
        with (
            self.session.console.progress(self.title, self.size or known.size) as bar,
            self.part.open("ab", buffering=0) as file,
        ):
            if length:
                self._take_part(state, bar)
            if length and known.size == length:
                return state.hexdigest(), True
            fetch = Fetch(self.session, self.url, start=length, known=known, transport=self.transport)
            try:
                state, length = self._append(fetch, file, state, length, bar)
            finally:
                self.downloaded += fetch.received
            os.fsync(file.fileno())
        return state.hexdigest(), self.reused > 0

    def _append(
        self, fetch: Fetch, file: IO[bytes], state: hashlib._Hash, length: int, bar: Progress
    ) -> tuple[hashlib._Hash, int]:
        first = True
        with contextlib.closing(fetch.chunks()) as chunks:
            for offset, chunk in chunks:
                if offset != length:
                    state, length = self._start_over(file), 0
                    first = True
                if first:
                    self._check_offer(fetch.remote, length)
                    bar.reach(length, fetch.remote.size or self.size)
                    first = False
                write_all(file, chunk)
                state.update(chunk)
                length += len(chunk)
                bar.advance(len(chunk))
        if self.size is not None and length != self.size:
            raise NotTheFile(
                f"{shown(self.url)} gave {human_bytes(length)} ({length} bytes), but {self.title} has "
                f"{human_bytes(self.size)} ({self.size} bytes)."
            )
        return state, length

    def _start_over(self, file: IO[bytes]) -> hashlib._Hash:
        """Empties the part: the server sends the file from its beginning."""
        self.session.console.detail(f"    {self.title}: the server sends it from the beginning")
        file.truncate(0)
        self.reused = 0
        return hashlib.sha256()

    def _check_offer(self, remote: RemoteState, have: int) -> None:
        """Judges what the server offers before the first byte is written, and notes its validators for a resume."""
        if remote.size is not None:
            if self.size is not None and remote.size != self.size:
                raise NotTheFile(
                    f"{shown(self.url)} offers {human_bytes(remote.size)} ({remote.size} bytes), but {self.title} has "
                    f"{human_bytes(self.size)} ({self.size} bytes)."
                )
            require_space(self.part.parent, remote.size - have, f"Downloading {self.title}")
        write_json(self.notes, {"url": shown(self.url), "sha256": self.sha256, **asdict(remote)})

    def _resumable_part(self) -> tuple[RemoteState, int]:
        if self.part.is_symlink():
            self._forget_part()  # it would be written through
        if not self.part.is_file():
            return RemoteState(), 0
        noted, origin = self._noted()
        if origin not in ("", shown(self.url)):
            # Another server's validators mean nothing to this one; only a hash can then vouch for the joined file.
            noted = RemoteState()
        if not noted.condition and not self.sha256:
            self._forget_part()
            return RemoteState(), 0
        length = self.part.stat().st_size
        if self.size is not None and length > self.size:
            self._forget_part()
            return RemoteState(), 0
        return noted, length

    def _take_part(self, state: hashlib._Hash, bar: Progress) -> None:
        bar.say("checking what is there")
        with self.part.open("rb") as file:
            while chunk := file.read(CHUNK):
                state.update(chunk)
                bar.advance(len(chunk))
            self.reused = file.tell()
        bar.say("going on")

    def _noted(self) -> tuple[RemoteState, str]:
        try:
            value = json.loads(self.notes.read_text())
            state = RemoteState(etag=value["etag"], last_modified=value["last_modified"], size=value["size"])
            return state, value["url"]
        except (OSError, ValueError, KeyError, TypeError):
            return RemoteState(), ""

    def _unchanged_on_server(self) -> bool:
        """Whether an existing target without a known hash is still what the server has; offline it is what we have."""
        known, origin = self._noted()
        if origin != shown(self.url) or known.size != self.target.stat().st_size:
            return False
        if self.session.settings.offline:
            return True
        fetch = Fetch(self.session, self.url, transport=self.transport)
        with contextlib.closing(fetch.chunks()) as chunks:
            next(chunks, None)
        self.downloaded += fetch.received
        same = bool(known.condition) and not known.contradicts(fetch.remote)
        return same and known.condition == fetch.remote.condition

    def _wrong(self, digest: str) -> bool:
        return bool(self.sha256) and digest != self.sha256

    def _forget_part(self) -> None:
        self.part.unlink(missing_ok=True)
        self.reused = 0


def rejected(file: Path, url: str, target: Path, wanted: str, found: str) -> IntegrityError:
    """Sets a file with a wrong hash aside and makes the error that tells of it, with both hashes."""
    aside = set_aside(file, target, found)
    return IntegrityError(
        f"{shown(url)} has sha256 {found}, but {wanted} is expected. Kept as {aside} and not used.",
        expected=wanted,
        found=found,
        file=str(aside),
    )


def set_aside(file: Path, target: Path, digest: str) -> Path:
    """Renames a file that should have become `target`, so that nothing uses it and a person can look at it."""
    aside = target.with_name(f"{target.name}.rejected-{digest[:12]}")
    file.replace(aside)
    return aside


@contextlib.contextmanager
def writing_errors(target: Path) -> Iterator[None]:
    """Turns a full or read-only disk into NotEnoughSpace or CannotWrite."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL:
            raise NotEnoughSpace(
                f"The disk that holds {target.parent} became full. What was fetched so far is kept.",
                remedy="Free some space and run the command again: it goes on where it stopped.",
            ) from error
        if error.errno in UNWRITABLE:
            raise CannotWrite(f"{error.filename or target.parent} cannot be written: {error.strerror}.") from error
        raise


def write_all(file: IO[bytes], chunk: bytes | memoryview) -> None:
    """Writes all of `chunk` to an unbuffered file, which may take only a part at a time."""
    view = memoryview(chunk)
    while view:
        view = view[file.write(view) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
