"""Where a profile does not fit a board: every fact that is compared, changed alone."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from deploy.board.profiles import load_profile
from deploy.board.survey import Survey
from deploy.hdc.fit import find_differences, find_fitting, library_question, read_api_level

CORE = "processor\t: {}\nFeatures\t: fp asimd\nCPU part\t: 0xd05\n\n"
DAYU200 = Survey(
    machine="aarch64",
    kernel="5.10.184",
    hash_tool="sha256sum",
    writable=True,
    free_bytes=10**9,
    storage_bytes=10**10,
    loaders=frozenset({"/lib/ld-musl-arm.so.1"}),
    libraries=frozenset(
        (name, 32) for name in ("libmindspore_lite_ndk.so", "libneural_network_core.so", "libneural_network_runtime.so")
    ),
    memory={"MemTotal": 1982468 * 1024},
    cpu="".join(CORE.format(number) for number in range(4)),
    parameters={"const.ohos.fullname": "OpenHarmony-5.0.3.135", "const.ohos.apiversion": "15"},
)
"""A DAYU200 with the 32-bit image, as it describes itself."""


def test_a_board_that_is_what_its_profile_says_has_no_differences() -> None:
    assert find_differences(load_profile("dayu200"), DAYU200) == []
    assert find_fitting(DAYU200) == ["dayu200"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"loaders": frozenset({"/lib/ld-musl-aarch64.so.1"})}, "its system is arm64; the profile says arm32"),
        ({"machine": "armv7l"}, "runs arm32; the profile says arm32, arm64"),
        ({"machine": "riscv64"}, "runs nothing known"),
        ({"memory": {"MemTotal": 4 * 1024**3}}, "4.3 GB memory; the profile says 2.1 GB"),
        ({"memory": {}}, "0 B memory"),
        ({"cpu": DAYU200.cpu + CORE.format(4)}, "5 cores; the profile says 4"),
        ({"cpu": DAYU200.cpu.replace("0xd05", "0xd03")}, "CPU part 0xd03; the profile says 0xd05"),
        ({"parameters": {**DAYU200.parameters, "const.ohos.fullname": "HarmonyOS-4.2"}}, "its system is HarmonyOS-4.2"),
        ({"parameters": {**DAYU200.parameters, "const.ohos.apiversion": "8"}}, "API level 8; .* from 9 on"),
        (
            {"parameters": {**DAYU200.parameters, "const.ohos.apiversion": "18"}},
            r"API level 18 without libc\+\+_shared",
        ),
        ({"libraries": frozenset()}, "API level 15 without libmindspore_lite_ndk.so"),
    ],
)
def test_each_difference_is_told(change: dict[str, Any], said: str) -> None:
    found = find_differences(load_profile("dayu200"), dataclasses.replace(DAYU200, **change))
    assert any(re.search(said, sentence) for sentence in found), found


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": {}, "libraries": frozenset()},
        {"parameters": {"const.ohos.apiversion": "?"}, "libraries": frozenset()},
        {"cpu": ""},
        {"memory": {"MemTotal": 1700 * 1024 * 1024}},
    ],
)
def test_what_a_board_does_not_tell_is_no_difference(change: dict[str, Any]) -> None:
    assert find_differences(load_profile("dayu200"), dataclasses.replace(DAYU200, **change)) == []


def test_the_profile_that_knows_nothing_is_never_wrong_and_another_that_fits_is_found() -> None:
    sixty_four = dataclasses.replace(
        DAYU200, loaders=frozenset({"/lib/ld-musl-aarch64.so.1"}), memory={"MemTotal": 1982468 * 1024}
    )
    assert find_differences(load_profile("generic"), sixty_four) == []
    assert find_fitting(sixty_four) == ["dayu200-arm64"]
    assert find_fitting(dataclasses.replace(DAYU200, memory={"MemTotal": 16 * 1024**3})) == []


def test_the_libraries_of_all_levels_are_asked_for_once_each() -> None:
    names = library_question(load_profile("dayu200"))
    assert len(set(names)) == len(names)
    assert {"libmindspore-lite.huawei.so", "libmindspore_lite_ndk.so", "libc++_shared.so"} <= set(names)


def test_an_api_level_is_a_number_or_nothing() -> None:
    levels: list[Callable[[], int | None]] = [
        lambda text=text: read_api_level(dataclasses.replace(DAYU200, parameters={"const.ohos.apiversion": text}))
        for text in ("15", "", "x", "-1", "²")
    ]
    assert [level() for level in levels] == [15, None, None, None, None]
