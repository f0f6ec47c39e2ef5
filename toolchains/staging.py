"""From what a source offers to unpacked, verified components in a staging folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from core.addresses import shown
from core.download import download_cached
from core.errors import IntegrityError
from core.files import human_bytes, remove_tree, require_space, sha256_file
from core.http import Fetch, path_of_file_url, read_on
from core.session import Session
from core.tree import Entry
from core.trust import check_first_seen
from core.unpack import unpack_zip_into
from toolchains.sources import Offer, PackageOffer, PackagesOffer, SdkRequest, TarOffer
from toolchains.tarball import GROWTH, OnePass


@dataclass(kw_only=True)
class Traffic:
    downloaded: int = 0
    reused: int = 0


@dataclass(frozen=True, kw_only=True)
class Package:
    """An unpacked component in the staging folder."""

    name: str
    entries: tuple[Entry, ...]
    total_bytes: int


def unpack_offer(
    session: Session, request: SdkRequest, offer: Offer, staging: Path, traffic: Traffic
) -> tuple[str, dict[str, Package]]:
    """Fetches and unpacks; returns the tarball's SHA-256 (empty for packages by themselves) and the components.

    What was fetched is not yet installed, but its hash is right. Raises what sources, downloads and archives raise.
    """
    if isinstance(offer, TarOffer):
        return _read_tarball(session, request, offer, staging, traffic)
    return "", _fetch_packages(session, offer, staging, traffic)


def _read_tarball(
    session: Session, request: SdkRequest, offer: TarOffer, staging: Path, traffic: Traffic
) -> tuple[str, dict[str, Package]]:
    if not offer.sha256:
        session.console.warn(f"nobody says which sha256 {offer.title} must have; a broken-off download cannot resume.")
    with OnePass(
        session, staging, host=request.host, components=request.components, sha256=offer.sha256, size=offer.size
    ) as reader:
        digest = _read_through(session, request, offer, reader, traffic)
    _compare(session, offer, digest, staging)
    return digest, {
        component: Package(name=Path(name).name, entries=done.entries, total_bytes=done.total_bytes)
        for component, name in reader.packages.items()
        for done in [reader.unpacked[component]]
    }


def _read_through(session: Session, request: SdkRequest, offer: TarOffer, reader: OnePass, traffic: Traffic) -> str:
    begun = reader.offset
    if begun:
        session.console.info(f"going on at {human_bytes(begun)} of a broken-off download")
        if not traffic.downloaded:
            traffic.reused += begun
    with session.console.progress(request.title, offer.size) as bar:
        bar.reach(begun, offer.size)
        for chunk in _joined(session, offer, begun, traffic):
            reader.feed(chunk)
            bar.advance(len(chunk))
        bar.say("unpacking")
        return reader.finish()


def _joined(session: Session, offer: TarOffer, start: int, traffic: Traffic) -> Iterator[bytes]:
    """The bytes of all pieces, one after another, from `start` on."""
    begin = 0
    for piece in offer.pieces:
        if piece.size is not None and start >= begin + piece.size:
            begin += piece.size
            continue
        inner = max(0, start - begin)
        fetch = Fetch(session, piece.url, start=inner)
        length = inner
        try:
            for chunk in read_on(fetch, inner):
                length += len(chunk)
                yield chunk
        finally:
            traffic.downloaded += fetch.received
        begin += length


def _compare(session: Session, offer: TarOffer, digest: str, staging: Path) -> None:
    if offer.sha256 and digest != offer.sha256:
        name = staging.name.removeprefix(".new-")
        aside = staging.with_name(f".rejected-{name}-{digest[:12]}")
        remove_tree(aside)
        staging.rename(aside)
        raise IntegrityError(
            f"{offer.title} has sha256 {digest}, but {offer.sha256} is expected ({offer.known_by}). What was unpacked "
            f"of it is set aside in {aside} and not used.",
            expected=offer.sha256,
            found=digest,
            file=str(aside),
        )
    if offer.first_seen_name and not offer.known_by.startswith(("pinned", "--sha256")):
        check_first_seen(session, offer.first_seen_name, digest, published=bool(offer.sha256))


def _fetch_packages(session: Session, offer: PackagesOffer, staging: Path, traffic: Traffic) -> dict[str, Package]:
    remove_tree(staging)
    staging.mkdir(parents=True)
    sizes = sum(package.size or 0 for package in offer.packages)
    require_space(staging, sizes + int(GROWTH * sizes), f"Installing {offer.title}")
    return {package.component: _fetch_package(session, package, staging, traffic) for package in offer.packages}


def _fetch_package(session: Session, package: PackageOffer, staging: Path, traffic: Traffic) -> Package:
    name = Path(package.url.partition("?")[0]).name
    if package.url.startswith("file:"):
        path, own_copy = _verified_file(package), False
    else:
        got = download_cached(session, package.url, sha256=package.sha256, size=package.size, title=name)
        traffic.downloaded += got.bytes_downloaded
        traffic.reused += got.bytes_reused
        path, own_copy = got.path, True
        if not package.sha256:
            check_first_seen(session, f"ohos-sdk package {shown(package.url)}", got.sha256)
    with session.console.progress(f"unpacking {package.component}") as bar:
        folder = staging / package.component
        folder.mkdir()
        done = unpack_zip_into(path, folder, subfolder=package.component, on_bytes=bar.advance)
    if own_copy:
        path.unlink(missing_ok=True)
    return Package(name=name, entries=done.entries, total_bytes=done.total_bytes)


def _verified_file(package: PackageOffer) -> Path:
    path = path_of_file_url(package.url)
    if package.sha256 and (found := sha256_file(path)) != package.sha256:
        raise IntegrityError(
            f"{path} has sha256 {found}, but {package.sha256} is expected. It was not used.",
            remedy="Fetch the file again, or leave --sha256 away if you trust it.",
            expected=package.sha256,
            found=found,
        )
    return path
