"""What the stand-in SDK is made from: Debian packages and the C++ runtimes' sources, fetched as any user may.

apt runs with its own state, lists and cache in a temporary folder, for three architectures at once. It reads the
machine's own sources, keys and proxies, so a local mirror is honoured, and it never sees the machine's dpkg database.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import urllib.parse
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from core.deadline import Deadline
from core.errors import HostToolMissing, IntegrityError, NetworkError
from core.files import sha256_file, sha256_json, write_json
from core.process import Runner

LLVM = "19"
HOST_PACKAGES = (
    f"clang-{LLVM}",
    f"libclang-cpp{LLVM}",
    f"libllvm{LLVM}",
    f"libclang-common-{LLVM}-dev",
    f"lld-{LLVM}",
    f"llvm-{LLVM}",
)
TARGET_PACKAGES = {
    "arm64": ("musl", "musl-dev", "linux-libc-dev", f"libclang-rt-{LLVM}-dev"),
    # armel, not armhf: only the soft calling convention can be mixed with softfp objects.
    "armel": ("musl", "musl-dev", "linux-libc-dev", "libgcc-12-dev"),
}
SOURCES_WHEEL = "ziglang==0.14.1"
SOURCES_SHA256 = "6eb9d4d759b292c83810dbee2e9e8e3fbfbf01d864e6e9811bae711fd74e1c2f"
SOURCES_PLATFORM = "manylinux2010_x86_64"
SOURCES_MEMBER = re.compile(r"ziglang/lib/((?:libcxx|libcxxabi|libunwind)/.+)")
FETCH_SECONDS = 900.0
TOOL_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class Package:
    """One fetched file; `architecture` is Debian's word, or ``source`` for the runtimes' sources."""

    name: str
    version: str
    architecture: str
    sha256: str

    def path(self, folder: Path) -> Path:
        return folder / self.sha256


@dataclass(frozen=True, kw_only=True)
class Packages:
    """All inputs, lying in `folder` under their hashes."""

    folder: Path
    host: str
    """Debian's name of this machine's architecture."""
    items: tuple[Package, ...]

    @property
    def id(self) -> str:
        return sha256_json([asdict(item) for item in self.items])


def fetch_packages(folder: Path, runner: Runner) -> Packages:
    """Fetches all inputs into `folder`, or finds them there: then no network is used.

    Raises HostToolMissing without apt, dpkg or pip, NetworkError when a package cannot be had, IntegrityError
    when the sources are not the pinned ones.
    """
    host = _tool(runner, ["dpkg", "--print-architecture"]).strip()
    wanted = [*(f"{name}:{host}" for name in HOST_PACKAGES)]
    wanted += [f"{name}:{arch}" for arch, names in TARGET_PACKAGES.items() for name in names]
    listing = folder / f"{sha256_json([wanted, SOURCES_SHA256])}.json"
    known = _read_listing(listing, folder, host)
    if known is not None:
        return known
    folder.mkdir(parents=True, exist_ok=True)
    items = (*_fetch_debian(wanted, folder, host, runner), _fetch_sources(folder, runner))
    write_json(listing, [asdict(item) for item in items])
    return Packages(folder=folder, host=host, items=items)


def unpack_packages(packages: Packages, target: Path, runner: Runner) -> None:
    """Unpacks into ``target/host``, ``target/arm64``, ``target/armel`` and the sources into ``target/source``.

    Raises IntegrityError when a file in the cache has changed since it was fetched.
    """
    for item in packages.items:
        path = item.path(packages.folder)
        if sha256_file(path) != item.sha256:
            path.unlink()
            raise IntegrityError(f"The cached package {item.name} {item.version} ({path}) has changed on disk.")
        place = target / ("host" if item.architecture == packages.host else item.architecture)
        place.mkdir(parents=True, exist_ok=True)
        if item.architecture == "source":
            _unpack_sources(path, place)
        else:
            _tool(runner, ["dpkg", "-x", path, place])


def _read_listing(listing: Path, folder: Path, host: str) -> Packages | None:
    try:
        items = tuple(Package(**item) for item in json.loads(listing.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    if not all(item.path(folder).is_file() for item in items):
        return None
    return Packages(folder=folder, host=host, items=items)


def _fetch_debian(wanted: Sequence[str], folder: Path, host: str, runner: Runner) -> list[Package]:
    with _private_apt(host) as (configuration, work):
        apt = ["apt-get", "-c", str(configuration), "-q"]
        _tool(runner, [*apt, "update"], FETCH_SECONDS)
        listed = _tool(runner, [*apt, "--print-uris", "download", *wanted])
        _tool(runner, [*apt, "download", *wanted], FETCH_SECONDS, cwd=work)
        items = []
        for file, sha256 in re.findall(r"^'[^']+' (\S+) \d+ SHA256:([0-9a-f]{64})$", listed, re.MULTILINE):
            name, version, architecture = urllib.parse.unquote(file.removesuffix(".deb")).split("_")
            items.append(Package(name=name, version=version, architecture=architecture, sha256=sha256))
            _keep(work / file, sha256, folder)
    if len(items) != len(wanted):
        found = {f"{item.name}:{item.architecture}" for item in items}
        raise NetworkError(f"apt did not name a file and hash for: {', '.join(sorted(set(wanted) - found))}.")
    return items


@contextmanager
def _private_apt(host: str) -> Iterator[tuple[Path, Path]]:
    """An apt configuration whose every folder is temporary, and a folder to download into."""
    with tempfile.TemporaryDirectory(prefix="standin-apt-") as name:
        root = Path(name)
        for part in ("lists/partial", "cache/archives/partial", "work"):
            (root / part).mkdir(parents=True)
        (root / "status").touch()
        architectures = " ".join(f'"{arch}";' for arch in dict.fromkeys((host, *TARGET_PACKAGES)))
        # The hooks that are cleared would empty the machine's own apt cache; the sandbox user may not enter `root`.
        (root / "apt.conf").write_text(
            f"""#clear APT::Architectures;
APT::Architectures {{ {architectures} }};
Dir::State "{root}";
Dir::State::lists "{root}/lists";
Dir::State::status "{root}/status";
Dir::Cache "{root}/cache";
APT::Sandbox::User "";
Acquire::Languages "none";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
"""
        )
        yield root / "apt.conf", root / "work"


def _fetch_sources(folder: Path, runner: Runner) -> Package:
    with tempfile.TemporaryDirectory(prefix="standin-pip-") as work:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        _tool(runner, [*command, "--platform", SOURCES_PLATFORM, "--dest", work, SOURCES_WHEEL], FETCH_SECONDS)
        wheel = next(Path(work).glob("*.whl"))
        _keep(wheel, SOURCES_SHA256, folder)
    name, version = SOURCES_WHEEL.split("==")
    return Package(name=name, version=version, architecture="source", sha256=SOURCES_SHA256)


def _keep(file: Path, sha256: str, folder: Path) -> None:
    found = sha256_file(file)
    if found != sha256:
        raise IntegrityError(f"{file.name} has the SHA-256 {found}, but {sha256} is expected.")
    # Copied beside its final place first: the temporary folder may be on another file system.
    partial = folder / f".{sha256}.part"
    shutil.move(file, partial)
    partial.replace(folder / sha256)


def _unpack_sources(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            match = SOURCES_MEMBER.fullmatch(member.filename)
            if match and not member.is_dir():
                path = target / match[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(member))


def _tool(runner: Runner, argv: Sequence[str | Path], seconds: float = TOOL_SECONDS, cwd: Path | None = None) -> str:
    """Runs a package tool and gives its output, or says which one failed, with its last words."""
    try:
        result = runner.run(argv, deadline=Deadline.after(seconds, f"`{argv[0]}`"), cwd=cwd, env={"LC_ALL": "C"})
    except HostToolMissing as error:
        raise HostToolMissing(
            error.message, remedy="The stand-in SDK is assembled from Debian packages: use a Debian 12 machine."
        ) from error
    if not result.ok:
        raise NetworkError(f"`{argv[0]}` could not fetch an input of the stand-in SDK:\n{result.last_lines()}")
    return result.text
