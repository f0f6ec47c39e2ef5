"""What a build host has built, here: fetched where it lacks, verified, under the same manifest."""

from __future__ import annotations

import contextlib
import shutil
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from core.errors import ContentDiffers, IntegrityError, LostConnection
from core.files import atomic_path, remove_tree
from core.session import Session
from core.spool import spool_folder
from deploy.build_host.host import COME_BACK, BuildHost
from deploy.build_host.tree import LINK, PROGRAM, Entry, entry_of
from native.artifact.artifact import MANIFEST, Artifact, read_artifact
from native.build.ensure import own_build_folder

LOG = "build.log"


def take_artifact(session: Session, host: BuildHost, result: Mapping[str, Any]) -> tuple[Artifact, int]:
    """The artifact of a result, in the folder where a build here would have left it, and the bytes that came for it.

    What is there already with the same hash is not fetched; what came before a cut is kept. The manifest comes last.
    Raises LostConnection, ContentDiffers.
    """
    there = PurePosixPath(str(result["folder"]))
    folder = session.settings.builds / there.parent.name / there.name
    entries = [_checked((str(name), str(kind), str(content))) for name, kind, content in result["files"]]
    with own_build_folder(session, folder, f"the build of {there.parent.name}"):
        lacking = [entry for entry in entries if not _is_there(folder, entry)]
        arriving = folder.with_name(f".{folder.name}.arriving")
        size = _fetch(session, host, there, [entry for entry in lacking if not _is_there(arriving, entry)], arriving)
        for name, kind, content in sorted(lacking, key=lambda entry: entry[0] == MANIFEST):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if kind == LINK:
                target.unlink(missing_ok=True)
                target.symlink_to(content)
            else:
                (arriving / name).replace(target)
        remove_tree(arriving)
        return read_artifact(folder), size


def take_log(session: Session, host: BuildHost, error: Mapping[str, Any]) -> dict[str, Any]:
    """An error of a build there, whose log lies here now and is named so."""
    log = str(error.get("details", {}).get("log", ""))
    if not log:
        return dict(error)
    there = PurePosixPath(log).parent
    folder = session.settings.builds / there.parent.name / there.name
    with atomic_path(folder / LOG) as fresh, fresh.open("wb") as file, spool_folder() as spare:
        _receive(session, host, there, [LOG], spare / "tar")
        for _, source in _members(spare / "tar"):
            shutil.copyfileobj(source, file)
    own = str(folder / LOG)
    details = {**error["details"], "log": own}
    return {**error, "message": str(error["message"]).replace(log, own), "details": details}


def _checked(entry: Entry) -> Entry:
    """An entry whose name stays within the folder, and whose target does. Raises IntegrityError."""
    name, kind, content = entry
    for path in (name, str(PurePosixPath(name).parent / content)) if kind == LINK else (name,):
        depth = 0
        for part in PurePosixPath(path).parts:
            depth += {"..": -1, ".": 0}.get(part, 1)
            if depth < 0 or part == "/":
                raise IntegrityError(f"The build host wants to write outside of the build's folder: {path}.")
    return entry


def _is_there(folder: Path, entry: Entry) -> bool:
    path = folder / entry[0]
    return (path.is_symlink() or path.is_file()) and entry_of(folder, path) == entry


def _fetch(session: Session, host: BuildHost, there: PurePosixPath, entries: Sequence[Entry], arriving: Path) -> int:
    """Fetches files into the folder `arriving`; those that are whole stay when the link ends. Returns the bytes."""
    wanted = {name: (kind, content) for name, kind, content in entries if kind != LINK}
    size = 0
    if not wanted:
        return 0
    with spool_folder() as spare:
        ended = _receive(session, host, there, list(wanted), spare / "tar")
        for member, source in _members(spare / "tar"):
            if member.name not in wanted:
                continue
            kind, content = wanted.pop(member.name)
            path = arriving / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                shutil.copyfileobj(source, file)
            path.chmod(0o755 if kind == PROGRAM else 0o644)
            if entry_of(arriving, path) != (member.name, kind, content):
                path.unlink()
                raise ContentDiffers(f"{member.name} did not arrive from {host.serial} as it was built there.")
            size += member.size
    if wanted:
        if not ended:
            lost = f"The link to {host.serial} ended before all of the build was here."
            raise LostConnection(lost, remedy=COME_BACK)
        raise ContentDiffers(f"{host.serial} did not send {', '.join(sorted(wanted))}.")
    return size


def _receive(session: Session, host: BuildHost, there: PurePosixPath, names: Sequence[str], place: Path) -> bool:
    with place.open("wb") as file, session.console.progress(f"fetching from {host.serial}") as bar:

        def take(chunk: bytes) -> None:
            file.write(chunk)
            bar.advance(len(chunk))

        return host.stream("files", str(there), on_output=take, given=list(names))


def _members(place: Path) -> Iterator[tuple[tarfile.TarInfo, Any]]:
    """The files of a tar that may have been cut, as far as they are whole."""
    size = place.stat().st_size
    with contextlib.suppress(tarfile.TarError, EOFError), tarfile.open(place, "r:") as archive:
        for member in archive:
            whole = member.offset_data + member.size <= size
            if whole and member.isfile() and (source := archive.extractfile(member)) is not None:
                yield member, source
