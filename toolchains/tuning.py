"""CPU tunings: which instructions a build may use, read from ``tuning.yaml``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.data_file import read_data
from core.errors import TuningNotForArch, unknown_name
from toolchains.arch import ARCHES, Arch

TUNING_FILE = Path(__file__).with_name("tuning.yaml")
GENERIC = "generic"


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """One CPU tuning for one arch, in the spelling of each compiler family."""

    name: str
    title: str
    arch: Arch
    zig: str
    """What follows ``-mcpu=`` of zig; empty for a tuning that only the toolchain ohos has."""
    clang: tuple[str, ...]
    """Flags for clang, without the float ABI (which belongs to the toolchain)."""
    soft_float: bool = False
    """True: no floating point instruction (arm32)."""
    cpuinfo: tuple[str, ...] = ()
    """Words that the ``Features`` line of the board's ``/proc/cpuinfo`` must have; empty when nothing is known."""


def find_tuning(name: str, arch: Arch) -> Tuning:
    """The tuning `name` (empty: ``generic``) for `arch`.

    Raises UnknownName with the nearest, TuningNotForArch with those that the arch has, InvalidData for a bad file.
    """
    tunings = read_tunings(TUNING_FILE)
    wanted = name or GENERIC
    if wanted not in tunings:
        raise unknown_name("CPU tuning", wanted, tunings)
    if arch.name not in tunings[wanted]:
        fitting = [known for known, arches in tunings.items() if arch.name in arches]
        raise TuningNotForArch(
            f"The CPU tuning {wanted!r} is not for {arch.name}; {arch.name} has: {', '.join(fitting)}."
        )
    return tunings[wanted][arch.name]


@functools.cache
def read_tunings(path: Path) -> Mapping[str, Mapping[str, Tuning]]:
    """All tunings of a file: name → arch → Tuning. Raises InvalidData that names the entry at fault."""
    return {name: _read_tuning(name, entry) for name, entry in read_data(path, SCHEMA).items()}


def _read_tuning(name: str, entry: Mapping[str, Any]) -> dict[str, Tuning]:
    return {
        arch.name: Tuning(
            name=name,
            title=entry["title"],
            arch=arch,
            zig=entry[arch.name].get("zig", ""),
            clang=tuple(entry[arch.name]["clang"]),
            soft_float=entry[arch.name].get("float") == "soft",
            cpuinfo=tuple(entry[arch.name].get("cpuinfo", ())),
        )
        for arch in ARCHES.values()
        if arch.name in entry
    }


_FLAGS_OF_ARCH = {
    "type": "object",
    "required": ["clang"],
    "anyOf": [{"required": ["zig"]}, {"required": ["float"]}],
    "additionalProperties": False,
    "properties": {
        "zig": {"type": "string", "pattern": "^[a-z][a-z0-9_]*([+-][a-z0-9_]+)*$"},
        "clang": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "pattern": "^-m(arch|cpu|tune|fpu)=[a-z0-9.+-]+$"},
        },
        "float": {"const": "soft"},
        "cpuinfo": {"type": "array", "items": {"type": "string", "pattern": "^[a-z0-9]+$"}},
    },
}
SCHEMA = {
    "type": "object",
    "required": [GENERIC],
    "propertyNames": {"pattern": "^[a-z0-9-]+$"},
    "additionalProperties": {
        "type": "object",
        "required": ["title"],
        "additionalProperties": False,
        "minProperties": 2,
        "properties": {
            "title": {"type": "string", "minLength": 1},
            **dict.fromkeys(ARCHES, _FLAGS_OF_ARCH),
        },
    },
}
