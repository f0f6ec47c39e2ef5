"""Programs of this machine that the emulated board is made of: its shell, its tools and the CPU emulators.

OpenHarmony images use mksh as /bin/sh and toybox as nearly all other commands, so the same programs serve here.
They are copied to the board with one unused byte of their ELF header changed: by that mark the sandbox tells the
board's own commands, which are programs of this machine, from programs of this machine that somebody pushes,
which no board would run.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from core.errors import HostToolMissing

MARK_AT = 15
"""Last byte of ``e_ident``: padding, which neither the kernel nor the loader looks at in a program."""
MARK = 0x4F
PACKAGES = {
    "mksh": "mksh",
    "toybox": "toybox",
    "qemu-aarch64-static": "qemu-user-static",
    "qemu-arm-static": "qemu-user-static",
}
EXTRA_APPLETS = ("dd", "gzip")
"""In every OpenHarmony image, but left out of Debian's toybox: busybox gives them when it is installed."""


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The board's programs, the libraries that they load, and the names of the commands."""

    shell: Path
    toybox: Path
    busybox: Path | None
    emulators: dict[str, Path]
    """By arch; an arch that this machine's own CPU runs has none."""
    libraries: dict[str, Path]
    """Path on the board → file of this machine."""
    applets: tuple[str, ...]


def find_tools(arches: tuple[str, ...]) -> Tools:
    """Finds the programs. Raises HostToolMissing naming the packages."""
    shell, toybox = _find("mksh"), _find("toybox")
    emulators = {}
    for arch, name in (("arm64", "qemu-aarch64-static"), ("arm32", "qemu-arm-static")):
        native = arch == "arm64" and platform.machine() == "aarch64"
        if arch in arches and not native:
            emulators[arch] = _find(name)
    busybox = shutil.which("busybox", path=_SEARCH)
    applets = subprocess.run([toybox], capture_output=True, text=True, check=True, timeout=20).stdout.split()
    return Tools(
        shell=shell,
        toybox=toybox,
        busybox=Path(busybox) if busybox else None,
        emulators=emulators,
        libraries=_libraries(shell) | _libraries(toybox) | (_libraries(Path(busybox)) if busybox else {}),
        applets=tuple(name for name in applets if name != "toybox"),
    )


_SEARCH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/bin", "/bin", "/usr/local/bin"])


def _find(name: str) -> Path:
    found = shutil.which(name, path=_SEARCH)
    if found is None:
        raise HostToolMissing(
            f"The emulated board needs the program {name!r}, which is not on this machine.",
            remedy=f"Install it, for example with: sudo apt install {' '.join(dict.fromkeys(PACKAGES.values()))}",
        )
    return Path(found)


def _libraries(program: Path) -> dict[str, Path]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False, timeout=20).stdout
    found = {}
    for line in listed.splitlines():
        path = line.split("=>")[-1].split("(")[0].strip()
        if path.startswith("/"):
            found[path] = Path(path).resolve()
    return found


def copy_marked(program: Path, place: Path) -> None:
    """Copies a program of this machine to the board."""
    content = bytearray(program.read_bytes())
    content[MARK_AT] = MARK
    place.write_bytes(content)
    place.chmod(0o755)
