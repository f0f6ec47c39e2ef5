"""Whether this machine and this tree can build OpenHarmony: looked at before hours are spent on it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from core.check import Check
from core.data_file import read_data
from core.errors import InvalidData, TreeNotReady
from core.files import human_bytes
from core.process import usable_cores
from native.openharmony.tree import DATA, Component, SourceTree

POINTER_MARK = b"version https://git-lfs.github.com/spec"
POINTER_BYTES = range(100, 200)
"""A git-lfs pointer has 120 to 140 bytes."""
SIDE_EFFECTS_FROM = 12
"""From this API level on build.sh changes settings of npm and ohpm in the user's home folder."""
BYTES_PER_JOB = 2_000_000_000
"""Memory that one compile job may take: clang with OpenHarmony's larger C++ files."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the checks want to know of this machine."""

    kernel: str
    processor: str
    system: str
    shell: str
    """The program behind /bin/sh."""
    memory: int
    free_disk: int
    path: str

    @classmethod
    def examine(cls, folder: Path) -> Machine:
        """This machine, and the free room of the file system of `folder`."""
        return cls(
            kernel=platform.system(),
            processor=platform.machine(),
            system=_system_name(),
            shell=Path("/bin/sh").resolve().name,
            memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            free_disk=shutil.disk_usage(folder).free,
            path=os.environ.get("PATH", os.defpath),
        )


def check_prerequisites(
    tree: SourceTree, component: Component | None = None, machine: Machine | None = None
) -> list[Check]:
    """Everything that is known to break a build, on the machine first, then in the tree."""
    machine = machine or Machine.examine(tree.root)
    table = load_table()
    return [
        _check_host(machine, table),
        _check_shell(machine),
        _check_memory(machine, table),
        _check_disk(machine, table),
        *_check_programs(machine, table),
        _check_prebuilts(tree),
        *([] if component is None else _check_sources(tree, component)),
        *_check_side_effects(tree),
    ]


def require_prerequisites(checks: list[Check]) -> None:
    """Raises TreeNotReady when something is missing, with all that is and what to type."""
    missing = [check for check in checks if check.state == "missing"]
    if missing:
        raise TreeNotReady(
            "; ".join(f"{check.name}: {check.found}" for check in missing) + ".",
            remedy=" ; ".join(check.remedy for check in missing),
            missing=[check.name for check in missing],
        )


def safe_jobs(machine: Machine, jobs: int) -> int:
    """`jobs`, or when it is 0 as many as processors and memory carry."""
    return jobs or max(1, min(usable_cores(), machine.memory // BYTES_PER_JOB))


@cache
def load_table() -> Mapping[str, Any]:
    """``prerequisites.yaml``; raises InvalidData when it has another form."""
    file = DATA / "prerequisites.yaml"
    table = read_data(file)
    if set(table) != {"systems", "memory", "disk", "least_disk", "programs"}:
        raise InvalidData(f"{file} must have systems, memory, disk, least_disk and programs.")
    for row in table["programs"]:
        if set(row) - {"needed"} != {"program", "package"}:
            raise InvalidData(f"{file}: an entry of programs must have program and package, not {row}.")
    return dict(table)


def _check_host(machine: Machine, table: Mapping[str, Any]) -> Check:
    what = f"{machine.system or machine.kernel} on {machine.processor}"
    remedy = f"Use {' or '.join(table['systems'])} on x86_64, or OpenHarmony's docker image."
    if machine.kernel != "Linux":
        return Check(name="system", state="missing", found=what, remedy=remedy)
    usual = machine.processor == "x86_64" and any(machine.system.startswith(name) for name in table["systems"])
    return Check(
        name="system",
        state="ok" if usual else "doubtful",
        found=what,
        remedy="" if usual else f"{remedy} Others may work.",
    )


def _check_shell(machine: Machine) -> Check:
    if machine.shell == "bash":
        return Check(name="/bin/sh", state="ok", found="bash")
    return Check(
        name="/bin/sh",
        state="doubtful",
        found=f"{machine.shell}, while some scripts of the build need bash",
        remedy="sudo dpkg-reconfigure dash, and answer no",
    )


def _check_memory(machine: Machine, table: Mapping[str, Any]) -> Check:
    enough = machine.memory >= table["memory"] * 0.9  # A machine sold with 16 GB shows a little less.
    return Check(
        name="memory",
        state="ok" if enough else "doubtful",
        found=human_bytes(machine.memory),
        remedy=""
        if enough
        else f"{human_bytes(table['memory'])} are recommended; build with --jobs {safe_jobs(machine, 0)}",
    )


def _check_disk(machine: Machine, table: Mapping[str, Any]) -> Check:
    state = "ok" if machine.free_disk >= table["disk"] else "doubtful"
    if machine.free_disk < table["least_disk"]:
        state = "missing"
    return Check(
        name="disk space",
        state=state,
        found=f"{human_bytes(machine.free_disk)} free",
        remedy=""
        if state == "ok"
        else f"a whole product needs {human_bytes(table['disk'])}; remove out/ of old products",
    )


def _check_programs(machine: Machine, table: Mapping[str, Any]) -> Iterator[Check]:
    lacking = [row for row in table["programs"] if shutil.which(row["program"], path=machine.path) is None]
    for state, wanted in (("missing", True), ("doubtful", False)):
        rows = [row for row in lacking if bool(row.get("needed")) is wanted]
        if rows:
            yield Check(
                name="programs",
                state=state,
                found=f"without {', '.join(row['program'] for row in rows)}",
                remedy=f"sudo apt-get install {' '.join(dict.fromkeys(row['package'] for row in rows))}",
            )
    if not lacking:
        yield Check(name="programs", state="ok", found="all that are usually needed")


def _check_prebuilts(tree: SourceTree) -> Check:
    prebuilts = tree.root / "prebuilts"
    wanted = {
        "Python": "python/linux-*/*/bin/python3",
        "gn": "build-tools/linux-*/bin/gn",
        "ninja": "build-tools/linux-*/bin/ninja",
    }
    lacking = [name for name, pattern in wanted.items() if not any(prebuilts.glob(pattern))]
    if not lacking:
        return Check(name="prebuilts", state="ok", found="Python, gn and ninja are there")
    return Check(
        name="prebuilts",
        state="missing",
        found=f"the tree's own {', '.join(lacking)} were not downloaded",
        remedy=f"cd {tree.root} && bash build/prebuilts_download.sh",
    )


def _check_sources(tree: SourceTree, component: Component) -> Iterator[Check]:
    folder = component.folder
    if folder is None:
        return
    if not folder.is_dir() or not any(folder.iterdir()):
        yield Check(
            name="sources",
            state="missing",
            found=f"{folder} is not there, or empty",
            remedy=f"cd {tree.root} && repo sync -c {folder.relative_to(tree.root)}",
        )
        return
    pointers = [path for path in _files(folder) if _is_pointer(path)]
    if pointers:
        names = ", ".join(str(path.relative_to(tree.root)) for path in pointers[:3])
        yield Check(
            name="git-lfs",
            state="missing",
            found=f"{names} {'is a pointer' if len(pointers) == 1 else 'are pointers'} of git-lfs, not the file",
            remedy=f"cd {folder} && git lfs install && git lfs pull",
        )
    else:
        yield Check(name="sources", state="ok", found=str(folder.relative_to(tree.root)))


def _check_side_effects(tree: SourceTree) -> Iterator[Check]:
    text = tree.script.read_text(errors="replace")
    if tree.api_level >= SIDE_EFFECTS_FROM or "npm config set" in text:
        yield Check(
            name="home folder",
            state="doubtful",
            found="this release's build.sh sets npm's registry, turns its strict-ssl off, and downloads packages of ohpm",
            remedy="keep a copy of ~/.npmrc, or build as another user or in a container",
        )


def _files(folder: Path) -> Iterator[Path]:
    """The files of a component, without the history of git and without following links."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in (".git", "source", "node_modules")]
        yield from (Path(place) / name for name in names)


def _is_pointer(path: Path) -> bool:
    if path.is_symlink() or not path.is_file() or path.stat().st_size not in POINTER_BYTES:
        return False
    with path.open("rb") as file:
        return file.read(len(POINTER_MARK)) == POINTER_MARK


def _system_name() -> str:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return ""
    return f"{release.get('NAME', '')} {release.get('VERSION_ID', '')}".strip()
