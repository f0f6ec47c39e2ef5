"""Toolchains for other tools: what the texts say. That they work is tested with the tools themselves."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from pathlib import Path

import pytest

from core.errors import InvalidData, UnknownName, UsageError
from core.session import Session
from core.settings import Settings
from toolchains.arch import ARCHES, ARM32, ARM64
from toolchains.export import (
    PRESETS,
    SHELLS,
    export_cargo,
    export_environment,
    list_variables,
    merge_presets,
    preset_name,
    rust_target,
    write_presets,
)
from toolchains.host_toolchain import HostToolchain, ToolchainChoice
from toolchains.render import quote_meson
from toolchains.toolchain import choose_toolchain

BARE = {"CC", "CXX", "AR", "RANLIB", "STRIP", "LD", "CFLAGS", "CMAKE_TOOLCHAIN_FILE", "PKG_CONFIG_LIBDIR"}


@pytest.fixture
def arm64(session: Session) -> HostToolchain:
    return choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig"))


@pytest.fixture
def arm32(session: Session) -> HostToolchain:
    return choose_toolchain(session, ToolchainChoice(arch=ARM32.name, toolchain="zig"))


def test_no_bare_name_is_set_unless_asked_for(arm64: HostToolchain) -> None:
    assert not BARE & set(list_variables(arm64))
    assert {"CC", "CXX", "AR", "RANLIB", "CMAKE_TOOLCHAIN_FILE"} <= set(list_variables(arm64, bare=True))


def test_names_of_the_target_are_those_that_rust_looks_for(arm32: HostToolchain) -> None:
    variables = list_variables(arm32)
    assert variables["CC_armv7_unknown_linux_musleabihf"] == str(arm32.cc)
    assert variables["CARGO_TARGET_ARMV7_UNKNOWN_LINUX_MUSLEABIHF_LINKER"] == str(arm32.cc)
    ohos = dataclasses.replace(arm32, name="ohos", strip=("/sdk/llvm-strip",))
    assert rust_target(ohos) == "armv7-unknown-linux-ohos"
    assert list_variables(ohos)["OHFORGE_STRIP"] == "/sdk/llvm-strip"
    assert list_variables(ohos)["OHFORGE_TARGET"] == "arm-linux-ohos"


def test_every_arch_of_both_toolchains_has_a_rust_target(arm64: HostToolchain) -> None:
    for name in ("zig", "ohos"):
        for arch in ARCHES.values():
            assert "-unknown-linux-" in rust_target(dataclasses.replace(arm64, name=name, arch=arch))


def test_json_is_one_object_with_the_same_variables(arm64: HostToolchain) -> None:
    assert json.loads(export_environment(arm64, "json")) == list_variables(arm64)


def test_an_unknown_shell_is_answered_with_the_nearest(arm64: HostToolchain) -> None:
    assert SHELLS == ("sh", "fish", "powershell", "json")
    with pytest.raises(UnknownName, match="did you mean 'fish'"):
        export_environment(arm64, "fsh")


def test_powershell_values_are_literal_strings(arm64: HostToolchain) -> None:
    """Without an interpreter at hand: every line is an assignment of a single-quoted string, as about_Quoting_Rules has it."""
    odd = dataclasses.replace(arm64, cc=Path("/it's/$env:HOME/`n/cc"))
    lines = [line for line in export_environment(odd, "powershell").splitlines() if line and not line.startswith("#")]
    values = {}
    for line in lines:
        found = re.fullmatch(r"\$env:(\w+) = '((?:[^']|'')*)'", line)
        assert found, line
        values[found[1]] = found[2].replace("''", "'")
    assert values == list_variables(odd)


def test_the_cargo_fragment_is_toml_with_the_linker_of_the_target(arm64: HostToolchain) -> None:
    odd = dataclasses.replace(arm64, cc=Path('/a "b" \\c/é/cc'))
    value = tomllib.loads(export_cargo(odd))
    assert value["target"]["aarch64-unknown-linux-musl"]["linker"] == str(odd.cc)
    assert value["env"]["CC_aarch64_unknown_linux_musl"] == str(odd.cc)
    assert not BARE & set(value["env"])
    ohos = tomllib.loads(export_cargo(dataclasses.replace(arm64, name="ohos")))
    assert "rustflags" not in ohos["target"]["aarch64-unknown-linux-ohos"]


# CMake presets -------------------------------------------------------------------------------------

USERS = {
    "version": 6,
    "cmakeMinimumRequired": {"major": 3, "minor": 25, "patch": 0},
    "include": ["more.json"],
    "configurePresets": [
        {"name": "mine", "binaryDir": "out", "description": "größer"},
        {"name": "ohforge-zig-arm64", "toolchainFile": "/old/one"},
        {"name": "another", "inherits": "mine"},
    ],
    "buildPresets": [{"name": "mine", "configurePreset": "mine"}],
    "testPresets": [{"name": "t", "configurePreset": "mine"}],
}


def test_presets_of_the_user_stay_and_ours_are_replaced(arm64: HostToolchain, arm32: HostToolchain) -> None:
    merged = json.loads(merge_presets(json.dumps(USERS), [arm64, arm32]))
    names = [preset["name"] for preset in merged["configurePresets"]]
    assert names == ["mine", "another", "ohforge-zig-arm64", "ohforge-zig-arm32"]
    assert merged["configurePresets"][0] == USERS["configurePresets"][0]  # type: ignore[index]
    assert merged["configurePresets"][2]["toolchainFile"] == str(arm64.file)
    for key in ("version", "cmakeMinimumRequired", "include", "testPresets"):
        assert merged[key] == USERS[key]
    assert [preset["name"] for preset in merged["buildPresets"]] == ["mine", "ohforge-zig-arm64", "ohforge-zig-arm32"]
    again = merge_presets(json.dumps(merged), [arm64, arm32])
    assert json.loads(again) == merged


def test_an_older_format_is_raised_to_the_first_with_toolchain_files(arm64: HostToolchain) -> None:
    assert json.loads(merge_presets('{"version": 2}', [arm64]))["version"] == 3


def test_a_tuned_preset_has_a_name_of_its_own(session: Session) -> None:
    tuned = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig", cpu="cortex-a55"))
    assert preset_name(tuned) == "ohforge-zig-arm64-cortex-a55"


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"configurePresets": []}', '{"version": "3"}', '{"version": 3, "configurePresets": {}}']
)
def test_a_file_that_is_no_presets_file_is_left_as_it_is(tmp_path: Path, arm64: HostToolchain, text: str) -> None:
    (tmp_path / PRESETS).write_text(text)
    with pytest.raises(InvalidData, match=PRESETS):
        write_presets(tmp_path, [arm64])
    assert (tmp_path / PRESETS).read_text() == text
    assert [path.name for path in tmp_path.iterdir() if "Presets" in path.name] == [PRESETS]


def test_a_missing_or_empty_file_is_made(tmp_path: Path, arm64: HostToolchain) -> None:
    path = write_presets(tmp_path, [arm64])
    assert json.loads(path.read_text())["configurePresets"][0]["name"] == "ohforge-zig-arm64"
    path.write_text("\n")
    write_presets(tmp_path, [arm64])
    assert json.loads(path.read_text())["version"] == 3


def test_exports_follow_the_cache_folder(tmp_path: Path, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OHFORGE_CACHE_DIR")
    moved = Session(settings=Settings(cache_dir=str(tmp_path / "moved here")), console=session.console)
    assert str(tmp_path / "moved here") in export_environment(
        choose_toolchain(moved, ToolchainChoice(arch=ARM64.name, toolchain="zig")), "sh"
    )


def test_a_path_that_a_meson_file_cannot_hold_is_refused() -> None:
    assert quote_meson("/a \\b/c") == "'/a \\b/c'"
    assert quote_meson("/it's/c") == "'''/it's/c'''"
    for path in ("/it's/a\\b", "/ends with '"):
        with pytest.raises(UsageError, match="cannot name"):
            quote_meson(path)
