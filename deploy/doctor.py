"""What of all that ohforge uses is on this machine, what is missing, and what to type."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.deadline import Deadline
from core.errors import OhforgeError
from core.files import human_bytes
from core.session import Session

SDK_BYTES = 8_000_000_000
"""Room that the largest SDK takes while it is installed, with some to spare."""
USB_VENDORS = {"2207": "Rockchip", "12d1": "Huawei"}
"""USB vendor numbers (usb.ids) of boards and devices that hdc talks to."""
USB_DEVICES = Path("/sys/bus/usb/devices")


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at. `state`: ``ok``, ``missing`` (something does not work) or ``optional`` (not there)."""

    name: str
    state: str
    found: str
    remedy: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def examine_host(session: Session) -> list[Check]:
    """Looks at everything; nothing is installed or changed. The emulated board is started to see that it works."""
    return [
        _check_python(),
        *_check_packages(),
        _check_compiler_cache(),
        _check_emulated_board(session),
        _check_sdk(session),
        *_check_boards(session),
        *_check_usb(USB_DEVICES),
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


def _check_emulated_board(session: Session) -> Check:
    def examine() -> str:
        from deploy.choose import DEFAULT_PROFILE, EMULATED, stand_in
        from deploy.hdc import HdcBoard
        from deploy.profiles import load_profile

        profile = load_profile(DEFAULT_PROFILE, emulated=True)
        board = HdcBoard(session, stand_in(session), f"{EMULATED}{DEFAULT_PROFILE}", profile)
        answer = board.shell("uname -srm", deadline=Deadline.after(60, "the emulated board"))
        return f"{DEFAULT_PROFILE} answers: {answer.text.strip()}"

    return _check("emulated board", examine)


def _check_sdk(session: Session) -> Check:
    def examine() -> str:
        from toolchains.sdk import find_sdk

        sdk = find_sdk(session, announce=False)
        return f"{sdk.title} in {sdk.root} ({sdk.found_by})" if sdk else ""

    return _check("ohos-sdk", examine, absent="none; programs are compiled with zig", remedy="invoke sdk.fetch latest")


def _check_boards(session: Session) -> Iterator[Check]:
    from deploy.choose import find_hdc, list_targets

    hdc = None

    def examine_hdc() -> str:
        nonlocal hdc
        hdc = find_hdc(session)
        if hdc is None:
            return ""
        version = hdc.call(session, ("-v",), deadline=Deadline.after(20, "hdc -v"))
        return f"{hdc.argv[0]}, {version.text.strip()}"

    yield _check("hdc", examine_hdc, absent="none", remedy="invoke sdk.fetch latest, or set ohforge.hdc")
    if hdc is not None:
        found = hdc

        def examine_boards() -> str:
            return ", ".join(f"{target.key} {target.state}" for target in list_targets(session, found))

        yield _check("real boards", examine_boards, absent="none is connected")


def _check_usb(devices: Path) -> Iterator[Check]:
    """Boards on the USB bus that this user may not open: hdc then lists nothing, without a word."""
    for device in sorted(devices.glob("*")) if devices.is_dir() else []:
        vendor = _read(device / "idVendor")
        if vendor not in USB_VENDORS:
            continue
        node = Path(f"/dev/bus/usb/{int(_read(device / 'busnum')):03}/{int(_read(device / 'devnum')):03}")
        name = f"{USB_VENDORS[vendor]} {_read(device / 'product')}".strip()
        if os.access(node, os.R_OK | os.W_OK):
            yield Check(name="usb device", state="ok", found=f"{name} at {node}")
        else:
            rule = f'SUBSYSTEM=="usb", ATTR{{idVendor}}=="{vendor}", MODE="0666"'
            yield Check(
                name="usb device",
                state="missing",
                found=f"{name} at {node} may not be opened by this user",
                remedy=f"echo '{rule}' | sudo tee /etc/udev/rules.d/70-hdc.rules && sudo udevadm control --reload && "
                "unplug the board and plug it in again",
            )


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
    except OhforgeError as error:
        return Check(name=name, state="missing", found=error.message, remedy=error.remedy)
    if found:
        return Check(name=name, state="ok", found=found)
    return Check(name=name, state="optional", found=absent, remedy=remedy)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
