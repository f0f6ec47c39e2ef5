"""What of all that ohforge uses is on this machine, what is missing, and what to type."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from core.check import Check
from core.deadline import Deadline
from core.errors import Failure
from core.files import human_bytes
from core.session import Session
from deploy.board.profiles import UNKNOWN_BOARD, load_profile
from deploy.hdc.board import HdcBoard
from deploy.hdc.choose import find_hdc
from deploy.hdc.emulated import DEFAULT_PROFILE, EMULATED, stand_in
from deploy.hdc.program import Hdc
from deploy.hdc.targets import Target, list_targets
from deploy.hdc.version import read_version
from deploy.hdc.windows import is_wsl
from toolchains.catalogue import read_catalogue

SDK_BYTES = 8_000_000_000
"""Room that the largest SDK takes while it is installed, with some to spare."""
USB_VENDORS = {"2207": "Rockchip", "12d1": "Huawei"}
"""USB vendor numbers (usb.ids) of boards and devices that hdc talks to."""
USB_DEVICES = Path("/sys/bus/usb/devices")
USB_NODES = Path("/dev/bus/usb")
UDEV_RULES = (Path("/etc/udev/rules.d"), Path("/run/udev/rules.d"), Path("/usr/lib/udev/rules.d"))
RULE_FILE = "/etc/udev/rules.d/70-hdc.rules"


def examine_host(session: Session) -> list[Check]:
    """Looks at everything; nothing is installed or changed. The emulated board is started to see that it works."""
    emulation = [_check_emulators, _check_emulated_board] if platform.system() == "Linux" else []
    return [
        _check_system(platform.system(), platform.release(), platform.machine()),
        _check_python(),
        *_check_packages(),
        _check_compiler_cache(),
        *(check(session) for check in emulation),
        _check_sdk(session),
        *_check_boards(session),
        *_check_usb(USB_DEVICES, USB_NODES),
        *_check_usb_rule(UDEV_RULES),
        _check_disk(session),
    ]


def show_checks(session: Session, checks: list[Check]) -> None:
    """The list for people: what was found, then what to do."""
    marks = {"ok": "ok", "missing": "MISSING", "optional": "-"}
    session.console.table(["", "WHAT", "FOUND"], [[marks[c.state], c.name, c.found] for c in checks])
    for check in checks:
        if check.remedy:
            session.console.info(f"{check.name}: {check.remedy}")
    lacking = [check.name for check in checks if check.state == "missing"]
    session.console.info(f"missing: {', '.join(lacking)}" if lacking else "Everything that is needed is here.")


def _check_system(system: str, release: str, machine: str) -> Check:
    """What kind of computer this is, and what differs where it is no Linux of its own."""
    found = f"{system} {release}, {machine}"
    if system == "Darwin":
        return Check(
            name="system",
            state="optional",
            found=f"macOS (Darwin {release}), {machine}: no emulated board, no builds in OpenHarmony's tree, no facts of this "
            "computer from /proc in records, no udev rules, and nothing of ohforge was measured on it",
            remedy="boards by hdc and SSH, and builds with zig or the SDK for macOS are meant to work; for the rest use a Linux "
            "machine, for builds with `ohforge build --on`",
        )
    if system == "Linux" and is_wsl():
        return Check(
            name="system",
            state="ok",
            found=f"{found}, in Windows (WSL): USB boards are Windows' own",
            remedy="for them set ohforge.hdc to the path of a Windows hdc.exe (docs/boards.md), or hand them over with usbipd",
        )
    return Check(name="system", state="ok", found=found)


def _check_python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check(name="python", state="ok", found=f"{version} in {sys.prefix}")


def _check_packages() -> Iterator[Check]:
    for package in ("cmake", "ninja", "ziglang"):
        try:
            yield Check(name=package, state="ok", found=importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            yield Check(name=package, state="missing", found="not installed", remedy="make setup")


def _check_compiler_cache() -> Check:
    for name in ("ccache", "sccache"):
        if path := shutil.which(name):
            return Check(name="compiler cache", state="ok", found=path)
    return Check(
        name="compiler cache",
        state="optional",
        found="none",
        remedy="sudo apt install ccache (builds again in seconds)",
    )


def _check_emulators(session: Session) -> Check:
    def examine() -> str:
        from deploy.emulator.sandbox.tools import find_tools

        tools = find_tools(("arm64", "arm32"))
        said = []
        for path in tools.emulators.values():
            result = session.runner.run([path, "--version"], deadline=Deadline.after(20, f"the version of {path.name}"))
            said.append(f"{path.name} {re.sub('^.*version ', '', result.text.strip().partition(chr(10))[0])}")
        return f"{', '.join(said) or 'this CPU runs arm64'}; {tools.shell}, {tools.toybox}"

    return _check("qemu and tools", examine)


def _check_emulated_board(session: Session) -> Check:
    def examine() -> str:
        profile = load_profile(DEFAULT_PROFILE, emulated=True)
        board = HdcBoard(session, stand_in(session), f"{EMULATED}{DEFAULT_PROFILE}", lambda: profile)
        answer = board.shell("uname -srm", deadline=Deadline.after(60, "the emulated board"))
        return f"{DEFAULT_PROFILE} answers: {answer.text.strip()}"

    return _check("emulated board", examine)


def _check_sdk(session: Session) -> Check:
    def examine() -> str:
        from toolchains.sdk import find_sdk

        sdk = find_sdk(session, announce=False)
        return f"{sdk.title} in {sdk.root} ({sdk.found_by})" if sdk else ""

    return _check("ohos-sdk", examine, absent="none; programs are compiled with zig", remedy="ohforge sdk.fetch latest")


def _check_boards(session: Session) -> Iterator[Check]:
    hdc = None

    def examine_hdc() -> str:
        nonlocal hdc
        hdc = find_hdc(session)
        if hdc is None:
            return ""
        windows = f", a Windows program: files go by way of {hdc.bridge.temporary}" if hdc.bridge is not None else ""
        return f"{hdc.argv[0]}, {read_version(session, hdc) or 'which says no version'}{windows}"

    yield _check("hdc", examine_hdc, absent="none", remedy="ohforge sdk.fetch latest, or set ohforge.hdc")
    if hdc is not None:
        found = hdc
        targets: list[Target] = []

        def examine_boards() -> str:
            targets.extend(list_targets(session, found))
            return ", ".join(f"{target.key} {target.state}" for target in targets)

        yield _check("real boards", examine_boards, absent="none is connected")
        for target in targets:
            if target.state == "Connected":
                yield _compare_versions(session, found, target.key)


def _compare_versions(session: Session, hdc: Hdc, key: str) -> Check:
    """Whether hdc is the one that belongs to the board's OpenHarmony: a newer one may get empty answers from it.

    The board is asked for its API level, for which the catalogue knows hdc. Its parameter ``const.hdc.version`` would
    be no help: it did not follow the releases.
    """
    name = f"hdc and {key}"
    board = HdcBoard(session, hdc, key, lambda: load_profile(UNKNOWN_BOARD))
    try:
        said = board.shell("param get const.ohos.apiversion", deadline=Deadline.after(30, f"board {key}")).text.strip()
        own = read_version(session, hdc)
    except Failure as error:
        return Check(name=name, state="missing", found=error.message, remedy=error.remedy)
    fitting = dict.fromkeys(r.hdc for r in read_catalogue().releases if str(r.api_level) == said)
    if not fitting:
        return Check(name=name, state="optional", found=f"hdc {own}; the board's API level {said or '-'} is not known")
    of_board = f"the board's OpenHarmony (API {said}) came with {' or '.join(fitting)}"
    if own in fitting:
        return Check(name=name, state="ok", found=f"hdc {own}, as {of_board}")
    remedy = (
        f"if the board answers nothing or odd things, use its own: ohforge sdk.fetch api{said} --components toolchains"
    )
    return Check(name=name, state="optional", found=f"hdc is {own}, but {of_board}", remedy=remedy)


def _check_usb(devices: Path, nodes: Path) -> Iterator[Check]:
    """Boards on the USB bus that this user may not open: hdc then lists nothing, without a word."""
    for device in sorted(devices.glob("*")) if devices.is_dir() else []:
        vendor = _read(device / "idVendor")
        if vendor not in USB_VENDORS:
            continue
        node = nodes / f"{int(_read(device / 'busnum')):03}" / f"{int(_read(device / 'devnum')):03}"
        name = f"{USB_VENDORS[vendor]} {_read(device / 'product')}".strip()
        if os.access(node, os.R_OK | os.W_OK):
            yield Check(name="usb device", state="ok", found=f"{name} at {node}")
        else:
            yield Check(
                name="usb device",
                state="missing",
                found=f"{name} at {node} may not be opened by this user",
                remedy=f"{_rule_command(vendor)} && sudo udevadm control --reload && unplug the board and plug it in again",
            )


def _check_usb_rule(folders: Sequence[Path]) -> Iterator[Check]:
    """Whether a user may open boards that are plugged in later. On Linux only; root may always."""
    if not sys.platform.startswith("linux") or os.geteuid() == 0:
        return
    files = [file for folder in folders for file in sorted(folder.glob("*.rules"))]
    for file in files:
        text = _read(file).lower()
        if any(vendor in text for vendor in USB_VENDORS):
            yield Check(name="usb rule", state="ok", found=str(file))
            return
    yield Check(
        name="usb rule",
        state="optional",
        found="none: a board on USB may not be opened by this user",
        remedy=f"{_rule_command('2207')} && sudo udevadm control --reload (for Rockchip boards such as the DAYU200)",
    )


def _rule_command(vendor: str) -> str:
    rule = f'SUBSYSTEM=="usb", ATTR{{idVendor}}=="{vendor}", MODE="0666"'
    return f"echo '{rule}' | sudo tee {RULE_FILE}"


def _check_disk(session: Session) -> Check:
    folder = session.settings.data
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    enough = free >= SDK_BYTES
    return Check(
        name="disk space",
        state="ok" if enough else "optional",
        found=f"{human_bytes(free)} free for {session.settings.data}",
        remedy="" if enough else f"an SDK needs up to {human_bytes(SDK_BYTES)}; OHFORGE_DATA_DIR moves it elsewhere",
    )


def _check(name: str, examine: Callable[[], str], *, absent: str = "", remedy: str = "") -> Check:
    """`examine` says what it found, nothing when it is not there; an error of ours is what is missing."""
    try:
        found = examine()
    except Failure as error:
        return Check(name=name, state="missing", found=error.message, remedy=error.remedy)
    if found:
        return Check(name=name, state="ok", found=found)
    return Check(name=name, state="optional", found=absent, remedy=remedy)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
