"""Installed SDKs: what the marker says, whether the files are still those, and how one is removed."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.deadline import Deadline
from core.dry import Would
from core.errors import IntegrityError, InvalidData, SdkNotFound, nearest
from core.files import files_in, remove_all, remove_tree, sha256_json, write_atomic, write_json
from core.locks import hold
from core.session import Session
from core.tree import Entry
from toolchains.catalogue import read_catalogue
from toolchains.sdk import MARKER

FILES = "installed-files.json"
SCHEMA = 1
SHOWN_PROBLEMS = 20


@dataclass(frozen=True, kw_only=True)
class InstalledComponent:
    """One component of an installed SDK."""

    version: str
    package: str
    """Name of the zip that it came from."""
    files: int
    bytes: int
    list_sha256: str
    """Hash of the names, sizes, modes, checksums and links of all its files."""


@dataclass(frozen=True, kw_only=True)
class InstalledSdk:
    """What the marker ``installed.json`` says."""

    folder: Path
    version: str
    """The release, or the packages' own version for builds that are no release."""
    sdk_version: str
    api_level: int
    host: str
    components: Mapping[str, InstalledComponent]
    source: Mapping[str, str]
    installed_at: str

    @property
    def bytes(self) -> int:
        return sum(component.bytes for component in self.components.values())


@dataclass(frozen=True, kw_only=True)
class SdkCheck:
    """The result of `verify_sdk`."""

    sdk: InstalledSdk
    files: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def sdk_root(session: Session) -> Path:
    return session.settings.data / "sdk"


def read_installed(folder: Path) -> InstalledSdk | None:
    """What the marker in `folder` says; None when there is none, so nothing whole is there."""
    try:
        value = json.loads((folder / MARKER).read_text())
        components = {name: InstalledComponent(**raw) for name, raw in value["components"].items()}
        fields = {
            name: value[name] for name in ("version", "sdk_version", "api_level", "host", "source", "installed_at")
        }
        return InstalledSdk(folder=folder, components=components, **fields)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidData(f"{folder / MARKER} does not have the form that sdk.fetch gives it: {error}.") from error


def write_installed(sdk: InstalledSdk, entries: Mapping[str, Iterable[Entry]]) -> None:
    """Writes the list of files and then the marker."""
    rows = {component: [dataclasses.astuple(entry) for entry in listed] for component, listed in entries.items()}
    write_atomic(sdk.folder / FILES, json.dumps(rows, separators=(",", ":")))
    value = dataclasses.asdict(sdk)
    del value["folder"]
    write_json(sdk.folder / MARKER, {"schema": SCHEMA, **value})


def read_entries(folder: Path) -> dict[str, list[Entry]]:
    """The list of files that was written when the SDK was installed."""
    names = [field.name for field in dataclasses.fields(Entry)]
    rows = json.loads((folder / FILES).read_text())
    return {
        component: [Entry(**dict(zip(names, row, strict=True))) for row in listed] for component, listed in rows.items()
    }


def hash_of_entries(entries: Iterable[Entry]) -> str:
    return sha256_json(sorted(dataclasses.astuple(entry) for entry in entries))


def looks_whole(sdk: InstalledSdk, component: str) -> bool:
    """Whether all files of a component are there with their sizes: quick, without reading them."""
    try:
        entries = read_entries(sdk.folder)[component]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return hash_of_entries(entries) == sdk.components[component].list_sha256 and not any(
        _fault_of(sdk.folder / component, entry, deep=False) for entry in entries
    )


def verify_sdk(session: Session, name: str = "", *, deep: bool = True) -> SdkCheck:
    """Compares every file of an installed SDK with what was unpacked: presence, size, mode, link, checksum, extras.

    `name` is a version or a folder's name as `list_sdks` shows them; it may be left out when one SDK is installed.
    `deep` also reads the contents. Raises SdkNotFound, InvalidData.
    """
    sdk = find_installed(session, name)
    try:
        listed = read_entries(sdk.folder)
    except (OSError, ValueError, TypeError) as error:
        return SdkCheck(sdk=sdk, files=0, problems=(f"{FILES} cannot be read: {error}",))
    problems: list[str] = []
    for component, facts in sdk.components.items():
        if hash_of_entries(listed.get(component, [])) != facts.list_sha256:
            problems.append(f"{FILES} was changed: its list of {component} is not the one that was installed")
    rows = [(component, entry) for component, entries in listed.items() for entry in entries]
    with (
        session.console.progress(f"checking {sdk.folder.name}", sum(entry.size for _, entry in rows)) as bar,
        ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool,
    ):
        faults = pool.map(lambda row: _fault_of(sdk.folder / row[0], row[1], deep=deep), rows)
        for (component, entry), fault in zip(rows, faults, strict=True):
            bar.advance(entry.size)
            if fault:
                problems.append(f"{component}/{entry.name} {fault}")
    problems += _extras(sdk, listed)
    return SdkCheck(sdk=sdk, files=len(rows), problems=tuple(problems))


def damage_error(check: SdkCheck) -> IntegrityError:
    """The error for an SDK in which `verify_sdk` has found problems."""
    shown = "".join(f"\n  - {problem}" for problem in check.problems[:SHOWN_PROBLEMS])
    more = len(check.problems) - SHOWN_PROBLEMS
    return IntegrityError(
        f"The SDK in {check.sdk.folder} is not as it was installed:{shown}{f'{chr(10)}  and {more} more' if more > 0 else ''}",
        remedy=f"Install it again: `ohforge sdk.remove {check.sdk.folder.name}`, then `ohforge sdk.fetch`.",
        problems=list(check.problems),
    )


def remove_sdk(session: Session, name: str) -> int:
    """Removes an installed SDK, or what a broken-off installation of it has left; returns the bytes that it had.

    It is renamed first, so that a removal that is killed leaves nothing that looks like an SDK.
    """
    sdk = _find_removable(session, name)
    if not isinstance(sdk, InstalledSdk):
        return sum(_remove_begun(session, folder) for folder in sdk)
    with lock_for(session, sdk.folder.name):
        trash = sdk.folder.with_name(f".trash-{sdk.folder.name}-{os.getpid()}")
        sdk.folder.rename(trash)
        sweep(session, sdk.folder.name)
    return sdk.bytes


def would_remove_sdk(session: Session, name: str) -> list[Would]:
    """What `remove_sdk` would do. Raises SdkNotFound."""
    sdk = _find_removable(session, name)
    if isinstance(sdk, InstalledSdk):
        return [
            Would(action="remove", what=f"ohos-sdk {sdk.version} for {sdk.host}", size=sdk.bytes, where=str(sdk.folder))
        ]
    what = "a broken-off installation"
    return [Would(action="remove", what=what, size=_size_of(folder), where=str(folder)) for folder in sdk]


def _find_removable(session: Session, name: str) -> InstalledSdk | list[Path]:
    """The installed SDK of that name, else what broken-off installations of it have left. Raises SdkNotFound."""
    try:
        return find_installed(session, name)
    except SdkNotFound:
        folders = sdk_root(session).glob(".new-*")
        begun = [folder for folder in folders if name and f"{folder.name}-".startswith(f".new-{name}-")]
        if not begun:
            raise
        return begun


def _remove_begun(session: Session, folder: Path) -> int:
    with lock_for(session, folder.name.removeprefix(".new-")):
        size = _size_of(folder)
        remove_all(folder)
        return size


def _size_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in files_in(folder))


def sweep(session: Session, name: str) -> None:
    """Removes what removals and refused installations of the SDK `name` have left; its lock must be held."""
    for pattern in (f".trash-{name}-*", f".rejected-{name}-*"):
        for folder in sdk_root(session).glob(pattern):
            remove_tree(folder)


def lock_for(session: Session, name: str) -> Any:
    """The lock under which the SDK `name` is installed or removed."""
    deadline = Deadline.after(session.settings.timeouts.lock, f"the installation of {name}")
    return hold(sdk_root(session) / f".{name}.lock", deadline, session.console.info)


def list_sdks(session: Session) -> list[dict[str, Any]]:
    """Installed SDKs and published releases, newest first, ready for JSON.

    ``path`` is empty for what is not installed; ``fetched_bytes`` tells of an installation that was broken off.
    """
    rows = [_installed_row(sdk) for sdk in all_installed(session)]
    taken = {row["version"] for row in rows}
    for release in reversed(read_catalogue().releases):
        if release.version not in taken:
            archive = release.archives[0]
            rows.append(
                {
                    "version": release.version,
                    "sdk_version": release.sdk_version,
                    "api_level": release.api_level,
                    "hosts": list(release.hosts),
                    "size": archive.size,
                    "pinned": bool(archive.sha256),
                    "components": [],
                    "path": "",
                    "fetched_bytes": fetched_bytes(session, f"{release.version}-*"),
                }
            )
    return rows


def all_installed(session: Session) -> list[InstalledSdk]:
    """All installed SDKs, newest first."""
    folders = [path.parent for path in sdk_root(session).glob(f"[!.]*/{MARKER}")]
    found = [sdk for folder in folders if (sdk := read_installed(folder)) is not None]
    return sorted(found, key=lambda sdk: [int(p) for p in sdk.sdk_version.split(".") if p.isdigit()], reverse=True)


def find_installed(session: Session, name: str) -> InstalledSdk:
    """The installed SDK of that version or folder name; raises SdkNotFound with those that are installed."""
    installed = all_installed(session)
    if not installed:
        raise SdkNotFound(f"No ohos-sdk is installed in {sdk_root(session)}.")
    fitting = [
        sdk for sdk in installed if name in ("", sdk.folder.name, sdk.version, sdk.sdk_version, f"api{sdk.api_level}")
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        # A release for two hosts has one version and two folders: only the folders' names tell them apart.
        words = [sdk.folder.name for sdk in fitting]
        meant = f"{name!r} can mean" if name else "There are"
        raise SdkNotFound(
            f"{meant} {len(fitting)} installed ohos-sdks: {', '.join(words)}.",
            remedy=f"Write {' or '.join(words)}{f' instead of {name}' if name else ''}.",
        )
    names = [sdk.folder.name for sdk in installed]
    raise SdkNotFound(f"The ohos-sdk {name!r} is not installed; {nearest(name, names)}.")


def _installed_row(sdk: InstalledSdk) -> dict[str, Any]:
    return {
        "version": sdk.version,
        "sdk_version": sdk.sdk_version,
        "api_level": sdk.api_level,
        "hosts": [sdk.host],
        "size": "",
        "pinned": True,
        "components": sorted(sdk.components),
        "path": str(sdk.folder),
        "bytes": sdk.bytes,
        "source": dict(sdk.source),
        "installed_at": sdk.installed_at,
        "fetched_bytes": 0,
    }


def fetched_bytes(session: Session, name: str) -> int:
    """How much of its archive a broken-off installation has read; `name` is the folder's, in which ``*`` fits all."""
    for file in sdk_root(session).glob(f".new-{name}/checkpoint.json"):
        try:
            return int(json.loads(file.read_text())["offset"])
        except (OSError, ValueError, KeyError):
            continue
    return 0


def _fault_of(root: Path, entry: Entry, *, deep: bool) -> str:
    """What is wrong with one file, or an empty text."""
    path = root / entry.name
    try:
        found = path.lstat()
        if entry.link:
            if not stat.S_ISLNK(found.st_mode):
                return f"is no longer a link to {entry.link}"
            return "" if str(path.readlink()) == entry.link else f"leads to {path.readlink()}, not to {entry.link}"
        if not stat.S_ISREG(found.st_mode):
            return "is no plain file"
        if found.st_size != entry.size:
            return f"has {found.st_size} bytes, not {entry.size}"
        if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o111 != entry.mode & 0o111:
            return f"has the mode {stat.S_IMODE(found.st_mode):o}, not {entry.mode:o}"
        return "has another content" if deep and crc32_of_file(path) != entry.crc32 else ""
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def crc32_of_file(path: Path) -> int:
    """CRC-32 of a file's content, as zip archives have it."""
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            crc = zlib.crc32(chunk, crc)
    return crc


def _extras(sdk: InstalledSdk, listed: Mapping[str, Iterable[Entry]]) -> Iterator[str]:
    for component in sdk.components:
        known = {entry.name for entry in listed.get(component, ())}
        root = sdk.folder / component
        for path in files_in(root):
            relative = path.relative_to(root).as_posix()
            if relative not in known and "__pycache__" not in relative:
                yield f"{component}/{relative} was not in the package"
