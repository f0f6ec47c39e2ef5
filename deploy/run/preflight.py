"""Whether a board can run what is about to be sent, found out before anything is sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.errors import MissingLibrary, NotEnoughMemory, WrongArch
from core.files import human_bytes
from core.session import Session
from deploy.board.protocol import Board
from deploy.board.survey import Question, Survey
from toolchains.arch import ARCHES, Arch
from toolchains.tuning import TUNING_FILE, read_tunings

if TYPE_CHECKING:
    from native.artifact.artifact import Product
    from native.artifact.elf import ElfInfo

IN_THE_LOADER = tuple(f"lib{name}.so" for name in ("c", "m", "pthread", "dl", "rt", "util", "xnet"))
"""Libraries that musl's loader answers for itself (``ldso/dynlink.c``, the reserved names)."""


@dataclass(frozen=True, kw_only=True)
class Binary:
    """What an ELF file demands of the board it runs on."""

    name: str
    machine: str
    interpreter: str
    needed: tuple[str, ...]


def binary_of_product(product: Product) -> Binary:
    return Binary(
        name=product.name, machine=product.machine, interpreter=product.interpreter, needed=tuple(product.needed)
    )


def binary_of_elf(name: str, elf: ElfInfo) -> Binary:
    return Binary(name=name, machine=elf.machine, interpreter=elf.interpreter, needed=elf.needed)


def question_for(
    binaries: Sequence[Binary], carried: Collection[str], asked: Question, agents: Sequence[str] = ()
) -> Question:
    """`asked`, and what a survey must look for so that `check_binaries` can tell; `carried` names what travels along."""
    wanted = {name for binary in binaries for name in binary.needed}
    return replace(
        asked,
        agents=agents,
        libraries=sorted(wanted - set(carried) - set(IN_THE_LOADER)),
        interpreters=sorted({binary.interpreter for binary in binaries if binary.interpreter}),
    )


def check_binaries(board: Board, survey: Survey, binaries: Sequence[Binary], carried: Collection[str]) -> None:
    """Raises WrongArch or MissingLibrary for the first of `binaries` that the board cannot run, and says what to do."""
    for binary in binaries:
        arch = arch_of(binary)
        if arch.name not in survey.arches:
            raise WrongArch(
                f"{binary.name} is built for {arch.name}, but board {board.serial} ({survey.machine}) runs "
                f"{' and '.join(survey.arches) or 'none of the arches that ohforge knows'}.",
                remedy=f"Build it for the board: --arch {survey.arches[0]}." if survey.arches else None,
            )
        _check_libraries(board, survey, binary, arch, carried)


def check_tuning(board: Board, survey: Survey, arch: str, cpu: str) -> None:
    """Raises WrongArch when the board's CPU lacks instructions that the CPU tuning `cpu` uses (the program would crash)."""
    wanted = read_tunings(TUNING_FILE).get(cpu, {})
    features = survey.cpu_features
    if arch not in wanted or not features:
        return
    if lacking := [word for word in wanted[arch].cpuinfo if word not in features]:
        raise WrongArch(
            f"The program is tuned for {cpu}, but the CPU of board {board.serial} lacks {', '.join(lacking)}.",
            remedy="Build it with --cpu generic, or with a tuning that fits the board's CPU.",
        )


def check_memory(session: Session, board: Board, survey: Survey, size: int, *, warn: bool) -> None:
    """Raises NotEnoughMemory when a model of `size` bytes cannot fit into the board's memory; may warn when it may not.

    The file alone counts: every engine needs more. Swap does not: weights are needed for each step of a computation.
    """
    total, available = survey.memory_bytes, survey.available_bytes
    if 0 < total < size:
        error = NotEnoughMemory(
            f"The model has {human_bytes(size)}, but board {board.serial} has {human_bytes(total)} of memory in all.",
            needed_bytes=size,
            memory_bytes=total,
        )
        if session.settings.require_memory:
            raise error
        session.console.warn(error.message)
    elif warn and 0 < available < size:
        session.console.warn(
            f"the model has {human_bytes(size)}, but only {human_bytes(available)} of memory are available: "
            "it may be read from storage again and again, which is very slow"
        )


def arch_of(binary: Binary) -> Arch:
    """The arch of an ELF machine. Raises WrongArch for one that ohforge does not build for."""
    for arch in ARCHES.values():
        if arch.elf_machine == binary.machine:
            return arch
    raise WrongArch(f"{binary.name} is built for {binary.machine}; ohforge's boards run {', '.join(ARCHES)}.")


def _check_libraries(board: Board, survey: Survey, binary: Binary, arch: Arch, carried: Collection[str]) -> None:
    if binary.interpreter and binary.interpreter not in survey.loaders:
        native = [name for name in survey.arches if name not in survey.static_only]
        raise MissingLibrary(
            f"{binary.name} needs the loader {binary.interpreter}, which board {board.serial} does not have: "
            f"its system is {' and '.join(native) or 'one without any loader'}.",
            remedy="Build a static program (--static)"
            + (f", or build for {native[0]}: --arch {native[0]}." if native else "."),
        )
    there = {name for name, bits in survey.libraries if bits == arch.elf_bits}
    missing = [
        name for name in binary.needed if name not in there and name not in carried and name not in IN_THE_LOADER
    ]
    if missing:
        raise MissingLibrary(
            f"{binary.name} needs {', '.join(missing)}, which is neither sent along nor on board {board.serial} "
            f"(looked for {arch.elf_bits}-bit libraries in the folders of the system)."
        )
