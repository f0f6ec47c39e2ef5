"""Assembles the stand-in SDK and keeps it in a cache folder that may be lost at any time.

One base tree (compiler, C library, runtimes) takes most of a minute and serves all releases; a release's tree is made
of links to it and the few files that differ.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.deadline import Deadline
from core.files import atomic_folder, sha256_file, sha256_json
from core.locks import hold
from core.process import RealRunner, Runner
from core.session import PROJECT
from core.settings import Settings
from tests.shared.standin_sdk import layout, libraries, runtimes
from tests.shared.standin_sdk.layout import FILES, TARGETS
from tests.shared.standin_sdk.packages import Packages, fetch_packages, unpack_packages
from tests.shared.standin_sdk.releases import SdkRelease, find_release
from toolchains.arch import ARM32, find_arch

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
LOCK_SECONDS = 1800.0
BASE_CODE = ("packages.py", "layout.py", "runtimes.py", "files/emutls.c", "files/__config_site")
RELEASE_CODE = (
    "assemble.py", "libraries.py", "releases.py", "files/ohos.toolchain.cmake.jinja", "files/sdk_native_platforms.cmake",
    "files/hdc.jinja", "files/clang-wrapper.jinja", "files/hilog.c", "files/hilog.h", "files/deviceinfo.c",
    "files/deviceinfo.h",
)  # fmt: skip


def standin_sdk(cache: Path | None = None, release: str = "5.0.0", runner: Runner | None = None) -> Path:
    """The folder that holds ``native`` and ``toolchains`` of a stand-in SDK, assembled when it is not there yet.

    `cache` is where downloads and trees are kept (default: ohforge's cache folder). The tree is shared: do not write
    into it. Raises UnknownName for a release that is not in the table, HostToolMissing, NetworkError or BuildError.
    """
    wanted = find_release(release)
    runner = runner or RealRunner()
    root = _root(cache)
    packages, base = _base(root, runner)
    key = sha256_json([base.name, _code_id(RELEASE_CODE), release, sys.executable, str(PROJECT)])[:16]
    tree = root / f"{release}-{key}"
    with hold(root / "lock", _lock_deadline()):
        if not tree.is_dir():
            _remove_remains(root)
            with atomic_folder(tree) as folder:
                link_tree(base / "native", folder / "native")
                _write_release(folder, wanted, runner)
                _write_json(folder / "standin.json", {"release": release, "packages": _versions(packages)})
    return tree


def runtime_tree(arch: str, cache: Path | None = None, runner: Runner | None = None) -> Path:
    """A root folder with the loader, the C library and ``libc++_shared.so`` of an arch where a board has them.

    It serves as ``qemu-… -L``, and as the source of an emulated board's libraries. Arches: ``arm32``, ``arm64``.
    """
    root = _root(cache)
    _, base = _base(root, runner or RealRunner())
    return base / "runtime" / find_arch(arch).name


def board_libraries(arch: str, cache: Path | None = None, runner: Runner | None = None) -> Path:
    """The flat folder of libraries that an emulated board of that arch has in /system/lib or /system/lib64."""
    place = "system/lib" if find_arch(arch).elf_bits == 32 else "system/lib64"
    return runtime_tree(arch, cache, runner) / place


def _root(cache: Path | None) -> Path:
    return (cache or Settings().cache) / "standin-sdk"


def _lock_deadline() -> Deadline:
    return Deadline.after(LOCK_SECONDS, "the stand-in SDK")


def _base(root: Path, runner: Runner) -> tuple[Packages, Path]:
    with hold(root / "lock", _lock_deadline()):
        packages = fetch_packages(root / "packages", runner)
        base = root / f"base-{sha256_json([packages.id, packages.host, _code_id(BASE_CODE)])[:16]}"
        if not base.is_dir():
            _remove_remains(root)
            with atomic_folder(base) as folder:
                _assemble_base(folder, packages, runner)
                # What is renamed to its final name is only the result.
                shutil.rmtree(folder / "work")
    return packages, base


def _remove_remains(root: Path) -> None:
    """Removes half-made trees: while the lock is ours, no living process works at one."""
    for folder in root.glob(".*"):
        if folder.is_dir():
            shutil.rmtree(folder)


def _code_id(names: tuple[str, ...]) -> str:
    return sha256_json([[name, sha256_file(HERE / name)] for name in names])


def _versions(packages: Packages) -> dict[str, str]:
    return {f"{item.name}:{item.architecture}": item.version for item in packages.items}


def _assemble_base(folder: Path, packages: Packages, runner: Runner) -> None:
    native, inputs = folder / "native", folder / "work/inputs"
    unpack_packages(packages, inputs, runner)
    layout.lay_out_host_tools(native, inputs / "host")
    runtimes.check_host_libraries(native, runner)
    layout.lay_out_kernel_headers(native, inputs)
    layout.lay_out_cxx_headers(native, inputs / "source")
    for target in TARGETS:
        layout.lay_out_sysroot(native, target, inputs)
        layout.lay_out_compiler_runtime(native, target, inputs)
    runtimes.build_runtimes(native, inputs / "source", folder / "work/objects", runner)
    for target in TARGETS:
        layout.lay_out_runtime(folder / "runtime" / target.arch.name, native, target)


def link_tree(source: Path, target: Path) -> None:
    """A copy whose plain files are hard links: a quarter of a gigabyte would be much for each release."""

    def link(file: str, copy: str) -> None:
        if Path(file).is_symlink():
            Path(copy).symlink_to(Path(file).readlink())
        else:
            Path(copy).hardlink_to(file)

    shutil.copytree(source, target, symlinks=True, copy_function=link)


def _write_release(folder: Path, release: SdkRelease, runner: Runner) -> None:
    native, toolchains = folder / "native", folder / "toolchains"
    templates = _templates()
    write_toolchain_file(native, release)
    values = {"hdc": release.hdc, "python": shlex.quote(sys.executable), "project": shlex.quote(str(PROJECT))}
    _write(toolchains / "hdc", templates.get_template("hdc.jinja").render(values), executable=True)
    write_package_json(native, "native", "Native", release)
    write_package_json(toolchains, "toolchains", "Toolchains", release)
    if release.features["clang_wrappers"]:
        _write_clang_wrappers(native, templates)
    libraries.add_ndk_libraries(native, release, runner)
    libraries.make_host_library(native, toolchains / "libusb_shared.so", runner)


def write_toolchain_file(native: Path, release: SdkRelease) -> None:
    """Our own ``ohos.toolchain.cmake`` in the edition of that release, and the file that it includes."""
    template = _templates().get_template("ohos.toolchain.cmake.jinja")
    text = template.render(release.features, version=release.version)
    _write(native / "build/cmake/ohos.toolchain.cmake", text)
    _write(native / "build/cmake/sdk_native_platforms.cmake", (FILES / "sdk_native_platforms.cmake").read_text())


def _write_clang_wrappers(native: Path, templates: Environment) -> None:
    template = templates.get_template("clang-wrapper.jinja")
    for target in TARGETS:
        cpu, flags = ("armv7", " -march=armv7-a") if target.arch is ARM32 else ("aarch64", "")
        for driver in ("clang", "clang++"):
            text = template.render(triple=f"{cpu}-linux-ohos", driver=driver, flags=flags)
            _write(native / f"llvm/bin/{cpu}-unknown-linux-ohos-{driver}", text, executable=True)


def write_package_json(folder: Path, path: str, title: str, release: SdkRelease) -> None:
    """A component's ``oh-uni-package.json``."""
    content: dict[str, Any] = {"apiVersion": str(release.api_level), "displayName": title}
    content["meta"] = {"metaVersion": "3.0.2" if release.full_version else "3.0.0"}
    content["path"] = path
    if release.full_version:
        content["platformVersion"] = release.full_version
    if release.release_type:
        content["releaseType"] = release.release_type
    content["version"] = release.sdk_version
    _write_json(folder / "oh-uni-package.json", content)


def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(FILES), undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True
    )


def _write(path: Path, text: str, *, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755 if executable else 0o644)


def _write_json(path: Path, value: Any) -> None:
    # One key per line: the SDK's CMake file reads the version with a search for a line.
    _write(path, json.dumps(value, indent=2) + "\n")
