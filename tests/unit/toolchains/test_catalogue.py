"""The catalogue of SDK releases: its form, and what can be written for a version."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from core.errors import InvalidData, SdkNotForHost, UnknownName
from toolchains.catalogue import DATA, find_release, read_catalogue, release_of_sdk_version

LEVELS = {
    "3.2": 9, "4.0": 10, "4.1": 11, "5.0.0": 12, "5.0.1": 13, "5.0.2": 14, "5.0.3": 15, "5.1.0": 18, "6.0": 20,
    "6.0.0.1": 20, "6.1": 23, "7.0": 26,
}  # fmt: skip
"""Versions and API levels as OpenHarmony's own overview of releases pairs them."""


def test_the_catalogue_has_the_form_of_its_schema() -> None:
    value = yaml.safe_load(DATA.read_text())
    jsonschema.validate(value, json.loads(DATA.with_name("releases.schema.json").read_text()))
    versions = [release["version"] for release in value["releases"]]
    assert len(set(versions)) == len(versions) == 26


@pytest.mark.parametrize(("version", "level"), LEVELS.items())
def test_api_levels_are_those_that_were_published(version: str, level: int) -> None:
    assert find_release(version).api_level == level


def test_every_release_exists_for_four_hosts_and_none_for_linux_arm64() -> None:
    for release in read_catalogue().releases:
        assert release.hosts == ("linux-x64", "windows-x64", "macos-x64", "macos-arm64")
        with pytest.raises(SdkNotForHost, match="linux-arm64") as caught:
            release.archives_for("linux-arm64")
        assert caught.value.exit_status == 68
        assert "zig" in caught.value.remedy


def test_linux_and_windows_share_one_archive_and_macs_have_their_own() -> None:
    release = find_release("6.1")
    assert release.archives_for("linux-x64") == release.archives_for("windows-x64")
    assert [a.file for a in release.archives_for("macos-arm64")] == ["L2-SDK-MAC-M1-PUBLIC.tar.gz"]


def test_the_dated_archive_of_7_0_is_tried_before_the_undated_one_and_each_has_its_hash() -> None:
    dated, undated = find_release("7.0").archives_for("linux-x64")
    assert dated.file.endswith("_20260829.tar.gz")
    assert dated.sha256[:8] == "6bf6ae1e"
    assert undated.sha256[:8] == "130a438c"


def test_pinned_hashes_say_how_many_sources_agree() -> None:
    pinned = {
        r.version: max(a.pins for a in r.archives)
        for r in read_catalogue().releases
        if any(a.sha256 for a in r.archives)
    }
    assert pinned == {"6.0": 3, "6.0.0.1": 1, "6.1": 5, "7.0": 3}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("5.0.0", "5.0.0"),
        ("5.0.0-Release", "5.0.0"),
        ("v5.0.0", "5.0.0"),
        ("OpenHarmony-v5.0.0-Release", "5.0.0"),
        ("5.0.0.71", "5.0.0"),
        ("api12", "5.0.0"),
        ("12", "5.0.0"),
        ("API 18", "5.1.0"),
        ("api20", "6.0.0.2"),
        ("6.0.0", "6.0"),
        ("6.1-lts", "6.1-LTS"),
        ("26.0.0", "7.0"),
        ("latest", "7.0"),
    ],
)
def test_a_version_can_be_written_in_many_ways(text: str, version: str) -> None:
    assert find_release(text).version == version


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("5.0", r"5\.0\.0, 5\.0\.1, 5\.0\.2, 5\.0\.3"),
        ("5.0.7", "did you mean '5.0"),
        ("api19", "nearest are api18 and api20"),
        ("nonsense", "known: 3.2"),
    ],
)
def test_a_version_that_does_not_exist_is_answered_with_the_nearest(text: str, hint: str) -> None:
    with pytest.raises(UnknownName, match=hint) as caught:
        find_release(text)
    assert caught.value.exit_status == 64


def test_a_package_version_leads_back_to_its_release() -> None:
    release = release_of_sdk_version("6.0.0.47")
    assert release is not None
    assert (release.version, release.release_type) == ("6.0", "Beta1")
    assert release_of_sdk_version("9.9.9.9") is None


def test_file_names_follow_the_dates_that_releases_put_into_them() -> None:
    for release in read_catalogue().releases:
        for archive in release.archives:
            assert re.fullmatch(
                r"(ohos-sdk-(windows_linux|mac)-public|L2-SDK-MAC-M1-PUBLIC)(-signed)?(_\d{8})?\.tar\.gz", archive.file
            )


def test_a_catalogue_with_a_missing_key_is_refused(tmp_path: Path) -> None:
    value = yaml.safe_load(DATA.read_text())
    del value["releases"][0]["sdk_version"]
    (tmp_path / "releases.yaml").write_text(yaml.safe_dump(value))
    with pytest.raises(InvalidData, match="sdk_version"):
        read_catalogue(tmp_path / "releases.yaml")
