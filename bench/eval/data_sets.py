"""Sets of questions: by path, or by a name of ``data_sets.yaml`` and then fetched, verified and kept in the cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.addresses import shown
from core.data_file import read_data
from core.deadline import Deadline
from core.download import bytes_here, download, writing_errors
from core.dry import Would
from core.errors import IntegrityError, UsageError, unknown_name
from core.fallback import Fallback
from core.files import sha256_file
from core.locks import hold
from core.session import Session

DATA = Path(__file__).resolve().parent / "data_sets.yaml"


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A set of questions that can be had by name."""

    name: str
    title: str
    file: str
    sha256: str
    size: int
    """In bytes."""
    items: int
    licence: str
    origin: str
    sources: tuple[str, ...] = ()
    """Empty for the set that comes with ohforge."""


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A file of questions that is here, with what a record says of it."""

    name: str
    path: Path
    sha256: str
    licence: str
    is_users: bool = False
    """Named by its path."""


def find_data(session: Session, name_or_path: str) -> DataFile:
    """The file at that path, or of the set of that name, which is fetched unless it is there.

    Raises UsageError for a path at which there is none, UnknownName, and what `fetch_data` raises.
    """
    path = _path_given(name_or_path)
    if path is None:
        return fetch_data(session, name_or_path)
    licence = "not known: a file of the user's"
    return DataFile(name=path.stem, path=path, sha256=sha256_file(path), licence=licence, is_users=True)


def fetch_data(session: Session, name: str) -> DataFile:
    """Fetches the set of that name into ``<cache>/data/`` unless it is there; its hash is compared every time.

    Raises UnknownName, NoSourceLeft with the reason for each source, IntegrityError, Offline, NotEnoughSpace.
    """
    entry = find_data_set(name)
    target = path_of(session, entry)
    if not _is_right(session, entry, target):
        if not entry.sources:
            raise IntegrityError(f"{target} is not as it came with ohforge.", remedy="Get this file of ohforge again.")
        deadline = Deadline.after(session.settings.timeouts.lock, f"the questions of {name}")
        with writing_errors(target), hold(target.parent.with_name(f".{name}.lock"), deadline, session.console.info):
            _fetch_first(session, entry, target)
    return DataFile(name=entry.name, path=target, sha256=entry.sha256, licence=entry.licence)


def would_find_data(session: Session, name_or_path: str) -> list[Would]:
    """What `find_data` would do."""
    return [] if _path_given(name_or_path) else [would_fetch_data(session, name_or_path)]


def would_fetch_data(session: Session, name: str) -> Would:
    """What `fetch_data` would do. Raises UnknownName."""
    entry = find_data_set(name)
    target = path_of(session, entry)
    what = f"the questions {entry.name} ({entry.title}, licence {entry.licence})"
    if not entry.sources or _is_right(session, entry, target):
        return Would(action="use", what=what, size=entry.size, there=entry.size, where=str(target))
    return Would(
        action="fetch",
        what=what,
        size=entry.size,
        there=bytes_here(target),
        source=entry.sources[0],
        where=str(target),
    )


def list_data(session: Session) -> list[dict[str, Any]]:
    """All sets that can be had by name, ready for JSON; ``path`` is empty for those that are not fetched yet."""
    return [
        {
            "name": entry.name,
            "title": entry.title,
            "items": entry.items,
            "size": entry.size,
            "licence": entry.licence,
            "origin": entry.origin,
            "path": str(path) if (path := path_of(session, entry)).is_file() else "",
        }
        for entry in read_data_sets()
    ]


def find_data_set(name: str) -> DataSet:
    entries = {entry.name: entry for entry in read_data_sets()}
    if name not in entries:
        raise unknown_name("set of questions", name, entries)
    return entries[name]


def read_data_sets(file: Path = DATA) -> list[DataSet]:
    """Reads the list of sets; raises InvalidData naming the entry that does not have the form of the schema."""
    value = read_data(file, DATA.with_name("data_sets.schema.json"))
    return [DataSet(**{**raw, "sources": tuple(raw.get("sources", ()))}) for raw in value["data_sets"]]


def path_of(session: Session, entry: DataSet) -> Path:
    if not entry.sources:
        return DATA.with_name(entry.file)
    return session.settings.cache / "data" / entry.name / entry.file


def _path_given(name_or_path: str) -> Path | None:
    """The file that is meant; None when it can only be a name."""
    path = Path(name_or_path).expanduser()
    if path.is_file():
        return path
    if "/" in name_or_path or path.suffix in (".jsonl", ".tsv"):
        raise UsageError(
            f"There is no file of questions {path}.",
            remedy="Name a .jsonl file, each line with question and answer, or a set that `ohforge data.list` shows.",
        )
    return None


def _is_right(session: Session, entry: DataSet, target: Path) -> bool:
    if not target.is_file():
        return False
    if sha256_file(target) == entry.sha256:
        return True
    if entry.sources:
        session.console.warn(f"{target} is not the file that it was: fetching {entry.name} anew.")
    return False


def _fetch_first(session: Session, entry: DataSet, target: Path) -> None:
    session.console.info(f"questions: {entry.title}, licence {entry.licence} ({entry.origin})")
    tries = Fallback(session, f"the questions {entry.name}")
    for source in entry.sources:
        with tries.passing_over(shown(source)):
            download(session, source, target, sha256=entry.sha256, size=entry.size, title=entry.file)
            return
    raise tries.error()
