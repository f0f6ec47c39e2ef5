"""An ohos-sdk on disk: found in any layout in which people have it, described, and refused when it is damaged.

The layouts, and what the environment names mean to which tool, come from the public build scripts of projects that
are built for OpenHarmony; ``docs/toolchains.md`` lists both.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import SdkIncomplete, SdkNotFound, ToolchainError
from core.names import checked_name

if TYPE_CHECKING:
    from core.session import Session

TOOLCHAIN_FILE = "build/cmake/ohos.toolchain.cmake"
DESCRIPTION = "oh-uni-package.json"
LONGEST_DESCRIPTION = 1_000_000
MARKER = "installed.json"
"""Written last by ``sdk.fetch``: a folder without it is a half installed one."""

ENVIRONMENT_NAMES = (
    "OHOS_SDK_NATIVE",
    "OHOS_SDK_NATIVE_DIR",
    "OHOS_NDK",
    "OHOS_NDK_HOME",
    "OHOS_BASE_SDK_HOME",
    "OHOS_SDK_HOME",
    "OHOS_SDK_ROOT",
    "OHOS_SDK",
    "HARMONY_HOME",
    "DEVECO_SDK_HOME",
)
"""Variables that other tools use; each means another folder to each tool, so all layouts are tried for each."""


@dataclass(frozen=True, kw_only=True)
class Sdk:
    """An SDK that is whole, as far as can be seen without running it."""

    root: Path
    """The folder of the components: ``native`` and, where installed, ``toolchains`` lie in it."""
    native: Path
    toolchains: Path | None
    version: str
    """The packages' own dotted version, for example ``5.0.0.71``."""
    api_level: int
    full_version: str
    """The version as newer SDKs show it (``26.0.0``); empty otherwise."""
    release_type: str
    """``Release``, ``Beta1`` …; empty when the package does not say."""
    host: str
    """What its programs run on: ``linux-x64``, ``linux-arm64``, ``windows-x64``, ``macos-x64``, ``macos-arm64``."""
    clang: str
    """Version of its compiler as its folders name it; empty when they do not."""
    layout: str
    """Which of the known layouts matched."""
    found_by: str
    """How it was found: a flag, a setting, an environment name, or that it is installed."""

    @property
    def title(self) -> str:
        kind = "" if self.release_type in ("", "Release") else f" {self.release_type}"
        clang = f", clang {self.clang}" if self.clang else ""
        return f"ohos-sdk {self.version}{kind} (API {self.api_level}{clang})"


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a component's ``oh-uni-package.json`` says, its version and level looked at."""

    told: dict[str, object]
    version: str
    api_level: int


# which SDK ---------------------------------------------------------------------------------------


def find_sdk(session: Session, path: str = "", *, announce: bool = True) -> Sdk | None:
    """The SDK that is meant, or None when none is named or installed.

    Looked for in this order: `path` (a folder, or the version of an installed SDK), the setting ``ohforge.sdk``
    (likewise), the newest installed by ``sdk.fetch``, and the environment names that other tools use. `announce`: say
    which one it is and how it was found. Raises SdkNotFound for a folder that was named and has none, SdkIncomplete.
    """
    sdk = _named(session, path, "--sdk") or _named(session, session.settings.sdk, "ohforge.sdk")
    sdk = sdk or next(iter(list_installed(session)), None) or _from_environment(session)
    if sdk is not None and announce:
        session.console.chosen("sdk", f"{sdk.title} in {sdk.root}", f"{sdk.found_by}; layout: {sdk.layout}")
    return sdk


def require_sdk(session: Session, path: str = "") -> Sdk:
    """As `find_sdk`, but raises SdkNotFound when there is none."""
    sdk = find_sdk(session, path)
    if sdk is None:
        raise SdkNotFound(
            f"No ohos-sdk is named or installed: nothing in {session.settings.data / 'sdk'}, and none of "
            f"{', '.join(ENVIRONMENT_NAMES)} names one."
        )
    return sdk


def list_installed(session: Session) -> list[Sdk]:
    """The SDKs that ``sdk.fetch`` has installed with their compiler, newest first."""
    found = []
    for folder in _installed_folders(session):
        if (folder / "native").is_dir():
            found.append(replace(describe_sdk(folder), found_by="installed"))
    return sorted(found, key=lambda sdk: _number(sdk.version), reverse=True)


def find_hdc(source: Session | Sdk) -> Path | None:
    """The ``hdc`` of an SDK, or of the one that a session would use; None when it has none."""
    if isinstance(source, Sdk):
        return _hdc_in(source.toolchains)
    try:
        sdk = find_sdk(source, announce=False)
    except ToolchainError as error:
        # A damaged compiler is no reason to refuse the board tools; who builds will be told.
        source.console.detail(f"no hdc from an SDK: {error.message}")
        sdk = None
    found = _hdc_in(sdk.toolchains) if sdk else None
    return found or next(filter(None, (_hdc_in(folder / "toolchains") for folder in _installed_folders(source))), None)


def _named(session: Session, text: str, found_by: str) -> Sdk | None:
    if not text:
        return None
    folder = Path(text).expanduser()
    if not folder.exists() and re.fullmatch(r"[\w.+-]+", text):
        for sdk in list_installed(session):
            if text == sdk.version or re.fullmatch(
                rf"{re.escape(text)}(-(linux|windows|mac|darwin).*)?", sdk.root.name
            ):
                return replace(sdk, found_by=found_by)
    return replace(describe_sdk(folder), found_by=found_by)


def _from_environment(session: Session) -> Sdk | None:
    for name in ENVIRONMENT_NAMES:
        value = os.environ.get(name)
        if not value:
            continue
        try:
            return replace(describe_sdk(Path(value)), found_by=name)
        except SdkNotFound:
            session.console.warn(f"{name} names {value}, where no SDK is; passed over.")
    return None


def _installed_folders(session: Session) -> list[Path]:
    return sorted(path.parent for path in (session.settings.data / "sdk").glob(f"[!.]*/{MARKER}"))


def _hdc_in(toolchains: Path | None) -> Path | None:
    if toolchains is None:
        return None
    # hdc_std was its name up to 3.1.
    candidates = (toolchains / name for name in ("hdc", "hdc.exe", "hdc_std", "hdc_std.exe"))
    return next((path for path in candidates if path.is_file()), None)


# what lies in a folder ---------------------------------------------------------------------------


def describe_sdk(path: Path) -> Sdk:
    """The SDK in `path`, whatever its layout: the native folder itself, a folder above it, DevEco's, …

    Among folders that are named after levels the highest is taken. Raises SdkNotFound with the places that were looked
    at, SdkIncomplete with what is missing and why that usually is.
    """
    path = path.expanduser().absolute()
    for layout, native in _candidates(path):
        if _looks_native(native):
            return _describe(native, layout)
    raise _nothing_in(path)


def _candidates(path: Path) -> Iterator[tuple[str, Path]]:
    """The known layouts, in the order in which they are tried."""
    system = {"Windows": "windows", "Darwin": "darwin"}.get(platform.system(), "linux")
    yield "native folder", path
    yield "folder of components", path / "native"
    for folder in _api_folders(path):
        yield f"folder of API levels, {folder.name}", folder / "native"
    yield "unpacked release archive", path / system / "native"
    yield "unpacked release archive", path / "ohos-sdk" / system / "native"
    yield "DevEco or command line tools", path / "sdk/default/openharmony/native"
    yield "sdk folder of DevEco or command line tools", path / "default/openharmony/native"
    yield "macOS application", path / "Contents/sdk/default/openharmony/native"


def _api_folders(path: Path) -> list[Path]:
    if not path.is_dir():
        return []
    folders = [folder for folder in path.iterdir() if re.fullmatch(r"\d+(\.\d+)*", folder.name) and folder.is_dir()]
    return sorted(folders, key=lambda folder: _number(folder.name), reverse=True)


def _number(version: str) -> tuple[int, ...]:
    """A version for comparing: 26.0.0 is more than 23."""
    return tuple(int(part) for part in re.findall(r"\d+", version)) or (0,)


def _looks_native(folder: Path) -> bool:
    return (folder / TOOLCHAIN_FILE).is_file() or (folder / "llvm/bin").is_dir()


def _nothing_in(path: Path) -> SdkNotFound:
    if not path.exists():
        return SdkNotFound(f"{path} does not exist, so there is no ohos-sdk in it.")
    packed = next(iter(sorted(path.glob("**/native-*-*.zip"))), None) if path.is_dir() else None
    if packed is not None:
        return SdkNotFound(
            f"{path} holds an unpacked release, but its packages are still packed ({packed.name}).",
            remedy="Install from the release archive with `ohforge sdk.fetch --archive FILE`, or unzip the package.",
        )
    looked = ", ".join(
        native.relative_to(path).as_posix() for _, native in _candidates(path) if native.is_relative_to(path)
    )
    return SdkNotFound(f"No ohos-sdk is in {path}: {TOOLCHAIN_FILE} is below none of {looked}.")


def _describe(native: Path, layout: str) -> Sdk:
    described = read_description(native)
    _check_files(native)
    toolchains = native.parent / "toolchains"
    return Sdk(
        root=native.parent,
        native=native,
        toolchains=toolchains if toolchains.is_dir() else None,
        version=described.version,
        api_level=described.api_level,
        full_version=str(described.told.get("platformVersion", "")),
        release_type=str(described.told.get("releaseType", "")),
        host=_host_of(native),
        clang=_clang_version(native),
        layout=layout,
        found_by="path",
    )


def read_description(folder: Path) -> Description:
    """What the component in `folder` says of itself. Raises SdkIncomplete, HostileArchive for a version that is none."""
    import json

    file = folder / DESCRIPTION
    try:
        if file.stat().st_size > LONGEST_DESCRIPTION:
            raise ValueError(f"more than {LONGEST_DESCRIPTION} bytes")
        told = json.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SdkIncomplete(f"The SDK in {folder} lacks {DESCRIPTION}, which its CMake file reads.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise SdkIncomplete(f"{file} cannot be read, or is not JSON: {error}.") from error
    if not isinstance(told, dict) or told.get("path", folder.name) != folder.name:
        raise SdkIncomplete(f"{file} does not describe the component {folder.name}: {told!r:.100}.")
    api = re.fullmatch(r"([1-9]\d{0,5})(\.\d{1,6}){0,3}", str(told.get("apiVersion", "")), re.ASCII)
    if not told.get("version") or api is None:
        raise SdkIncomplete(f"{file} lacks the version or the API level.")
    version = checked_name(told["version"], f"The version in {file}")
    if not version[0].isdigit():
        raise SdkIncomplete(f"{file} has the version {version}, which does not begin with a number.")
    return Description(told=told, version=version, api_level=int(api[1]))


def _clang_version(native: Path) -> str:
    folders = [path.name for path in (native / "llvm/lib/clang").glob("[0-9]*") if path.is_dir()]
    return max(folders, key=_number, default="")


# is it whole -------------------------------------------------------------------------------------

PROGRAMS = ("clang", "clang++", "ld.lld", "llvm-ar", "llvm-ranlib")
LOST_LINK = re.compile(rb"[\w.+/-]{0,64}\s?")
"""All that is in a link that was unpacked as a file: the name of its target."""


def _check_files(native: Path) -> None:
    for name in (TOOLCHAIN_FILE, "build/cmake/sdk_native_platforms.cmake"):
        if not (native / name).is_file():
            raise SdkIncomplete(f"The SDK in {native} lacks {name}.")
    if (native / "llvm/bin/clang.exe").is_file():
        return
    for name in PROGRAMS:
        fault = _fault_of(native / "llvm/bin" / name)
        if fault:
            raise SdkIncomplete(f"The SDK in {native} is damaged: llvm/bin/{name} {fault}.")


def _fault_of(program: Path) -> str:
    """What is wrong with a program of the SDK, or an empty text."""
    if program.is_symlink() and not program.exists():
        return f"is a link to {program.readlink()}, which is missing"
    if not program.is_file():
        return "is missing"
    with program.open("rb") as file:
        start = file.read(80)
    if LOST_LINK.fullmatch(start):
        return f"is a text ({start.decode()!r}) and not a program: the archive's links were lost in unpacking"
    if not os.access(program, os.X_OK):
        return "may not be executed: the archive's mode bits were lost in unpacking"
    return ""


ELF_MACHINES = {62: "x64", 183: "arm64"}


def _host_of(native: Path) -> str:
    """What the SDK's programs run on, from the first bytes of its clang."""
    if (native / "llvm/bin/clang.exe").is_file():
        return "windows-x64"
    with (native / "llvm/bin/clang").open("rb") as file:
        start = file.read(20)
    if start.startswith(b"\x7fELF"):
        return f"linux-{ELF_MACHINES.get(int.from_bytes(start[18:20], 'little'), 'unknown')}"
    if start.startswith(b"\xcf\xfa\xed\xfe"):
        return "macos-arm64" if start[4:8] == b"\x0c\x00\x00\x01" else "macos-x64"
    return this_host()


def this_host() -> str:
    """The machine that ohforge runs on, in the SDK's words."""
    system = {"Windows": "windows", "Darwin": "macos"}.get(platform.system(), "linux")
    machine = "arm64" if platform.machine().lower() in ("aarch64", "arm64") else "x64"
    return f"{system}-{machine}"
