"""``sdk.fetch``: an SDK from the first source that has it, verified, unpacked, and there as a whole or not at all."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from core.download import writing_errors
from core.dry import Would
from core.errors import (
    IntegrityError,
    InvalidData,
    NetworkError,
    SdkIncomplete,
    UsageError,
    unknown_name,
)
from core.fallback import Fallback
from core.files import remove_tree
from core.session import Session
from toolchains.catalogue import COMPONENTS, HOST_FOLDERS, WANTED_COMPONENTS, find_release, release_of_sdk_version
from toolchains.installed import (
    InstalledComponent,
    InstalledSdk,
    fetched_bytes,
    hash_of_entries,
    lock_for,
    looks_whole,
    read_entries,
    read_installed,
    sdk_root,
    sweep,
    write_installed,
)
from toolchains.sdk import describe_sdk, read_description, this_host
from toolchains.sources import Offer, SdkRequest, expected_source, sources_for
from toolchains.staging import Package, Traffic, unpack_offer
from toolchains.tarball import clean_staging


@dataclass(frozen=True, kw_only=True)
class FetchedSdk:
    """What `fetch_sdk` has left."""

    path: Path
    version: str
    sdk_version: str
    api_level: int
    host: str
    components: tuple[str, ...]
    source: str
    """Where it came from; empty when it was there already."""
    bytes_downloaded: int
    bytes_reused: int
    """Bytes of archives that an earlier, broken-off call had fetched."""
    seconds: float


def fetch_sdk(
    session: Session,
    version: str = "",
    *,
    host: str = "",
    components: Sequence[str] = WANTED_COMPONENTS,
    mirror: str = "",
    archive: str = "",
    sha256: str = "",
) -> FetchedSdk:
    """Installs an SDK into ``<data>/sdk/<version>-<host>`` unless it is there.

    `version` is what `toolchains.catalogue.find_release` takes (default ``latest``; may be left out with `archive`).
    `mirror` takes the place of the release mirror's base and is the only source then; `archive` is a file or an
    address of a tarball or package; `sha256` pins what has no published hash.

    Raises UnknownName, SdkNotForHost, NoSourceLeft, IntegrityError, NotEnoughSpace, CannotWrite, Offline, Busy.
    """
    started = time.monotonic()
    traffic = Traffic()
    request = make_request(session, version, host, components, mirror, archive, sha256)
    name, root = _folder_name(request), sdk_root(session)
    with writing_errors(root / name):
        root.mkdir(parents=True, exist_ok=True)
        with lock_for(session, name):
            sweep(session, name)
            installed = _install(session, request, root / name, traffic)
    return FetchedSdk(
        path=installed.folder,
        version=installed.version,
        sdk_version=installed.sdk_version,
        api_level=installed.api_level,
        host=installed.host,
        components=tuple(sorted(installed.components)),
        source=installed.source.get("title", "") if traffic.downloaded or traffic.reused else "",
        bytes_downloaded=traffic.downloaded,
        bytes_reused=traffic.reused,
        seconds=time.monotonic() - started,
    )


def would_fetch_sdk(session: Session, request: SdkRequest) -> Would:
    """What `fetch_sdk` would do, as far as the catalogue and this computer tell: no server is asked. Raises UsageError."""
    name = _folder_name(request)
    target = sdk_root(session) / name
    _, missing = _look(session, request, target)
    what = f"{request.title} for {request.host} ({', '.join(missing or request.components)})"
    if not missing:
        return Would(action="use", what=what, where=str(target), why="it is installed and whole")
    if _adopt(_staging(target), request, missing) is not None:
        return Would(action="install", what=what, where=str(target), why="an earlier call has fetched and unpacked it")
    source, size = expected_source(session, request)
    there = fetched_bytes(session, name)
    where = str(target if request.release is not None else target.parent)
    return Would(action="fetch", what=what, size=size, there=there, source=source, where=where)


def _folder_name(request: SdkRequest) -> str:
    return f"{request.release.version if request.release else 'archive'}-{request.host}"


def _look(session: Session, request: SdkRequest, target: Path) -> tuple[InstalledSdk | None, tuple[str, ...]]:
    """What is installed in `target`, and the components that are to be installed there."""
    before = read_installed(target) if request.release is not None else None
    if before is None:
        return None, request.components
    return before, tuple(c for c in request.components if c not in before.components or not looks_whole(before, c))


def make_request(
    session: Session, version: str, host: str, components: Sequence[str], mirror: str, archive: str, sha256: str
) -> SdkRequest:
    """The arguments of `fetch_sdk`, checked; says what was chosen. Raises UnknownName, UsageError, SdkNotForHost."""
    request = _read_request(version, host, components, mirror, archive, sha256)
    session.console.chosen("sdk", f"{request.title} for {request.host}", _why(version, host, archive))
    return request


def _read_request(
    version: str, host: str, components: Sequence[str], mirror: str, archive: str, sha256: str
) -> SdkRequest:
    for component in components:
        if component not in COMPONENTS:
            raise unknown_name("component of the ohos-sdk", component, COMPONENTS)
    if not components:
        raise UsageError("No component of the ohos-sdk is named.")
    if mirror and archive:
        raise UsageError("--mirror and --archive exclude each other: an archive is used as it is.")
    host = host or this_host()
    if host not in HOST_FOLDERS:
        raise unknown_name("host", host, HOST_FOLDERS)
    release = find_release(version or "latest") if version or not archive else None
    if release is not None and not archive:
        release.archives_for(host)
    return SdkRequest(
        release=release,
        host=host,
        components=tuple(dict.fromkeys(components)),
        mirror=mirror,
        archive=archive,
        sha256=sha256,
    )


def _why(version: str, host: str, archive: str) -> str:
    named = f"--version {version}" if version else "--archive" if archive else "latest in the catalogue"
    return f"{named}; {'--host' if host else 'this machine'}"


def _install(session: Session, request: SdkRequest, target: Path, traffic: Traffic) -> InstalledSdk:
    before, missing = _look(session, request, target)
    if before is not None and not missing:
        session.console.info(f"{target} is installed and whole: nothing to do")
        return before
    staging = _staging(target)
    found = _adopt(staging, request, missing)
    if found is None:
        found = _fetch_first(session, replace(request, components=missing), staging, traffic)
    clean_staging(staging)
    return _commit(session, found, before, target if request.release else None)


def _staging(target: Path) -> Path:
    """Where an installation grows."""
    return target.with_name(f".new-{target.name}")


def _adopt(staging: Path, request: SdkRequest, missing: tuple[str, ...]) -> InstalledSdk | None:
    """An installation that was killed just before its last step, the renaming."""
    try:
        found = read_installed(staging)
    except InvalidData:
        return None
    if found is None or set(found.components) != set(missing):
        return None
    if request.sha256 and found.source.get("sha256") != request.sha256.lower():
        return None
    return found if all(looks_whole(found, component) for component in missing) else None


def _fetch_first(session: Session, request: SdkRequest, staging: Path, traffic: Traffic) -> InstalledSdk:
    tries = Fallback(session, request.title, passes=(NetworkError, IntegrityError, SdkIncomplete))
    for name, ask in sources_for(session, request):
        with tries.passing_over(name):
            offer = ask(session, request)
            session.console.chosen("source", offer.title, tries.why(_first(request)))
            return _unpack_offer(session, request, offer, staging, traffic)
    raise tries.error(
        "See the reasons above. Behind a slow link or none, fetch the archive elsewhere and name it with --archive, or "
        "name a mirror of your own with --mirror."
    )


def _first(request: SdkRequest) -> str:
    """Why the first source is taken."""
    return "--archive" if request.archive else "--mirror" if request.mirror else "first in ohforge.sdk_sources"


def _unpack_offer(session: Session, request: SdkRequest, offer: Offer, staging: Path, traffic: Traffic) -> InstalledSdk:
    try:
        digest, packages = unpack_offer(session, request, offer, staging, traffic)
        source = {"kind": offer.source, "title": offer.title, "known_by": offer.known_by}
        sdk = _describe(session, request, staging, packages, {**source, **({"sha256": digest} if digest else {})})
    except (IntegrityError, SdkIncomplete):
        remove_tree(staging)  # nothing goes on from what was refused
        raise
    write_installed(sdk, {component: package.entries for component, package in packages.items()})
    return sdk


def _describe(
    session: Session, request: SdkRequest, staging: Path, packages: dict[str, Package], source: dict[str, str]
) -> InstalledSdk:
    """Looks at what was unpacked: it must be a whole SDK of the level that was asked for."""
    if "native" in packages:
        describe_sdk(staging)
    described = {component: read_description(staging / component) for component in packages}
    first = next(iter(described.values()))
    sdk_version, level = first.version, first.api_level
    release = request.release
    if release is not None and level != release.api_level:
        raise IntegrityError(
            f"{source['title']} holds API level {level} (version {sdk_version}), but {release.version} has "
            f"{release.api_level}. It was not used."
        )
    if release is not None and sdk_version != release.sdk_version:
        session.console.info(f"its packages say {sdk_version}; the catalogue has {release.sdk_version}")
    known = release or release_of_sdk_version(sdk_version)
    return InstalledSdk(
        folder=staging,
        version=known.version if known else sdk_version,
        sdk_version=sdk_version,
        api_level=level,
        host=request.host,
        components={
            component: InstalledComponent(
                version=described[component].version,
                package=package.name,
                files=len(package.entries),
                bytes=package.total_bytes,
                list_sha256=hash_of_entries(package.entries),
            )
            for component, package in packages.items()
        },
        source=source,
        installed_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _commit(session: Session, found: InstalledSdk, before: InstalledSdk | None, target: Path | None) -> InstalledSdk:
    """Puts the staging folder in its place, or its components beside those that are installed already."""
    if target is None:  # an archive has just told which version it holds
        target = sdk_root(session) / f"{found.version}-{found.host}"
        with lock_for(session, target.name):
            return _commit(session, found, None, target)
    if before is None:
        if target.exists():  # without a marker it is rubbish; with one it is the same build, installed once more
            target.rename(target.with_name(f".trash-{target.name}-{time.time_ns()}"))
        found.folder.rename(target)
        sweep(session, target.name)
        return replace(found, folder=target)
    entries = {c: tuple(listed) for c, listed in read_entries(before.folder).items() if c not in found.components}
    entries |= {component: tuple(listed) for component, listed in read_entries(found.folder).items()}
    for component in found.components:
        place = target / component
        if place.exists():
            place.rename(target.with_name(f".trash-{target.name}-{component}-{time.time_ns()}"))
        (found.folder / component).rename(place)
    whole = dataclasses.replace(before, components={**before.components, **found.components})
    write_installed(whole, entries)
    remove_tree(found.folder)
    sweep(session, target.name)
    return whole
