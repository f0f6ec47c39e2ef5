"""What a sandbox is built of, whichever kind it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deploy.emulator.sandbox.binfmt import Registered
from deploy.emulator.sandbox.rootfs import RootFiles
from deploy.emulator.sandbox.tools import Tools


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parts of a sandbox. `mount_point` is an empty folder of this machine; `disk` becomes /data."""

    mount_point: Path
    disk: Path
    disk_bytes: int | None
    """Size of a disk in memory that takes the folder's place; None for the folder."""
    files: RootFiles
    tools: Tools
    libraries: dict[str, Path]
    """Board libraries by arch: a folder whose files are shown in /system/lib or /system/lib64."""
    arches: tuple[str, ...]
    host_name: str
    network: bool
    """Whether programs have this machine's network; else they have one that ends at the board."""
    read_only: tuple[str, ...]
    """Files that no program can change, relative to the root."""
    registered: dict[str, Registered]
    """Emulators of the machine's own binfmt_misc."""
