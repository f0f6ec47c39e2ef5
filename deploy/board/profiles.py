"""Kinds of board, read from ``deploy/board/profiles/*.yaml``: what is known before a board is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.data_file import Keys, read_data, wrong_entry
from core.errors import unknown_name
from deploy.board.protocol import Profile

FOLDER = Path(__file__).parent / "profiles"
UNKNOWN_BOARD = "generic"
"""The profile that says nothing about a board, so that nothing of it can be wrong."""


@dataclass(frozen=True, kw_only=True)
class Emulation:
    """What the emulated board shows of itself. Sizes in KiB or MiB as named, frequencies in kHz, temperatures in m°C."""

    host_name: str
    machine: str
    kernel: str
    kernel_build: str
    boot_line: str
    cpu_info: dict[str, Any]
    memory_kib: dict[str, int]
    disk_mib: int
    qemu_cpu: dict[str, str]
    frequencies_khz: tuple[int, ...]
    governors: tuple[str, ...]
    governor: str
    thermal_zones: dict[str, int]
    environment: dict[str, str]
    missing_tools: tuple[str, ...]
    parameters: dict[str, str]


def list_profiles() -> list[str]:
    """Names of all profiles."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_profile(name: str, *, emulated: bool = False, folder: Path = FOLDER) -> Profile:
    """The profile of that name. Raises UnknownName with the nearest, InvalidData when the file has another form."""
    return _profile(name, _read(name, folder), emulated)


def load_emulation(name: str, *, folder: Path = FOLDER) -> tuple[Profile, Emulation]:
    """The profile of that name and what the emulated board shows of it. Raises as `load_profile`."""
    value = _read(name, folder)
    shown = value["emulation"]
    lists = {key: tuple(shown[key]) for key in ("frequencies_khz", "governors", "missing_tools")}
    return _profile(name, value, emulated=True), Emulation(**{**shown, **lists})


def runtime_libraries(name: str, api_level: int, *, folder: Path = FOLDER) -> tuple[str, ...]:
    """Libraries for inference that such a board brings along with an OpenHarmony of that API level. Raises as `load_profile`."""
    entries = _read(name, folder)["runtime_libraries"]
    fitting = [entry for entry in entries if entry["from_api"] <= api_level]
    return tuple(max(fitting, key=lambda entry: int(entry["from_api"]))["names"]) if fitting else ()


def runtime_names(name: str, *, folder: Path = FOLDER) -> tuple[str, ...]:
    """Libraries for inference that such a board may bring along, of all API levels. Raises as `load_profile`."""
    entries = _read(name, folder)["runtime_libraries"]
    return tuple(dict.fromkeys(library for entry in entries for library in entry["names"]))


def read_system(name: str, *, folder: Path = FOLDER) -> tuple[str, int]:
    """Name of the system of such a board, and the least API level for which the profile holds. Raises as `load_profile`."""
    system = _read(name, folder)["system"]
    return system["name"], system["least_api"]


def _profile(name: str, value: dict[str, Any], emulated: bool) -> Profile:
    return Profile(
        name=name,
        title=value["title"],
        soc=value["soc"],
        cpu=value["cpu"],
        cores=value["cores"],
        memory_bytes=value["memory_mib"] * 1024 * 1024,
        arches=tuple(value["arches"]),
        static_only=tuple(value["static_only"]),
        device_dir=value.get("device_dir", "/data/local/tmp"),
        memory_rate=value.get("rates", {}).get("memory", 0.0) * 1e6,
        storage_rate=value.get("rates", {}).get("storage", 0.0) * 1e6,
        emulated=emulated,
    )


def check_profile(name: str, *, folder: Path = FOLDER) -> Path:
    """The file of the profile of that name, unread. Raises UnknownName with the nearest."""
    path = folder / f"{name}.yaml"
    if not name or "/" in name or not path.is_file():
        raise unknown_name("board profile", name, [path.stem for path in folder.glob("*.yaml")])
    return path


def _read(name: str, folder: Path) -> dict[str, Any]:
    path = check_profile(name, folder=folder)
    value = read_data(path, FOLDER / "schema.json")
    for keys, sentence in _find_contradictions(value):
        raise wrong_entry(path, keys, sentence)
    return dict(value)


def _find_contradictions(value: dict[str, Any]) -> Iterator[tuple[Keys, str]]:
    if unknown := set(value["static_only"]) - set(value["arches"]):
        yield ("static_only",), f"static_only names {', '.join(sorted(unknown))}, which is not among arches."
    shown = value["emulation"]
    if shown["governor"] not in shown["governors"]:
        sentence = f"emulation.governor {shown['governor']!r} is not among emulation.governors."
        yield ("emulation", "governor"), sentence
    if shown["memory_kib"]["available"] > shown["memory_kib"]["total"]:
        yield ("emulation", "memory_kib", "available"), "emulation.memory_kib has more available than total."
