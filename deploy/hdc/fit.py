"""Whether a board is what its profile says, and which profile would fit."""

from __future__ import annotations

import re
from typing import Any

from core.files import human_bytes
from core.session import Session
from deploy.board.profiles import (
    UNKNOWN_BOARD,
    list_profiles,
    load_emulation,
    read_system,
    runtime_libraries,
    runtime_names,
)
from deploy.board.protocol import Board, Profile
from deploy.board.survey import Question, Survey, survey_board
from deploy.lease.lease import LeasePlace, find_holder

LEAST_MEMORY, MOST_MEMORY = 0.8, 1.05
"""Share of the profile's memory that may be seen: the kernel keeps some of it for itself."""


def describe_board(session: Session, board: Board) -> dict[str, Any]:
    """What a board is, for ``board.info``; ``differs`` lists where the profile says otherwise, ``fits`` better ones."""
    profile = board.profile
    survey = survey_board(session, board, Question(libraries=library_question(profile)))
    holder = find_holder(LeasePlace.of_board(session, board))
    # An emulated board has no libraries of the system: reference runtimes take their place.
    differences = find_differences(profile, survey, libraries=not board.emulated)
    return {
        "serial": board.serial,
        "profile": profile.name,
        "title": profile.title,
        "emulated": board.emulated,
        "lease": holder.as_json() if holder is not None else None,
        **survey.as_json(),
        "api_level": read_api_level(survey),
        "runtime_libraries": sorted({name for name, _ in survey.libraries}),
        "differs": differences,
        "fits": find_fitting(survey),
    }


def find_differences(profile: Profile, survey: Survey, *, libraries: bool = True) -> list[str]:
    """Sentences about what was measured and the profile says otherwise; `libraries`: the board was asked for them."""
    if profile.name == UNKNOWN_BOARD and not profile.emulated:
        return []
    found = [*_compare_abi(profile, survey), *_compare_cpu(profile, survey), *_compare_system(profile, survey)]
    if not LEAST_MEMORY <= survey.memory_bytes / max(1, profile.memory_bytes) <= MOST_MEMORY:
        found.append(f"{human_bytes(survey.memory_bytes)} memory; the profile says {human_bytes(profile.memory_bytes)}")
    if libraries:
        found += _compare_libraries(profile, survey)
    return found


def find_fitting(survey: Survey) -> list[str]:
    """Names of the profiles from which nothing that was measured differs."""
    loaded = {name: load_emulation(name)[0] for name in list_profiles() if name != UNKNOWN_BOARD}
    return [name for name, profile in loaded.items() if not find_differences(profile, survey, libraries=False)]


def library_question(profile: Profile) -> tuple[str, ...]:
    """Names of the libraries for inference that such a board may have, whatever its API level."""
    return runtime_names(profile.name)


def read_api_level(survey: Survey) -> int | None:
    """The API level that the board names; None when it names none."""
    text = survey.parameters.get("const.ohos.apiversion", "")
    return int(text) if text.isascii() and text.isdigit() else None


def _compare_abi(profile: Profile, survey: Survey) -> list[str]:
    found = []
    told = survey.loaders or "const.product.cpu.abilist" in survey.parameters
    if set(profile.arches) - set(survey.arches):
        found.append(
            f"runs {', '.join(survey.arches) or 'nothing known'}; the profile says {', '.join(profile.arches)}"
        )
    elif told and survey.arches[0] != profile.arches[0]:
        found.append(f"its system is {survey.arches[0]}; the profile says {profile.arches[0]}")
    if survey.loaders and set(survey.static_only) != set(profile.static_only):
        here, said = (", ".join(sorted(names)) or "none" for names in (survey.static_only, profile.static_only))
        found.append(f"arches of which only static programs run: {here}; the profile says {said}")
    return found


def _compare_cpu(profile: Profile, survey: Survey) -> list[str]:
    found = []
    if survey.cores and survey.cores != profile.cores:
        found.append(f"{survey.cores} cores; the profile says {profile.cores}")
    parts = sorted(set(re.findall(r"^CPU part\s*:\s*(\S+)", survey.cpu, re.MULTILINE)))
    said = load_emulation(profile.name)[1].cpu_info["part"]
    if parts and parts != [said]:
        found.append(f"CPU part {', '.join(parts)}; the profile says {said} ({profile.cpu})")
    return found


def _compare_system(profile: Profile, survey: Survey) -> list[str]:
    found = []
    name, least = read_system(profile.name)
    shown = survey.parameters.get("const.ohos.fullname", "")
    if shown and not shown.lower().startswith(name.lower()):
        found.append(f"its system is {shown}; the profile says {name}")
    level = read_api_level(survey)
    if level is not None and level < least:
        found.append(f"API level {level}; the profile knows the system from {least} on")
    return found


def _compare_libraries(profile: Profile, survey: Survey) -> list[str]:
    level = read_api_level(survey)
    if level is None:
        return []
    here = {name for name, _ in survey.libraries}
    missing = [name for name in runtime_libraries(profile.name, level) if name not in here]
    return [f"API level {level} without {', '.join(missing)}, which the profile names"] if missing else []
