"""What `doctor` makes of a machine: each thing there, not there, or in the way."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from invoke import Collection

from commands.host import doctor
from commands.program import OhforgeProgram
from core.session import Session
from core.settings import defaults
from core.testing import FakeRunner
from deploy import doctor as subject
from deploy.doctor import Check
from deploy.emulator.sandbox import tools
from deploy.hdc.program import Hdc
from tests.support.hdc_answers import answered
from tests.support.wsl import make_wsl

KEY = "7001005458323933328a"


@pytest.fixture
def hdc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An hdc that the fake runner answers for."""
    path = tmp_path / "hdc"
    path.write_text("")
    path.chmod(0o755)
    monkeypatch.setenv("OHFORGE_HDC", str(path))
    return path


def with_board(session: Session, hdc: Path, version: bytes, level: bytes, state: str = "Connected") -> Session:
    runner = FakeRunner(
        answers=[
            ((str(hdc), "-v"), b"Ver: " + version + b"\n"),
            ((str(hdc), "list"), f"{KEY}\t\tUSB\t{state}\tlocalhost\thdc\n".encode()),
            ((str(hdc), "-t", KEY, "shell"), answered(level + b"\n")),
        ]
    )
    return dataclasses.replace(session, runner=runner)


def checks_of_boards(session: Session) -> dict[str, Check]:
    return {check.name: check for check in subject._check_boards(session)}


@pytest.mark.parametrize(("version", "level"), [(b"3.1.0b", b"12"), (b"3.2.0f", b"26"), (b"1.2.0a", b"9")])
def test_an_hdc_of_the_boards_own_release_is_fine(session: Session, hdc: Path, version: bytes, level: bytes) -> None:
    found = checks_of_boards(with_board(session, hdc, version, level))
    assert (found["hdc"].state, found["real boards"].found) == ("ok", f"{KEY} Connected")
    assert found[f"hdc and {KEY}"].state == "ok"


def test_an_hdc_of_another_release_is_told_with_the_one_to_fetch(session: Session, hdc: Path) -> None:
    check = checks_of_boards(with_board(session, hdc, b"3.2.0f", b"12"))[f"hdc and {KEY}"]
    assert check.state == "optional"
    assert check.found == "hdc is 3.2.0f, but the board's OpenHarmony (API 12) came with 3.1.0b"
    assert "ohforge sdk.fetch api12 --components toolchains" in check.remedy


def test_a_board_whose_level_is_not_known_is_not_guessed_at(session: Session, hdc: Path) -> None:
    check = checks_of_boards(with_board(session, hdc, b"3.2.0f", b"get param failed"))[f"hdc and {KEY}"]
    assert (check.state, "is not known" in check.found) == ("optional", True)


def test_a_board_that_is_not_usable_is_shown_and_not_asked(session: Session, hdc: Path) -> None:
    found = checks_of_boards(with_board(session, hdc, b"3.2.0f", b"12", "Unauthorized"))
    assert found["real boards"].found == f"{KEY} Unauthorized"
    assert f"hdc and {KEY}" not in found


def test_an_hdc_that_was_named_and_is_not_there_is_missing(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_HDC", "/nowhere/hdc")
    [check] = subject._check_boards(session)
    assert (check.name, check.state) == ("hdc", "missing")
    assert "/nowhere/hdc" in check.found
    assert check.remedy


def test_no_hdc_at_all_is_no_fault(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    [check] = subject._check_boards(session)
    assert (check.state, check.found) == ("optional", "none")


def test_what_differs_on_macos_and_in_wsl_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "is_wsl", lambda: False)
    linux = subject._check_system("Linux", "6.1.0-18-amd64", "x86_64")
    assert (linux.state, linux.found, linux.remedy) == ("ok", "Linux 6.1.0-18-amd64, x86_64", "")
    mac = subject._check_system("Darwin", "24.1.0", "arm64")
    assert (mac.state, "no emulated board" in mac.found, "build --on" in mac.remedy) == ("optional", True, True)
    monkeypatch.setattr(subject, "is_wsl", lambda: True)
    windows = subject._check_system("Linux", "5.15.167.4-microsoft-standard-WSL2", "x86_64")
    assert (windows.state, "WSL" in windows.found, "hdc.exe" in windows.remedy) == ("ok", True, True)


def test_an_emulated_board_is_not_missed_where_there_can_be_none(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setenv("PATH", "")
    names = [check.name for check in subject.examine_host(session)]
    assert "system" in names
    assert not {"qemu and tools", "emulated board"} & set(names)


def test_a_windows_hdc_is_told_with_the_folder_by_which_its_files_go(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Hdc(argv=("/bin/sh", "-c", "echo Ver: 3.1.0e"), title="version")
    wsl = make_wsl(tmp_path, answers, monkeypatch)
    monkeypatch.setenv("OHFORGE_HDC", str(wsl.hdc))
    check = next(subject._check_boards(session))
    assert (check.state, check.found) == (
        "ok",
        f"{wsl.hdc}, 3.1.0e, a Windows program: files go by way of {wsl.temporary}",
    )


def plug_in(folder: Path, vendor: str, product: str = "rk3xxx") -> tuple[Path, Path]:
    """A device as Linux shows it, and the file through which it is opened."""
    device, node = folder / "devices/1-2", folder / "nodes/001/007"
    device.mkdir(parents=True)
    node.parent.mkdir(parents=True)
    node.touch()
    for name, text in {"idVendor": vendor, "product": product, "busnum": "1", "devnum": "7"}.items():
        (device / name).write_text(f"{text}\n")
    return folder / "devices", folder / "nodes"


def test_a_board_on_usb_that_may_be_opened_is_shown(tmp_path: Path) -> None:
    [check] = subject._check_usb(*plug_in(tmp_path, "2207"))
    assert (check.state, check.found) == ("ok", f"Rockchip rk3xxx at {tmp_path}/nodes/001/007")


def test_a_board_on_usb_that_may_not_be_opened_needs_a_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    [check] = subject._check_usb(*plug_in(tmp_path, "2207"))
    assert (check.state, "may not be opened by this user" in check.found) == ("missing", True)
    assert 'ATTR{idVendor}=="2207", MODE="0666"' in check.remedy
    assert "/etc/udev/rules.d/" in check.remedy


def test_other_devices_and_a_machine_without_usb_are_passed_over(tmp_path: Path) -> None:
    assert list(subject._check_usb(*plug_in(tmp_path, "046d", "Mouse"))) == []
    assert list(subject._check_usb(tmp_path / "nowhere", tmp_path)) == []


def test_a_rule_for_boards_is_found_or_proposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    [lacking] = subject._check_usb_rule([tmp_path, tmp_path / "nowhere"])
    assert (lacking.state, "udevadm control --reload" in lacking.remedy) == ("optional", True)
    (tmp_path / "51-boards.rules").write_text(
        'SUBSYSTEM=="usb", ATTR{idVendor}=="2207", MODE="0660", GROUP="plugdev"\n'
    )
    [there] = subject._check_usb_rule([tmp_path])
    assert (there.state, there.found) == ("ok", str(tmp_path / "51-boards.rules"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert list(subject._check_usb_rule([tmp_path])) == []


def test_too_little_room_for_an_sdk_is_told(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10**10, 9 * 10**9, 10**9))
    check = subject._check_disk(session)
    assert check.state == "optional"
    assert check.found.startswith("1.0 GB free")
    assert "OHFORGE_DATA_DIR" in check.remedy
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10**11, 0, 10**11))
    assert (subject._check_disk(session).state, subject._check_disk(session).remedy) == ("ok", "")


def test_missing_packages_and_programs_name_what_installs_them(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", none)
    packages = list(subject._check_packages())
    assert {(check.name, check.state, check.remedy) for check in packages} == {
        (name, "missing", "make setup") for name in ("cmake", "ninja", "ziglang")
    }
    monkeypatch.setattr(tools, "_SEARCH", str(tmp_path))
    check = subject._check_emulators(session)
    assert (check.state, "sudo apt install" in check.remedy) == ("missing", True)


def call_doctor(monkeypatch: pytest.MonkeyPatch, *checks: Check) -> int:
    monkeypatch.setattr(subject, "examine_host", lambda session: list(checks))
    namespace = Collection(doctor)
    namespace.configure({"ohforge": defaults()})
    with pytest.raises(SystemExit) as end:
        OhforgeProgram(namespace=namespace).run(["ohforge", "doctor", "--json"])
        raise SystemExit(0)
    return int(end.value.code or 0)


def test_the_exit_status_tells_whether_something_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = Check(name="cmake", state="ok", found="4.0.3")
    absent = Check(name="hdc", state="optional", found="none", remedy="ohforge sdk.fetch")
    bad = Check(name="ninja", state="missing", found="not installed", remedy="make setup")
    assert call_doctor(monkeypatch, good, absent) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["missing"] == []
    assert "Everything that is needed is here." in printed.err
    assert call_doctor(monkeypatch, good, bad) == 77
    printed = capsys.readouterr()
    value = json.loads(printed.out)
    assert (value["ok"], value["missing"]) == (False, ["ninja"])
    assert value["checks"][1] == {"name": "ninja", "state": "missing", "found": "not installed", "remedy": "make setup"}
    assert "ninja: make setup" in printed.err
