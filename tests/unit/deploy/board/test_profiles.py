"""Profiles of boards, and what is refused in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InvalidData, UnknownName
from deploy.board.profiles import FOLDER, list_profiles, load_emulation, load_profile, runtime_libraries
from toolchains.arch import ARCHES


def test_the_boards_that_are_named_in_the_guide_have_profiles() -> None:
    assert list_profiles() == ["dayu200", "dayu200-arm64", "generic"]


@pytest.mark.parametrize("name", list_profiles())
def test_every_profile_is_valid_and_agrees_with_itself(name: str) -> None:
    profile, shown = load_emulation(name)
    assert set(profile.arches) <= set(ARCHES)
    assert profile.memory_bytes > shown.memory_kib["total"] * 1024 > profile.memory_bytes * 0.9
    assert profile.device_dir == "/data/local/tmp"


def test_the_dayu200_has_a_32_bit_system_on_a_64_bit_kernel() -> None:
    profile, shown = load_emulation("dayu200")
    assert (profile.arches, profile.static_only, shown.machine) == (("arm32", "arm64"), ("arm64",), "aarch64")
    assert (profile.cores, profile.cpu, profile.memory_bytes) == (4, "cortex-a55", 2 * 1024**3)


def test_the_feature_list_of_the_rk3568_has_no_newer_extensions() -> None:
    features = load_emulation("dayu200")[1].cpu_info["features"]
    assert {"asimddp", "fphp", "asimdhp", "atomics"} <= set(features)
    assert not {"i8mm", "bf16", "sve"} & set(features)


def test_runtime_libraries_follow_the_api_level() -> None:
    assert runtime_libraries("dayu200", 8) == ()
    assert runtime_libraries("dayu200", 9) == ("libmindspore-lite.huawei.so", "libneural_network_runtime.z.so")
    assert "libneural_network_core.so" in runtime_libraries("dayu200", 12)
    assert "libc++_shared.so" not in runtime_libraries("dayu200", 15)
    assert "libc++_shared.so" in runtime_libraries("dayu200", 20)


def test_a_profile_is_of_a_real_board_unless_it_is_asked_for_as_emulated() -> None:
    assert not load_profile("generic").emulated
    assert load_profile("generic", emulated=True).emulated


def test_an_unknown_profile_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'dayu200'"):
        load_profile("dayu20")
    with pytest.raises(UnknownName):
        load_profile("../profiles/dayu200")
    with pytest.raises(UnknownName):
        load_profile("")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("cores: 4", "cores: four", "cores"),
        ("cores: 4", "cores: 4\ncolour: red", "colour"),
        ("soc: Rockchip RK3568\n", "", "soc"),
        ("arches: [arm32, arm64]", "arches: [arm32, mips]", "arches"),
        ("static_only: [arm64]", "static_only: [x86_64]", "static_only names x86_64"),
        ("governor: ondemand", "governor: turbo", "turbo"),
        ("available: 1310720", "available: 9999999", "more available than total"),
        ("device_dir: /data/local/tmp", "device_dir: /tmp", "device_dir"),
        ("title: HiHope", "title: [HiHope", "is not YAML"),
    ],
)
def test_a_wrong_entry_is_named(old: str, new: str, complaint: str, tmp_path: Path) -> None:
    text = (FOLDER / "dayu200.yaml").read_text()
    assert old in text
    (tmp_path / "mine.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(InvalidData, match=complaint) as caught:
        load_profile("mine", folder=tmp_path)
    assert "mine.yaml" in caught.value.message
