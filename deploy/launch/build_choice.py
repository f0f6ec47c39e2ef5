"""Which build of a program fits a board: for which arch, with which CPU tuning."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import WrongArch
from core.files import write_json
from core.names import file_name_of
from core.session import Session
from deploy.board.profiles import UNKNOWN_BOARD
from deploy.board.protocol import Board
from deploy.board.survey import Question, survey_board
from deploy.launch.request import LaunchRequest
from toolchains.arch import ARCHES, Arch, find_arch
from toolchains.host_toolchain import ToolchainChoice
from toolchains.toolchain import SelectedToolchain, select_toolchain
from toolchains.tuning import GENERIC, TUNING_FILE, read_tunings

if TYPE_CHECKING:
    from native.build.ensure import BuildLook


def choose_build(
    session: Session, board: Board, request: LaunchRequest, recipe: str, products: tuple[str, ...]
) -> BuildLook:
    """Which build of the recipe's products fits the board, and whether it is there. Raises what the choice raises."""
    from native.build.ensure import BuildRequest, look_at_build

    selected = select_toolchain(session, request.choice)
    arch = choose_arch(session, board, request.choice, selected)
    cpu = choose_cpu(session, board, arch, request.choice.cpu, recipe)
    choice = dataclasses.replace(request.choice, arch=arch.name, cpu=cpu)
    build = BuildRequest(target=recipe, choice=choice, jobs=request.jobs, products=products)
    return look_at_build(session, build, selected)


def choose_arch(session: Session, board: Board, choice: ToolchainChoice, selected: SelectedToolchain) -> Arch:
    """The arch to build for: the one asked for, else the best that the board runs; says which, and why.

    A 64-bit ARM kernel under a 32-bit system runs static arm64 programs, which may use dot products; a dynamic
    program needs the loader of the system's own arch. Raises WrongArch when the board does not run what was asked for.
    """
    runs, static_only = known_arches(session, board)
    if choice.arch:
        arch = find_arch(choice.arch)
        if arch.name not in runs:
            raise WrongArch(
                f"Board {board.serial} runs {' and '.join(runs) or 'none of the known arches'}, not {arch.name}.",
                remedy=f"Use --arch {runs[0]}." if runs else None,
            )
        return arch
    if not runs:
        raise WrongArch(f"Board {board.serial} runs none of the arches that ohforge builds for ({', '.join(ARCHES)}).")
    dynamic = [name for name in runs if name not in static_only]
    static = selected.static if choice.static is None else choice.static
    if "arm64" in runs and ("arm64" in dynamic or static):
        name, why = "arm64", "the board's kernel is 64-bit" + ("" if "arm64" in dynamic else " and the program static")
    else:
        name = (dynamic or list(runs))[0]
        why = "what the board's system is built for"
    session.console.chosen("arch", name, why)
    return ARCHES[name]


def choose_cpu(session: Session, board: Board, arch: Arch, asked: str, program: str = "") -> str:
    """The CPU tuning: the one asked for, else the one of the board's profile when the arch has it.

    A generic build of `program` that is there already is used as it is, and that is said: building once more takes
    minutes, and whoever measures names the tuning.
    """
    from native.artifact.artifact import list_artifacts

    if asked:
        return asked
    tuning = board.profile.cpu
    if tuning == GENERIC or arch.name not in read_tunings(TUNING_FILE).get(tuning, {}):
        return ""
    built = (
        {artifact.cpu for artifact in list_artifacts(session.settings.builds, program, arch.name)} if program else ()
    )
    if GENERIC in built and tuning not in built:
        session.console.chosen("CPU tuning", GENERIC, f"built already; --cpu {tuning} would fit the board better")
        return ""
    session.console.chosen("CPU tuning", tuning, f"profile {board.profile.name}")
    return tuning


def known_arches(session: Session, board: Board) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Arches that the board runs, and those of them of which only static programs run.

    From its profile; a board without one is asked once, and the answer is kept until `forget_arches`.
    """
    profile = board.profile
    if profile.name != UNKNOWN_BOARD or board.emulated:
        return profile.arches, profile.static_only
    note = _note_of(session, board)
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        known = json.loads(note.read_text(encoding="utf-8"))
        return tuple(known["arches"]), tuple(known["static_only"])
    survey = survey_board(session, board, Question(facts=False))
    if not session.dry:
        write_json(note, {"arches": survey.arches, "static_only": survey.static_only})
    return survey.arches, survey.static_only


def forget_arches(session: Session, board: Board) -> None:
    """To be called when a program did not fit: the board may have another system by now."""
    _note_of(session, board).unlink(missing_ok=True)


def _note_of(session: Session, board: Board) -> Path:
    return session.settings.cache / "boards" / f"{file_name_of(board.serial)}.json"
