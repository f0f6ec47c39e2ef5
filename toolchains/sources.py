"""Where an SDK can be had: release mirrors, the component list, the split archives on GitHub, a file.

A source is asked what it offers before anything large is fetched. What it answers is one of two forms: a tarball of
packages for several hosts (possibly in pieces), or the packages themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from core.addresses import shown
from core.errors import (
    IntegrityError,
    NotFoundOnServer,
    NotTheFile,
    UsageError,
    unknown_name,
)
from core.fallback import Fallback
from core.http import Fetch, post_json, read_small
from core.http_errors import split_address, with_path
from core.session import Session
from core.trust import recall_first_seen
from toolchains.catalogue import HOST_FOLDERS, Archive, Release, read_catalogue
from toolchains.daily import DAILY, find_daily_build

OS_TYPES = {"linux": "linux", "windows": "windows", "macos": "darwin"}
MOST_PIECES = 26


@dataclass(frozen=True, kw_only=True)
class SdkRequest:
    """What is wanted, and from where if the user says so."""

    release: Release | None
    """None when an archive is given without a version."""
    host: str
    components: tuple[str, ...]
    mirror: str = ""
    archive: str = ""
    """A file, or an address, that is the tarball or one package; or ``daily:BRANCH``."""
    sha256: str = ""
    """Pinned by the user."""

    @property
    def title(self) -> str:
        return f"ohos-sdk {self.release.version if self.release else Path(shown(self.archive)).name}"


@dataclass(frozen=True, kw_only=True)
class Piece:
    url: str
    size: int | None = None


@dataclass(frozen=True, kw_only=True)
class TarOffer:
    """A release tarball. Its pieces, joined, have `sha256`; empty when nobody says which it must be."""

    source: str
    title: str
    pieces: tuple[Piece, ...]
    sha256: str
    known_by: str
    """Who says so: completes "sha256 …"."""
    first_seen_name: str
    """Name under which the hash is remembered when it is not pinned."""

    @property
    def size(self) -> int | None:
        sizes = [piece.size for piece in self.pieces]
        return None if None in sizes else sum(size for size in sizes if size is not None)


@dataclass(frozen=True, kw_only=True)
class PackageOffer:
    """One component as a zip."""

    component: str
    version: str
    url: str
    sha256: str
    size: int | None = None


@dataclass(frozen=True, kw_only=True)
class PackagesOffer:
    source: str
    title: str
    packages: tuple[PackageOffer, ...]
    known_by: str


Offer = TarOffer | PackagesOffer
Ask = Callable[[Session, SdkRequest], Offer]


def sources_for(session: Session, request: SdkRequest) -> Iterator[tuple[str, Ask]]:
    """Names and questions of the sources, in the order in which they are to be tried."""
    if request.archive:
        yield "archive", ask_archive
        return
    if request.mirror:
        yield "mirror", partial(ask_mirror, base=request.mirror, source="mirror")
        return
    mirrors = _mirrors(session)
    others = {"components": ask_component_list, "github": ask_github}
    for name in session.settings.sdk_sources:
        if name in mirrors:
            yield from ((name, partial(ask_mirror, base=base, source=name)) for base in mirrors[name])
        elif name in others:
            yield name, others[name]
        else:
            raise unknown_name("source in ohforge.sdk_sources", name, [*mirrors, *others])


def expected_source(session: Session, request: SdkRequest) -> tuple[str, int | None]:
    """The address of the first source, and the bytes of what it has; None where only the source can tell.

    Nobody is asked. Raises UnknownName, and UsageError without any source or for a local archive that is not there.
    """
    name, ask = next(sources_for(session, request), ("", None))
    if ask is None:
        raise UsageError("ohforge.sdk_sources names no source.")
    if name == "archive":
        path = _local_archive(request.archive)
        return (str(path), path.stat().st_size) if path is not None else (shown(request.archive), None)
    if name == "components":
        return shown(_component_list(session)), None
    release = _release_of(request)
    archive = release.archives_for(request.host)[0]
    if name == "github":
        return shown(_below(_github_folder(session, release), archive.file)), archive.size_in_bytes
    base = request.mirror or _mirrors(session)[name][0]
    return shown(_address(base, release, archive)), archive.size_in_bytes


def ask_mirror(session: Session, request: SdkRequest, *, base: str, source: str) -> Offer:
    """The release tarball below a mirror's base, with the checksum file beside it."""
    release = _release_of(request)
    tries = _archives_in_turn(session, request)
    for archive in release.archives_for(request.host):
        url = _address(base, release, archive)
        with tries.passing_over(shown(url)):
            digest, known_by = _expected(session, request, archive, url)
            return TarOffer(
                source=source,
                title=shown(url),
                pieces=(Piece(url=url, size=Fetch(session, url).probe().size),),
                sha256=digest,
                known_by=known_by,
                first_seen_name=_first_seen_name(release, archive),
            )
    raise tries.error()


def ask_component_list(session: Session, request: SdkRequest) -> Offer:
    """The packages by themselves, from the service that the IDE's SDK manager asks: the smallest download."""
    release = _release_of(request)
    url = _component_list(session)
    system, machine = request.host.rsplit("-", 1)
    offered: list[str] = []
    for support_version in read_catalogue().support_versions:
        body = {"osType": OS_TYPES[system], "osArch": machine, "supportVersion": support_version}
        items = _listed(session, url, body)
        packages = [_choose(items, component, release, machine) for component in request.components]
        if all(packages):
            found = tuple(package for package in packages if package is not None)
            return PackagesOffer(
                source="components",
                title=f"component list, {', '.join(f'{p.component} {p.version}' for p in found)}",
                packages=found,
                known_by="the component list",
            )
        offered += [f"{i.get('path')} {i.get('version')}" for i in items if i.get("path") in request.components]
    listed = ", ".join(dict.fromkeys(offered)) or "nothing for this host"
    raise NotFoundOnServer(
        f"{shown(url)} does not list {', '.join(request.components)} of {release.sdk_version} "
        f"(API {release.api_level}); it has {listed}."
    )


def ask_github(session: Session, request: SdkRequest) -> Offer:
    """The tarball among the files of a GitHub release, whole or in pieces named ``.aa``, ``.ab``, …"""
    release = _release_of(request)
    folder = _github_folder(session, release)
    tries = _archives_in_turn(session, request)
    for archive in release.archives_for(request.host):
        with tries.passing_over(archive.file):
            url = _below(folder, archive.file)
            digest, known_by = _expected(session, request, archive, url)
            pieces = _whole_or_pieces(session, url)
            in_pieces = f" in {len(pieces)} pieces" if len(pieces) > 1 else ""
            return TarOffer(
                source="github",
                title=f"GitHub, {archive.file}{in_pieces}",
                pieces=pieces,
                sha256=digest,
                known_by=known_by,
                first_seen_name=_first_seen_name(release, archive),
            )
    raise tries.error()


def ask_archive(session: Session, request: SdkRequest) -> Offer:
    """A file or address that the user names: a release tarball, or the zip of one component."""
    url = request.archive
    if url.startswith(DAILY):
        url = find_daily_build(session, url.removeprefix(DAILY))
    if (path := _local_archive(url)) is not None:
        url = path.as_uri()
    name = Path(split_address(url).path).name
    digest, known_by = request.sha256.lower(), "--sha256" if request.sha256 else ""
    try:
        size = Fetch(session, url).probe().size
    except (NotFoundOnServer, NotTheFile) as error:
        if re.search("daily", url, re.IGNORECASE):
            error.remedy = (
                "Addresses of daily builds die after about a month: take a newer build, or a copy of your own."
            )
        raise
    if not digest:
        digest, known_by = _sidecar(session, url) or ("", "")
    package = re.fullmatch(r"(\w+)-(linux|windows|darwin|ohos)-(x64|arm64)-([\d.]+)(-\w+)?\.zip", name)
    if package:
        if package[1] not in request.components:
            raise UsageError(f"{name} is the component {package[1]}, but wanted is {', '.join(request.components)}.")
        offer = PackageOffer(component=package[1], version=package[4], url=url, sha256=digest, size=size)
        return PackagesOffer(source="archive", title=name, packages=(offer,), known_by=known_by)
    return TarOffer(
        source="archive",
        title=shown(url),
        pieces=(Piece(url=url, size=size),),
        sha256=digest,
        known_by=known_by,
        first_seen_name="" if url.startswith("file:") else f"ohos-sdk archive {shown(url)}",
    )


def _archives_in_turn(session: Session, request: SdkRequest) -> Fallback:
    """For the archives of one server, of which one is enough."""
    return Fallback(session, request.title, passes=(NotFoundOnServer,), tell=session.console.detail)


def _local_archive(text: str) -> Path | None:
    """The file that `text` names; None for an address. Raises UsageError when there is no such file."""
    if re.match(r"[a-zA-Z][a-zA-Z\d+.-]+:/", text) or text.startswith(DAILY):
        return None
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise UsageError(f"There is no archive {path if shown(text) == text else shown(text)}.")
    return path


def _mirrors(session: Session) -> dict[str, tuple[str, ...]]:
    """The bases of the sources that are mirrors."""
    settings, catalogue = session.settings, read_catalogue()
    return {
        "mirror": (settings.sdk_mirror or catalogue.mirrors[0],),
        "mirror2": settings.sdk_mirror2 or catalogue.mirrors[1:],
    }


def _component_list(session: Session) -> str:
    return session.settings.sdk_list or read_catalogue().component_list_url


def _github_folder(session: Session, release: Release) -> str:
    catalogue = read_catalogue()
    base = session.settings.sdk_github or catalogue.github_url
    return _below(base, f"{catalogue.github_repository}/releases/download/v{release.version}")


def _address(base: str, release: Release, archive: Archive) -> str:
    return _below(base, f"{release.folder}/{archive.file}")


def _below(base: str, path: str) -> str:
    slash = "" if split_address(base).path.endswith("/") else "/"
    return with_path(base, slash + path)


def _expected(session: Session, request: SdkRequest, archive: Archive, url: str) -> tuple[str, str]:
    """The hash that an archive must have, and who says so.

    The user's pin counts most, then the catalogue's, then what was seen before, then the server's own file: that one
    comes from where the archive comes from, so it tells of damage but not of a replaced archive.
    """
    if request.sha256:
        return request.sha256.lower(), "--sha256"
    beside = _sidecar(session, url)
    if archive.sha256:
        if beside is not None and beside[0] != archive.sha256:
            raise IntegrityError(
                f"{shown(url)}: the server says that it has sha256 {beside[0]}, but {archive.sha256} is pinned "
                f"({archive.pins} independent sources). It was replaced on the server; nothing was fetched.",
                remedy="Use another source, or pin the new hash with --sha256 if you have reason to trust it.",
                expected=archive.sha256,
                found=beside[0],
            )
        return archive.sha256, f"pinned in the catalogue ({archive.pins} independent sources)"
    before = recall_first_seen(session, _first_seen_name(_release_of(request), archive))
    if before and beside is not None and beside[0] != before:
        raise IntegrityError(
            f"{shown(url)}: the server says that it has sha256 {beside[0]}, but it had {before} when it was first "
            "installed. It was replaced on the server; nothing was fetched.",
            remedy="Use another source, or pin the new hash with --sha256 if you have reason to trust it.",
            expected=before,
            found=beside[0],
        )
    if before:
        return before, "recorded when it was first installed"
    return beside or ("", "")


def _sidecar(session: Session, url: str) -> tuple[str, str] | None:
    """The digest in ``<file>.sha256``, with or without a file name behind it; None when there is no such file."""
    try:
        content = read_small(session, with_path(url, ".sha256"))
        words = content.decode("ascii", "replace").split()
        if not words or not re.fullmatch(r"[0-9a-fA-F]{64}", words[0]):
            raise NotTheFile(f"{shown(url)}.sha256 does not hold a SHA-256 but {content[:60]!r}.")
    except NotFoundOnServer:
        return None
    except NotTheFile:
        if not split_address(url).query:
            raise
        return None  # A signature is for one path: how the server refuses it for another one is its own affair.
    return words[0].lower(), "the server's .sha256 file"


def _whole_or_pieces(session: Session, url: str) -> tuple[Piece, ...]:
    try:
        return (Piece(url=url, size=Fetch(session, url).probe().size),)
    except NotFoundOnServer as error:
        whole_missing = error
    pieces: list[Piece] = []
    for number in range(MOST_PIECES):
        address = with_path(url, f".a{chr(ord('a') + number)}")
        try:
            pieces.append(Piece(url=address, size=Fetch(session, address).probe().size))
        except NotFoundOnServer:
            break
    if not pieces:
        raise whole_missing
    if any(piece.size is None for piece in pieces):
        raise NotTheFile(f"{shown(url)}: the server does not say how long the pieces are.")
    return tuple(pieces)


def _listed(session: Session, url: str, body: dict[str, str]) -> list[dict[str, Any]]:
    status, answer = post_json(session, url, body)
    if isinstance(answer, list):
        return [item for item in answer if isinstance(item, dict)]
    code = f" code {answer.get('code')}: {answer.get('message')}" if isinstance(answer, dict) else ""
    raise NotFoundOnServer(f"{shown(url)} refused the request {body} with HTTP {status},{code}.")


def _choose(items: list[dict[str, Any]], component: str, release: Release, machine: str) -> PackageOffer | None:
    """The one item that is `component` of the release, or of a later build of the same version."""
    fitting = []
    for item in items:
        archive = item.get("archive") if isinstance(item.get("archive"), dict) else {}
        assert isinstance(archive, dict)
        levels = {str(item.get(key, "")) for key in ("apiVersion", "fullApiVersion", "platformVersion")}
        if item.get("path") != component or archive.get("osArch", machine) != machine:
            continue
        if not levels & {str(release.api_level), release.full_version or "-"}:
            continue
        if _line(str(item.get("version", ""))) == _line(release.sdk_version):
            fitting.append((item, archive))
    if len({str(archive.get("checksum")) for _, archive in fitting}) > 1:
        names = ", ".join(f"{item.get('version')} ({archive.get('url')})" for item, archive in fitting)
        raise NotFoundOnServer(f"The component list has more than one {component} that fits: {names}.")
    if not fitting:
        return None
    item, archive = fitting[0]
    digest, size = str(archive.get("checksum", "")).lower(), str(archive.get("size", ""))
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise NotTheFile(f"The component list has no SHA-256 for {component} {item.get('version')}.")
    return PackageOffer(
        component=component,
        version=str(item.get("version", "")),
        url=str(archive.get("url", "")),
        sha256=digest,
        size=int(size) if size.isdigit() else None,
    )


def _line(sdk_version: str) -> str:
    """A version without its build number: 6.1.0.31 and 6.1.0.32 are the same release to the list."""
    return sdk_version.rpartition(".")[0]


def _release_of(request: SdkRequest) -> Release:
    assert request.release is not None, "only an archive can be asked for without a version"
    return request.release


def _first_seen_name(release: Release, archive: Archive) -> str:
    return f"ohos-sdk {release.version} {archive.file}"


def host_folder(host: str) -> tuple[str, str]:
    """The folder and the arch that packages for `host` have in a tarball; raises UnknownName."""
    if host not in HOST_FOLDERS:
        raise unknown_name("host", host, HOST_FOLDERS)
    return HOST_FOLDERS[host]
