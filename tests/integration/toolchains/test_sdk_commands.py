"""`ohforge sdk.fetch` as a user types it: what each bad input is answered with, and the exit status."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared.loopback import Loopback
from tests.shared.standin_sdk.pack import Release, make_release
from tests.support.command_line import Said, invoke
from tests.support.sdk_server import DAILY_LIST, LIST, MIRROR, archive_path, serve_github, serve_list, serve_mirror

HOST = "linux-x64"


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return make_release(tmp_path_factory.mktemp("release"), "5.0.0", HOST)


def fetch(server: Loopback, *words: str | Path, **environment: str) -> Said:
    """A call whose every address is the server's."""
    addresses = {
        "INVOKE_OHFORGE_SDK_MIRROR": server.url + MIRROR,
        "INVOKE_OHFORGE_SDK_MIRROR2": f"{server.url}/a/os,{server.url}/b/os",
        "INVOKE_OHFORGE_SDK_LIST": server.url + LIST,
        "INVOKE_OHFORGE_SDK_GITHUB": server.url,
        "INVOKE_OHFORGE_SDK_DAILY": server.url + DAILY_LIST,
    }
    return invoke("sdk.fetch", *words, seconds=120, **{**addresses, **environment})


def refused(said: Said, status: int, code: str, *texts: str) -> None:
    """The call ended with that status and error, its message has the texts, and it says what to try."""
    error = said.answer["error"]
    assert (said.status, said.answer["ok"], error["code"]) == (status, False, code), said.text
    for text in texts:
        assert text in error["message"] + error["remedy"], error
    assert error["remedy"]
    assert f"error {code}" in said.text
    assert "Traceback" not in said.text


@pytest.mark.parametrize(
    ("words", "status", "code", "texts"),
    [
        (("5.0.9",), 64, "OHF6402", ("5.0.9", "did you mean '5.0.")),
        (("api99",), 64, "OHF6402", ("the nearest are api23 and api26",)),
        (("5.0",), 64, "OHF6402", ("5.0.0, 5.0.1, 5.0.2, 5.0.3",)),
        (("5.0.0", "--host", "linux-arm64"), 68, "OHF6805", ("linux-arm64", "linux-x64", "--toolchain zig")),
        (("5.0.0", "--host", "linux-x46"), 64, "OHF6402", ("did you mean 'linux-x64'",)),
        (("5.0.0", "--components", "nativ"), 64, "OHF6402", ("did you mean 'native'",)),
        (("5.0.0", "--components", ","), 64, "OHF6401", ("No component",)),
        (("--archive", "/nowhere/sdk.tar.gz"), 64, "OHF6401", ("/nowhere/sdk.tar.gz",)),
        (("--archive", "x.tar.gz", "--mirror", "http://a"), 64, "OHF6401", ("exclude each other",)),
        (("5.0.0", "--offline"), 66, "OHF6604", ("--offline",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_told_before_any_packet_is_sent(
    server: Loopback, words: tuple[str, ...], status: int, code: str, texts: tuple[str, ...]
) -> None:
    refused(fetch(server, *words), status, code, *texts)
    assert server.seen == []


def test_a_release_that_nobody_has_names_every_source_with_its_reason(server: Loopback) -> None:
    said = fetch(server, "5.0.0")
    refused(said, 66, "OHF6605", MIRROR, "/a/os", "/b/os", LIST, "HTTP 404", "--archive", "--mirror")
    assert all(f"source {name} is passed over" in said.text for name in ("mirror", "mirror2", "components", "github"))


def test_a_wrong_hash_shows_both(server: Loopback, release: Release, tmp_path: Path) -> None:
    mirror = serve_mirror(server, release)
    wrong = "0" * 64
    server.serve(f"{archive_path(release)}.sha256", wrong)
    refused(fetch(server, "5.0.0", "--mirror", mirror), 67, "OHF6701", wrong, release.sha256, "set aside in")
    assert not list((tmp_path / "data/sdk").glob("[!.]*"))
    assert list((tmp_path / "data/sdk").glob(".rejected-5.0.0-*"))


def test_a_login_page_is_named(server: Loopback, release: Release) -> None:
    mirror = serve_mirror(server, release)
    server.fault(archive_path(release), "html", times=99)
    refused(fetch(server, "5.0.0", "--mirror", mirror), 66, "OHF6603", "web page")


def test_a_place_that_cannot_be_written_is_named(server: Loopback, release: Release, tmp_path: Path) -> None:
    mirror = serve_mirror(server, release)
    (tmp_path / "file").write_text("in the way")
    said = fetch(server, "5.0.0", "--mirror", mirror, OHFORGE_DATA_DIR=str(tmp_path / "file/data"))
    refused(said, 77, "OHF7703", str(tmp_path / "file"))


@pytest.mark.parametrize(
    ("version", "variant"), [("6.0", "published"), ("5.0.0", "three-folders"), ("7.0", "published")]
)
def test_releases_with_habits_of_their_own_are_installed(
    server: Loopback, tmp_path: Path, version: str, variant: str
) -> None:
    """6.0 has zips called Beta1, another has its zips deeper in the tarball, and 7.0 has a date in its names."""
    packed = make_release(tmp_path / "packed", version, HOST, variant)
    # Not the published bytes: the catalogue's pin is left aside for what is served here.
    said = fetch(server, version, "--mirror", serve_mirror(server, packed), "--sha256", packed.sha256)
    assert (said.status, said.answer.get("sdk_version")) == (0, packed.release.sdk_version), said.text
    if version == "6.0":
        assert "Beta1" in packed.components["native"].name


# daily builds ----------------------------------------------------------------------------------------


def list_daily(server: Loopback, *addresses: str) -> None:
    builds = [{"obsPath": address} for address in addresses]
    server.answer_posts(DAILY_LIST, lambda body: (200, {"code": 200, "data": {"list": {"dataList": builds}}}))


def test_the_newest_daily_build_of_a_branch_is_installed(server: Loopback, release: Release) -> None:
    asked: list[bytes] = []
    address = f"{server.url}/daily/version-Daily-ohos-sdk-public.tar.gz"
    server.serve("/daily/version-Daily-ohos-sdk-public.tar.gz", release.archive)

    def answer(body: bytes) -> tuple[int, object]:
        asked.append(body)
        return 200, {"data": {"list": {"dataList": [{"obsPath": address}, {"obsPath": "http://older"}]}}}

    server.answer_posts(DAILY_LIST, answer)
    said = fetch(server, "--archive", "daily:OpenHarmony-5.1.0-Release")
    assert (said.status, said.answer["sdk_version"]) == (0, release.release.sdk_version), said.text
    assert b'"branch": "OpenHarmony-5.1.0-Release"' in asked[0]
    assert b'"component": "ohos-sdk-public"' in asked[0]
    assert "daily build" in said.text


def test_a_daily_build_whose_link_has_died_a_branch_without_builds_and_a_service_that_is_another(
    server: Loopback,
) -> None:
    list_daily(server, f"{server.url}/daily/gone.tar.gz")
    refused(fetch(server, "--archive", "daily:master"), 66, "OHF6602", "HTTP 404", "die after about a month")
    list_daily(server)
    refused(fetch(server, "--archive", "daily:mastre"), 66, "OHF6602", "no build", "'mastre'")
    server.answer_posts(DAILY_LIST, lambda body: (200, {"code": 500, "message": "busy"}))
    refused(fetch(server, "--archive", "daily:master"), 66, "OHF6603", "no list of builds", "busy")


# settings --------------------------------------------------------------------------------------------


def test_every_source_is_moved_by_its_setting_and_the_order_by_another(
    server: Loopback, release: Release, tmp_path: Path
) -> None:
    serve_list(server, release)
    serve_github(server, release)
    serve_mirror(server, release, "/b/os")
    for source in ("mirror2", "components", "github"):
        data = {"OHFORGE_DATA_DIR": str(tmp_path / source), "INVOKE_OHFORGE_SDK_SOURCES": source}
        said = fetch(server, "5.0.0", **data)
        assert (said.status, said.answer["path"]) == (0, f"{tmp_path}/{source}/sdk/5.0.0-{HOST}"), said.text


def test_settings_that_make_no_sense_are_named_with_the_nearest(server: Loopback, tmp_path: Path) -> None:
    refused(fetch(server, "5.0.0", INVOKE_OHFORGE_SDK_SOURCES="mirro"), 64, "OHF6402", "did you mean 'mirror'")
    refused(fetch(server, "5.0.0", INVOKE_OHFORGE_JOBS="many"), 65, "OHF6501", "ohforge.jobs", "a whole number")
    (tmp_path / ".invoke.yaml").write_text("ohforge: {sdk_miror: 'http://a'}\n")
    said = fetch(server, "5.0.0", HOME=str(tmp_path))
    refused(said, 65, "OHF6501", f"{tmp_path}/.invoke.yaml", "ohforge.sdk_miror", "sdk_mirror")
