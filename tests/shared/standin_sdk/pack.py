"""Packs a tree into archives of the shape in which ohos-sdk releases are published.

The habits that an installer must cope with are here: folders in front of the host's name, a beta's name inside a release,
dates in file names, zips whose entries have permissions but no file type, pieces, and checksums beside the files.
"""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from core.errors import unknown_name
from core.files import sha256_file
from tests.shared.standin_sdk.releases import SdkRelease, find_release

T = TypeVar("T")
COMPONENTS = ("native", "toolchains", "ets", "js", "previewer")
ZIP_TIME = (2001, 1, 1, 0, 0, 0)
TAR_TIME = 978307200
FAST = 1
"""Compression level: these archives are made to be unpacked, not to be small."""
HOSTS = {
    # the catalogue's word: (archive name without suffixes, folders in the tarball, arch in the zip names)
    "linux-x64": ("ohos-sdk-windows_linux-public", ("windows", "linux"), "x64"),
    "windows-x64": ("ohos-sdk-windows_linux-public", ("windows", "linux"), "x64"),
    "macos-x64": ("ohos-sdk-mac-public", ("darwin",), "x64"),
    "macos-arm64": ("L2-SDK-MAC-M1-PUBLIC", ("darwin",), "arm64"),
}
FOLDERS = {"linux-x64": "linux", "windows-x64": "windows", "macos-x64": "darwin", "macos-arm64": "darwin"}
MAC_PREFIX = "sdk/packages/ohos-sdk/"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """How an archive departs from what its release really has; None means: as the release."""

    prefix: str | None = None
    release_type: str | None = None
    date: str | None = None
    lead: str = ""
    """Stands before every member's name, as ``./`` does in hand-made tarballs."""
    folder_entries: bool = False
    extra_members: tuple[str, ...] | None = None
    checksum_names_file: bool = False
    """The sidecar has a second column, as sha256sum writes it."""


VARIANTS = {
    "published": Variant(),
    "prefix": Variant(prefix="ohos-sdk/"),
    "no-prefix": Variant(prefix=""),
    "three-folders": Variant(prefix=MAC_PREFIX),
    "beta": Variant(release_type="Beta1"),
    "no-type": Variant(release_type=""),
    "dated": Variant(date="_20260829"),
    "undated": Variant(date=""),
    "dot-slash": Variant(lead="./", folder_entries=True),
    "extra-members": Variant(extra_members=("manifest_tag.xml", "logs/build.log")),
    "checksum-with-name": Variant(checksum_names_file=True),
}


@dataclass(frozen=True, kw_only=True)
class Release:
    """A packed release. All paths lie below `folder`."""

    folder: Path
    release: SdkRelease
    host: str
    archive: Path
    sha256: str
    size: int
    members: tuple[str, ...]
    """Names in the tarball, in order."""
    components: Mapping[str, Path]
    """The host's component zips, as the component list offers them."""

    @property
    def mirror_path(self) -> str:
        """The archive's place below a mirror's base."""
        return f"{self.release.folder}/{self.archive.name}"

    @property
    def mirror_files(self) -> dict[str, Path]:
        """What a mirror serves, by path below its base."""
        return {self.mirror_path: self.archive, f"{self.mirror_path}.sha256": _sidecar(self.archive)}

    def github_files(self, piece: int = 0) -> dict[str, Path]:
        """What the split mirror serves, by path below ``releases/download``.

        An archive larger than `piece` bytes (when that is not 0) is replaced by pieces ``.aa``, ``.ab``, ….
        """
        tag = f"v{self.release.version}"
        files = {f"{tag}/{self.archive.name}.sha256": _sidecar(self.archive)}
        if not piece or self.size <= piece:
            return files | {f"{tag}/{self.archive.name}": self.archive}
        return files | {f"{tag}/{path.name}": path for path in split(self.archive, piece)}


def make_release(
    folder: Path, version: str, host: str = "linux-x64", variant: str | Variant = "published", tree: Path | None = None
) -> Release:
    """Packs `tree` (the parent of ``native`` and ``toolchains``; default: a tiny one) as release `version` for `host`.

    `variant` is one of `VARIANTS`, or one of your own. The same arguments give the same bytes.
    """
    release = find_release(version)
    chosen = variant if isinstance(variant, Variant) else _find_variant(variant)
    if host not in HOSTS:
        raise unknown_name("host", host, HOSTS)
    tree = tree or tiny_tree(folder / "tree", version)
    stem, folders, arch = HOSTS[host]
    ending = _or(chosen.release_type, release.release_type)
    zips = {
        (place, component): folder
        / f"zips/{place}/{component}-{place}-{arch}-{release.sdk_version}{ending and '-' + ending}.zip"
        for place in folders
        for component in COMPONENTS
    }
    for (place, component), path in zips.items():
        _write_zip(path, component, _component_files(tree, component, release, wanted=place == FOLDERS[host]))
    suffix = release.mac_suffix if host.startswith("macos") else ""
    archive = folder / f"{stem}{suffix}{_or(chosen.date, release.date)}.tar.gz"
    own_prefix = MAC_PREFIX if host.startswith("macos") else release.tar_prefix
    members = _write_tar(
        archive, chosen, _or(chosen.prefix, own_prefix), zips, _or(chosen.extra_members, release.extra_members)
    )
    digest = sha256_file(archive)
    line = f"{digest}  {archive.name}\n" if chosen.checksum_names_file else digest
    _sidecar(archive).write_text(line)
    return Release(
        folder=folder,
        release=release,
        host=host,
        archive=archive,
        sha256=digest,
        size=archive.stat().st_size,
        members=members,
        components={component: zips[FOLDERS[host], component] for component in COMPONENTS},
    )


def tiny_tree(folder: Path, version: str = "5.0.0") -> Path:
    """An SDK-shaped tree of small files that no compiler is in: for tests of installing and of layouts."""
    from tests.shared.standin_sdk.assemble import write_package_json, write_toolchain_file

    release = find_release(version)
    native, toolchains = folder / "native", folder / "toolchains"
    write_toolchain_file(native, release)
    for place, title in ((native, "Native"), (toolchains, "Toolchains")):
        write_package_json(place, place.name, title, release)
    # Longer than a link's target, so that a clang that was unpacked as a text file can be told from it.
    _write_program(
        native / "llvm/bin/clang-15", 'echo "OHOS (dev) clang version 15.0.4 (a tiny tree: it compiles nothing)"'
    )
    for program in ("llvm/bin/lld", "llvm/bin/llvm-ar", "build-tools/cmake/bin/cmake", "build-tools/cmake/bin/ninja"):
        _write_program(native / program)
    _write_program(toolchains / "hdc", f'echo "Ver: {release.hdc}"')
    (toolchains / "libusb_shared.so").write_bytes(b"no library\n")
    for link, target in {"clang": "clang-15", "clang++": "clang", "ld.lld": "lld", "llvm-ranlib": "llvm-ar"}.items():
        _link(native / "llvm/bin" / link, target)
    for triple in ("arm-linux-ohos", "aarch64-linux-ohos", "x86_64-linux-ohos"):
        for name in ("Scrt1.o", "crt1.o", "crti.o", "crtn.o", "libc.so", "libc.a", "libhilog_ndk.z.so"):
            _write_file(native / "sysroot/usr/lib" / triple / name, b"")
        for name in ("libc++_shared.so", "libc++_static.a", "libunwind.a"):
            _write_file(native / "llvm/lib" / triple / name, b"")
    # Names that differ only in case stand side by side in the Linux archives.
    for name in ("xt_MARK.h", "xt_mark.h"):
        _write_file(native / "sysroot/usr/include/linux/netfilter" / name, f"/* {name} */\n".encode())
    return folder


def synthetic_tree(folder: Path, version: str, size: int, seed: int = 1) -> Path:
    """A tiny tree with about `size` bytes more in ``native``, half of them compressible: for measurements."""
    import random

    tiny_tree(folder, version)
    numbers = random.Random(seed)
    left, number = size, 0
    while left > 0:
        # Sizes spread over four powers of ten, as in the real SDK: many headers, few libraries.
        length = min(left, int(10 ** numbers.uniform(3.5, 7.5)))
        noise = numbers.randbytes(length // 2)
        text = b"/* a line of a header */ int value;\n" * (length // 36 + 1)
        _write_file(folder / f"native/data/{number % 100:02d}/{number:06d}.bin", (noise + text)[:length])
        left -= length
        number += 1
    return folder


def split(archive: Path, piece: int) -> list[Path]:
    """Cuts a file into pieces of `piece` bytes named ``.aa``, ``.ab``, …, which the split mirror has instead."""
    paths: list[Path] = []
    with archive.open("rb") as file:
        while part := file.read(piece):
            first, second = divmod(len(paths), 26)
            path = archive.with_name(f"{archive.name}.{chr(97 + first)}{chr(97 + second)}")
            path.write_bytes(part)
            paths.append(path)
    return paths


def _find_variant(name: str) -> Variant:
    if name not in VARIANTS:
        raise unknown_name("archive variant", name, VARIANTS)
    return VARIANTS[name]


def _or(chosen: T | None, otherwise: T) -> T:
    return otherwise if chosen is None else chosen


def _sidecar(archive: Path) -> Path:
    return archive.with_name(f"{archive.name}.sha256")


def _component_files(tree: Path, component: str, release: SdkRelease, *, wanted: bool) -> dict[str, Path | bytes]:
    """Path in the zip → file. Components and hosts that nobody unpacks have their description only."""
    root = tree / component
    if wanted and root.is_dir():
        return {f"{component}/{path.relative_to(root).as_posix()}": path for path in sorted(_stored(root))}
    text = f'{{\n  "apiVersion": "{release.api_level}",\n  "path": "{component}",\n  "version": "{release.sdk_version}"\n}}\n'
    return {f"{component}/oh-uni-package.json": text.encode()}


def _stored(root: Path) -> Iterator[Path]:
    """What the SDK's own packer stores: files and links to files, but neither folders nor links to folders."""
    for path in root.rglob("*"):
        if path.is_file() or (path.is_symlink() and not path.is_dir()):
            yield path


def _write_zip(path: Path, component: str, files: Mapping[str, Path | bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=FAST) as archive:
        for name, source in files.items():
            entry = zipfile.ZipInfo(name, ZIP_TIME)
            entry.create_system = 3
            entry.compress_type = zipfile.ZIP_DEFLATED
            if isinstance(source, bytes):
                mode, content = 0o644, source
            elif source.is_symlink():
                mode, content = stat.S_IFLNK | 0o644, str(source.readlink()).encode()
            else:
                # Permissions alone: the published zips have no file type on plain files.
                mode, content = 0o644 | (source.stat().st_mode & 0o111), source.read_bytes()
            entry.external_attr = mode << 16
            archive.writestr(entry, content, compresslevel=FAST)


def _write_tar(
    archive: Path,
    variant: Variant,
    prefix: str,
    zips: Mapping[tuple[str, str], Path],
    extra_members: tuple[str, ...],
) -> tuple[str, ...]:
    names: list[str] = []
    with (
        archive.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", compresslevel=FAST, fileobj=file, mtime=TAR_TIME) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for name in extra_members:
            names.append(_add(tar, variant.lead + name, io.BytesIO(b"nothing for an installer\n")))
        for (place, _), path in zips.items():
            if variant.folder_entries and f"{variant.lead}{prefix}{place}" not in names:
                names.append(_add_folder(tar, f"{variant.lead}{prefix}{place}"))
            with path.open("rb") as content:
                names.append(_add(tar, f"{variant.lead}{prefix}{place}/{path.name}", content))
    return tuple(names)


def _add(tar: tarfile.TarFile, name: str, content: io.BytesIO | io.BufferedReader) -> str:
    entry = tarfile.TarInfo(name)
    entry.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    entry.mtime = TAR_TIME
    tar.addfile(entry, content)
    return name


def _add_folder(tar: tarfile.TarFile, name: str) -> str:
    entry = tarfile.TarInfo(name)
    entry.type = tarfile.DIRTYPE
    entry.mode = 0o755
    entry.mtime = TAR_TIME
    tar.addfile(entry)
    return name


def _write_program(path: Path, text: str = "exit 1") -> None:
    _write_file(path, f"#!/bin/sh\n# {path.name} of a tiny tree\n{text}\n".encode())
    path.chmod(0o755)


def _write_file(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _link(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)
