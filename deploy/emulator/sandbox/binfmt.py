"""How the kernel finds the emulator for a program of another CPU: binfmt_misc.

From Linux 6.7 on every user namespace can have a registry of its own; before that there is only the machine's, which
the emulated board can use when somebody has filled it.
"""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from core.errors import HostUnsupported
from deploy.emulator.sandbox import syscalls as sys
from deploy.emulator.sandbox.tools import MARK_AT, Tools
from toolchains.arch import ARCHES

REGISTRY = Path("/proc/sys/fs/binfmt_misc")
FORCE_HOST = "OHFORGE_EMULATOR_BINFMT"
"""Variable: ``host`` makes the board use the machine's registry even where it could have its own."""
_ELF_MACHINES = {"arm32": (1, 0x28), "arm64": (2, 0xB7), "x86_64": (2, 0x3E)}
_MACHINE_AT = 18
_PT_INTERP = 3


@dataclass(frozen=True, kw_only=True)
class Registered:
    """An emulator in the machine's registry. `fixed`: the kernel has it open, so its path need not exist on the board."""

    interpreter: str
    fixed: bool


def read_registered() -> dict[str, Registered]:
    """The emulators of the machine's registry by arch; to be called outside of the sandbox."""
    found = {}
    for entry in REGISTRY.glob("*") if REGISTRY.is_dir() else ():
        if entry.name not in ("register", "status"):
            values = dict(line.partition(" ")[::2] for line in entry.read_text().splitlines())
            arch = _arch_of(values)
            if arch and "enabled" in values:
                fixed = "F" in values.get("flags:", "")
                found[arch] = Registered(interpreter=values["interpreter"], fixed=fixed)
    return found


def _arch_of(values: dict[str, str]) -> str:
    magic = bytes.fromhex(values.get("magic", ""))
    for arch, (bits, machine) in _ELF_MACHINES.items():
        ends = machine.to_bytes(2, "little")
        if magic[:5] == b"\x7fELF" + bytes([bits]) and magic[_MACHINE_AT : _MACHINE_AT + 2] == ends:
            return arch
    return ""


def register_emulators(root: Path, tools: Tools, arches: tuple[str, ...], registered: dict[str, Registered]) -> None:
    """Gives the board under `root` its emulators. Raises HostUnsupported when there is no way to."""
    registry = root / "proc/sys/fs/binfmt_misc"
    try:
        if os.environ.get(FORCE_HOST) == "host":
            raise PermissionError("not wanted")
        sys.mount("binfmt_misc", str(registry), "binfmt_misc")
    except OSError as error:
        _use_machines(root, tools, registered, error)
        return
    _fill(registry / "register", root, tools, arches)


def _use_machines(root: Path, tools: Tools, registered: dict[str, Registered], error: OSError) -> None:
    missing = sorted(set(tools.emulators) - set(registered))
    if missing:
        raise HostUnsupported(
            f"This kernel gives namespaces no binfmt_misc of their own ({error}), and the machine's has no emulator for"
            f" {' and '.join(missing)}.",
            remedy="Register the emulators (sudo systemctl restart systemd-binfmt), or use Linux 6.7 or newer.",
        )
    for arch, entry in registered.items():
        place = root / entry.interpreter.lstrip("/")
        if arch in tools.emulators and not entry.fixed and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(entry.interpreter).resolve(), place)


def _fill(register: Path, root: Path, tools: Tools, arches: tuple[str, ...]) -> None:
    """Later entries are asked first, so the exceptions come after the emulators."""
    for arch in tools.emulators:
        entry = _Magic(*_ELF_MACHINES[arch])
        register.write_bytes(entry.line(f"qemu-{arch}", f"/system/emulator/run-{arch}", "P"))
    for arch in ("arm32", "arm64"):
        loader = ARCHES[arch].loader
        if arch in arches and not (root / loader.lstrip("/")).exists():
            # A dynamic program whose loader is missing: execve answers ENOENT, as the board's kernel does, because
            # the interpreter named here does not exist either. Linkers put PT_INTERP second, behind PT_PHDR, or first.
            for index in (0, 1):
                entry = _Magic(*_ELF_MACHINES[arch])
                entry.segment(index, _PT_INTERP)
                register.write_bytes(entry.line(f"no-loader-{arch}-{index}", loader, ""))
    if platform.machine() == "x86_64":
        entry = _Magic(*_ELF_MACHINES["x86_64"])
        entry.set(MARK_AT, b"\0")
        # An empty file cannot be executed: execve answers ENOEXEC, as for any program of another CPU.
        nothing = root / "system/emulator/no-program"
        nothing.touch(mode=0o755)
        register.write_bytes(entry.line("foreign", "/system/emulator/no-program", ""))


class _Magic:
    """Bytes of a file's start by which binfmt_misc knows it; it looks at the first 128 bytes only."""

    def __init__(self, bits: int, machine: int) -> None:
        self._bits = bits
        self._magic = bytearray(b"\x7fELF" + bytes([bits, 1, 1]))
        self._mask = bytearray(b"\xff" * 7)
        # ET_EXEC and ET_DYN differ in the lowest bit of e_type: 2 and 3.
        self.set(16, b"\x02\x00", b"\xfe\xff")
        self.set(_MACHINE_AT, machine.to_bytes(2, "little"))

    def set(self, at: int, value: bytes, mask: bytes = b"") -> None:
        end = at + len(value)
        self._magic.extend(bytes(max(0, end - len(self._magic))))
        self._mask.extend(bytes(max(0, end - len(self._mask))))
        self._magic[at:end] = value
        self._mask[at:end] = mask or b"\xff" * len(value)

    def segment(self, index: int, kind: int) -> None:
        """The type of a program header, which stand directly behind the file's header."""
        at = 64 + 56 * index if self._bits == 2 else 52 + 32 * index
        self.set(at, kind.to_bytes(4, "little"))

    def line(self, name: str, interpreter: str, flags: str) -> bytes:
        magic, mask = ("".join(f"\\x{byte:02x}" for byte in part) for part in (self._magic, self._mask))
        return f":{name}:M::{magic}:{mask}:{interpreter}:{flags}".encode()
