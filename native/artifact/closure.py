"""The shared libraries of the user's own that a program needs: those that lie beside it, and the SDK's C++ library."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import DamagedProgram, ToolchainError
from native.artifact.elf import inspect_elf

if TYPE_CHECKING:
    from core.session import Session
    from native.artifact.elf import ElfInfo

PLACES = (".", "lib", "../lib")
"""Where builds and archives put the libraries of a program, relative to it."""
CXX_LIBRARY = "libc++_shared.so"
"""The C++ library of ohos-sdk. Boards have another one of their own, which programs must not take in its place."""


def find_libraries(session: Session, program: Path, elf: ElfInfo, given: Collection[Path] = ()) -> list[Path]:
    """What `program` needs of the libraries that can be found here, and what these need, in the order of finding.

    A library of another machine is not meant. What is not found is the board's affair (or missing: see
    `deploy.run.preflight`). `given` are files that travel along anyhow; what they need is looked for as well.
    """
    found: dict[str, Path] = {path.name: path for path in given}
    waiting = [elf, *(info for path in given if (info := _read(path)) is not None)]
    while waiting:
        for name in waiting.pop(0).needed:
            if name in found:
                continue
            for path in _candidates(session, program, name, elf):
                info = _read(path)
                if info is not None and (info.machine, info.bits) == (elf.machine, elf.bits):
                    found[name] = path
                    waiting.append(info)
                    break
    return [path for path in found.values() if path not in given]


def _candidates(session: Session, program: Path, name: str, elf: ElfInfo) -> Iterator[Path]:
    if "/" in name:
        return
    for place in PLACES:
        yield program.parent / place / name
    if name == CXX_LIBRARY:
        yield from _in_sdk(session, elf)


def _in_sdk(session: Session, elf: ElfInfo) -> Iterator[Path]:
    from toolchains.arch import ARCHES
    from toolchains.sdk import find_sdk

    try:
        sdk = find_sdk(session, announce=False)
    except ToolchainError as error:
        session.console.detail(f"no {CXX_LIBRARY} from an SDK: {error.message}")
        return
    if sdk is None:
        return
    for arch in ARCHES.values():
        if (arch.elf_machine, arch.elf_bits) == (elf.machine, elf.bits):
            yield sdk.native / "llvm/lib" / arch.ohos_triple / CXX_LIBRARY


def _read(path: Path) -> ElfInfo | None:
    try:
        return inspect_elf(path)
    except (OSError, DamagedProgram):
        return None
