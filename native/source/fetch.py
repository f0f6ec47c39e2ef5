"""A program's source tree: fetched from the first source that has it, verified, unpacked once, kept in the cache."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from core.deadline import Deadline
from core.download import bytes_in_cache, download_cached, writing_errors
from core.dry import Would
from core.errors import (
    HostToolMissing,
    IntegrityError,
    NetworkError,
    SourceError,
    UsageError,
    unknown_name,
)
from core.fallback import Fallback
from core.files import human_bytes, remove_tree, sha256_json, write_json
from core.locks import hold
from core.session import Session
from core.trust import check_first_seen
from core.unpack import unpack_tar, unpack_zip
from native.source.kinds import FolderSource, GithubArchive, PypiSdist, Source, Sourced, source_pin
from native.source.pypi import fetch_file

SOURCE_NAMES = {"pypi": PypiSdist, "github": GithubArchive}
"""What the setting ``ohforge.program_sources`` calls the kinds of source."""
GITHUB_VARIABLE = "OHFORGE_GITHUB"
GITHUB = "https://github.com"


def fetch_source(session: Session, wanted: Sourced) -> Path:
    """The verified source tree of `wanted`, in ``<cache>/sources/<name>-<pin>/`` or, for a folder, where it lies.

    Sources are tried in the order of ``ohforge.program_sources``; why one is passed over is printed. A tree that is
    there already is used when its files still have the names and sizes that were unpacked.

    Raises NoSourceLeft, SourceError (the tree lacks what is required), Offline, and what downloads raise.
    """
    if (own := _own_folder(wanted)) is not None:
        return own
    folder = _folder_of(session, wanted)
    deadline = Deadline.after(session.settings.timeouts.lock, f"the source of {wanted.name}")
    with writing_errors(folder), hold(folder.with_name(f".{folder.name}.lock"), deadline, session.console.info):
        if _still_whole(session, folder):
            return folder
        _fetch_first(session, wanted, folder)
        return folder


def would_fetch(session: Session, wanted: Sourced) -> list[Would]:
    """What `fetch_source` would have to fetch; nothing when the tree is there. Raises UsageError, SourceError."""
    if _own_folder(wanted) is not None or _still_whole(session, folder := _folder_of(session, wanted)):
        return []
    source = _in_order(session, wanted)[0]
    size, there = None, 0
    if isinstance(source, PypiSdist):
        size, there = source.size or None, bytes_in_cache(session, sha256=source.sha256)
    elif isinstance(source, GithubArchive):
        there = bytes_in_cache(session, _address(source), sha256=source.sha256)
    what = f"the source of {wanted.name} {wanted.version}"
    return [Would(action="fetch", what=what, size=size, there=there, source=_title(source), where=str(folder))]


def _own_folder(wanted: Sourced) -> Path | None:
    """The folder that is the source, where it is one. Raises SourceError when the source in it is not whole."""
    for source in wanted.sources:
        if isinstance(source, FolderSource):
            _require_files(source.path, wanted, f"the folder {source.path}")
            return source.path
    return None


def _folder_of(session: Session, wanted: Sourced) -> Path:
    return session.settings.cache / "sources" / f"{wanted.name}-{source_pin(wanted)[:12]}"


def _fetch_first(session: Session, wanted: Sourced, folder: Path) -> None:
    tries = Fallback(
        session,
        f"{wanted.name} {wanted.version}",
        passes=(NetworkError, IntegrityError, SourceError, HostToolMissing),
    )
    for source in _in_order(session, wanted):
        with tries.passing_over(_title(source)):
            archive = _fetch_archive(session, wanted, source)
            _unpack(session, wanted, source, archive, folder)
            why = tries.why("first in ohforge.program_sources")
            session.console.chosen("source", f"{wanted.name} {wanted.version} from {_title(source)}", why)
            return
    raise tries.error("See the reasons above; `ohforge.program_sources` and pip's configuration say where to look.")


def _in_order(session: Session, wanted: Sourced) -> list[Source]:
    """The sources in the order of the settings; a kind that the settings do not name is not used."""
    for name in session.settings.program_sources:
        if name not in SOURCE_NAMES:
            raise unknown_name("source in ohforge.program_sources", name, SOURCE_NAMES)
    ordered = [
        source
        for name in session.settings.program_sources
        for source in wanted.sources
        if isinstance(source, SOURCE_NAMES[name])
    ]
    if not ordered:
        raise UsageError(
            f"ohforge.program_sources ({', '.join(session.settings.program_sources) or 'empty'}) leaves no source of "
            f"{wanted.name}, which has: {', '.join(source.kind for source in wanted.sources)}."
        )
    return ordered


def _fetch_archive(session: Session, wanted: Sourced, source: Source) -> Path:
    session.console.detail(f"looking for {_title(source)}")
    if isinstance(source, PypiSdist):
        return fetch_file(session, source.project, source.file, sha256=source.sha256, size=source.size or None).path
    assert isinstance(source, GithubArchive)
    try:
        got = download_cached(session, _address(source), sha256=source.sha256, title=f"{wanted.name} source")
    except IntegrityError as error:
        raise IntegrityError(
            f"{error.message} GitHub packs such archives on demand, so the same tree can come with other bytes.",
            remedy="Compare the tree with a trusted one, then pin the new hash in the recipe; or use another source.",
            **error.details,
        ) from error
    if not source.sha256:
        check_first_seen(session, f"github:{source.repository}@{source.ref}", got.sha256)
    return got.path


def _address(source: GithubArchive) -> str:
    base = os.environ.get(GITHUB_VARIABLE, GITHUB).rstrip("/")
    return f"{base}/{source.repository}/archive/{source.ref}.tar.gz"


def _unpack(session: Session, wanted: Sourced, source: Source, archive: Path, folder: Path) -> None:
    assert not isinstance(source, FolderSource)
    subfolder = f"*/{source.subfolder}".rstrip("/")
    fresh = folder.with_name(f".{folder.name}.new")
    remove_tree(fresh)
    try:
        with session.console.progress(f"unpacking {wanted.name}", archive.stat().st_size) as bar:
            unpack = unpack_zip if _is_zip(source) else unpack_tar
            done = unpack(archive, fresh, subfolder=subfolder, exclude=source.exclude, on_bytes=bar.advance)
        _require_files(fresh, wanted, _title(source))
        remove_tree(folder)
        fresh.rename(folder)
    finally:
        remove_tree(fresh)
    session.console.detail(f"{done.files} files, {human_bytes(done.total_bytes)}, in {folder}")
    write_json(note_of(folder), {"source": source.pin, "files": _listing(folder)})


def _is_zip(source: Source) -> bool:
    return isinstance(source, PypiSdist) and source.file.endswith(".zip")


def _require_files(tree: Path, wanted: Sourced, where: str) -> None:
    missing = [name for name in wanted.requires if not (tree / name).exists()]
    if missing:
        raise SourceError(f"The tree of {wanted.name} {wanted.version} from {where} lacks {', '.join(missing)}.")


def _still_whole(session: Session, folder: Path) -> bool:
    """Whether the unpacked tree has the names and sizes that it had when it was verified."""
    if not folder.is_dir():
        return False
    with contextlib.suppress(OSError, ValueError, KeyError):
        if json.loads(note_of(folder).read_text())["files"] == _listing(folder):
            return True
    session.console.warn(f"{folder} was changed or is not whole: unpacking it anew")
    return False


def _listing(folder: Path) -> str:
    """Hash of all names and sizes below `folder`: tells at a glance whether a file was lost, cut or added."""
    entries = []
    for place, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(place, name)  # noqa: PTH118 - some thousand times in a row
            entries.append([os.path.relpath(path, folder), os.lstat(path).st_size])
    return sha256_json(sorted(entries))


def note_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def _title(source: Source) -> str:
    if isinstance(source, PypiSdist):
        return f"package index ({source.file})"
    if isinstance(source, GithubArchive):
        return f"GitHub ({source.repository} at {source.ref})"
    return str(source.path)
