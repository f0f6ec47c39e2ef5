"""What goes wrong on the way to an SDK: told apart, and nothing left half done."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import (
    CannotWrite,
    DamagedArchive,
    HostileArchive,
    IntegrityError,
    NetworkError,
    NotEnoughSpace,
    NotFoundOnServer,
    NotTheFile,
    SdkIncomplete,
    SdkNotForHost,
    ServerUnreached,
    UnknownName,
    UsageError,
)
from core.session import Session
from tests.shared.loopback import Loopback
from tests.shared.standin_sdk.pack import Release, make_release
from tests.support.sdk_fetching import HOST, nothing_is_installed
from tests.support.sdk_server import (
    archive_path,
    serve_list,
    serve_mirror,
)
from toolchains.install import fetch_sdk
from toolchains.installed import remove_sdk

# what goes wrong -------------------------------------------------------------------------------------


def test_a_wrong_hash_shows_both_and_sets_what_came_aside(session: Session, server: Loopback, release: Release) -> None:
    mirror = serve_mirror(server, release)
    wanted = "ab" * 32
    server.serve(f"{archive_path(release)}.sha256", wanted)
    with pytest.raises(IntegrityError) as caught:
        fetch_sdk(session, "5.0.0", host=HOST, mirror=mirror)
    assert wanted in caught.value.message
    assert release.sha256 in caught.value.message
    assert caught.value.exit_status == 67
    assert nothing_is_installed(session)
    aside = Path(caught.value.details["file"])
    assert aside.is_dir()
    assert str(aside) in caught.value.message
    server.serve(f"{archive_path(release)}.sha256", release.sha256)
    assert fetch_sdk(session, "5.0.0", host=HOST, mirror=mirror).path.is_dir()
    assert not aside.exists()


def test_without_a_network_that_is_said_and_not_that_no_source_has_it(session: Session) -> None:
    with socket.socket() as unused:  # bound and not listening: whoever connects is refused
        unused.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{unused.getsockname()[1]}"
        nowhere = replace(session.settings, sdk_mirror=away, sdk_mirror2=(away,), sdk_list=away, sdk_github=away)
        with pytest.raises(ServerUnreached, match=r"No source of ohos-sdk 5\.0\.0 could be reached") as caught:
            fetch_sdk(replace(session, settings=nowhere), "5.0.0", host=HOST)
    assert "HTTPS_PROXY" in caught.value.remedy
    assert caught.value.exit_status == 66
    assert nothing_is_installed(session)


def test_a_pinned_hash_that_the_server_contradicts_is_refused_before_the_download(
    session: Session, server: Loopback, tmp_path: Path
) -> None:
    packed = make_release(tmp_path / "packed", "6.1", HOST)
    mirror = serve_mirror(server, packed)
    with pytest.raises(
        IntegrityError, match=f"{packed.sha256}, but b833b75a64ee46bb.* pinned .5 independent"
    ) as caught:
        fetch_sdk(session, "6.1", host=HOST, mirror=mirror)
    assert "--sha256" in caught.value.remedy
    assert server.requests_of(archive_path(packed)) == []
    assert fetch_sdk(session, "6.1", host=HOST, mirror=mirror, sha256=packed.sha256).version == "6.1"


def test_a_release_that_was_uploaded_again_is_refused_until_it_is_pinned(
    session: Session, server: Loopback, release: Release, tmp_path: Path
) -> None:
    mirror = serve_mirror(server, release)
    fetch_sdk(session, "5.0.0", host=HOST, mirror=mirror)
    remove_sdk(session, "5.0.0")
    other = make_release(tmp_path / "other", "5.0.0", HOST, "prefix")
    serve_mirror(server, other)
    with pytest.raises(IntegrityError, match="first installed") as caught:
        fetch_sdk(session, "5.0.0", host=HOST, mirror=mirror)
    assert release.sha256 in caught.value.message
    assert other.sha256 in caught.value.message
    assert fetch_sdk(session, "5.0.0", host=HOST, mirror=mirror, sha256=other.sha256).version == "5.0.0"


def test_an_archive_without_any_hash_is_recorded_and_the_user_told(
    session: Session, server: Loopback, release: Release, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = serve_mirror(server, release)
    del server.files[f"{archive_path(release)}.sha256"]
    fetch_sdk(session, "5.0.0", host=HOST, mirror=mirror)
    assert f"sha256 {release.sha256} is recorded" in capsys.readouterr().err
    remove_sdk(session, "5.0.0")
    server.serve(archive_path(release), make_release(session.settings.data, "5.0.0", HOST, "prefix").archive)
    with pytest.raises(IntegrityError):
        fetch_sdk(session, "5.0.0", host=HOST, mirror=mirror)


def test_the_other_file_name_of_a_release_is_tried_when_the_first_is_gone(
    session: Session, server: Loopback, tmp_path: Path
) -> None:
    undated = make_release(tmp_path / "packed", "7.0", HOST, "undated")
    mirror = serve_mirror(server, undated)
    fetched = fetch_sdk(session, "7.0", host=HOST, mirror=mirror, sha256=undated.sha256)
    assert fetched.source.endswith("ohos-sdk-windows_linux-public.tar.gz")


FAULTS = {
    "archive not there": ("status", {"code": 404}, NotFoundOnServer, "HTTP 404"),
    "access forbidden": ("status", {"code": 403}, NotFoundOnServer, "HTTP 403"),
    "server broken": ("status", {"code": 502}, NetworkError, "HTTP 502"),
    "login page": ("html", {}, NotTheFile, "Guest network - sign in"),
    "connection refused at once": ("drop", {}, NetworkError, "without progress"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_each_fault_of_the_only_source_has_its_own_message_and_the_status_of_a_network_failure(
    session: Session, server: Loopback, release: Release, case: str
) -> None:
    fault, values, kind, sentence = FAULTS[case]
    mirror = serve_mirror(server, release)
    server.fault(archive_path(release), fault, times=-1, **values)
    with pytest.raises(kind, match=sentence) as caught:
        fetch_sdk(session, "5.0.0", host=HOST, mirror=mirror)
    assert caught.value.exit_status == 66
    assert caught.value.remedy
    assert nothing_is_installed(session)


def test_a_checksum_file_that_is_a_web_page_is_named(session: Session, server: Loopback, release: Release) -> None:
    mirror = serve_mirror(server, release)
    server.fault(f"{archive_path(release)}.sha256", "html", times=-1)
    with pytest.raises(NotTheFile, match="web page"):
        fetch_sdk(session, "5.0.0", host=HOST, mirror=mirror)
    server.serve(f"{archive_path(release)}.sha256", "no digest at all")
    server.faults.clear()
    with pytest.raises(NotTheFile, match="does not hold a SHA-256"):
        fetch_sdk(session, "5.0.0", host=HOST, mirror=mirror)


def test_a_daily_link_that_has_died_is_explained(session: Session, server: Loopback) -> None:
    url = f"{server.url}/version/Daily_Version/ohos-sdk-public/20260101/version-Daily-ohos-sdk-public.tar.gz"
    with pytest.raises(NotFoundOnServer) as caught:
        fetch_sdk(session, host=HOST, archive=url)
    assert "daily builds die" in caught.value.remedy


@pytest.mark.parametrize("at", [0, 100, 2000, -300, -5])
def test_an_archive_that_was_damaged_at_the_source_is_refused(
    session: Session, server: Loopback, release: Release, at: int
) -> None:
    mirror = serve_mirror(server, release)
    server.fault(archive_path(release), "corrupt", times=-1, at=at % release.size)
    with pytest.raises(IntegrityError) as caught:
        fetch_sdk(session, "5.0.0", host=HOST, mirror=mirror)
    assert caught.value.exit_status == 67
    assert nothing_is_installed(session)


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.999])
def test_an_archive_that_is_cut_short_on_the_server_is_refused(
    session: Session, server: Loopback, release: Release, kept: float
) -> None:
    mirror = serve_mirror(server, release)
    server.serve(archive_path(release), release.archive.read_bytes()[: int(release.size * kept)])
    with pytest.raises(IntegrityError) as caught:
        fetch_sdk(session, "5.0.0", host=HOST, mirror=mirror)
    assert caught.value.exit_status == 67
    assert nothing_is_installed(session)


def test_a_file_that_is_no_tarball_is_refused(session: Session, server: Loopback) -> None:
    url = server.serve("/sdk.tar.gz", b"just some bytes" * 1000)
    with pytest.raises(DamagedArchive, match="not gzip"):
        fetch_sdk(session, host=HOST, archive=url)
    with pytest.raises(UsageError, match="no archive"):
        fetch_sdk(session, host=HOST, archive="/nowhere/sdk.tar.gz")


def test_an_archive_for_another_host_says_what_it_holds(session: Session, tmp_path: Path) -> None:
    packed = make_release(tmp_path / "packed", "5.0.0", "macos-arm64")
    with pytest.raises(DamagedArchive, match=r"no native and no toolchains.*darwin/native-darwin-arm64"):
        fetch_sdk(session, host=HOST, archive=str(packed.archive))


def test_an_archive_of_another_api_level_is_refused(session: Session, server: Loopback, tmp_path: Path) -> None:
    packed = make_release(tmp_path / "packed", "5.0.1", HOST)
    url = server.serve("/sdk.tar.gz", packed.archive)
    with pytest.raises(IntegrityError, match=r"holds API level 13 .*5\.0\.0 has 12"):
        fetch_sdk(session, "5.0.0", host=HOST, archive=url)
    assert nothing_is_installed(session)


def test_a_host_a_version_and_a_component_that_do_not_exist_are_told_before_anything_is_asked(
    on_loopback: Session, server: Loopback
) -> None:
    with pytest.raises(SdkNotForHost, match="linux-arm64") as no_sdk:
        fetch_sdk(on_loopback, "5.0.0", host="linux-arm64")
    assert no_sdk.value.exit_status == 68
    with pytest.raises(UnknownName, match="did you mean") as no_version:
        fetch_sdk(on_loopback, "5.0.9", host=HOST)
    assert no_version.value.exit_status == 64
    with pytest.raises(UnknownName, match="did you mean 'toolchains'"):
        fetch_sdk(on_loopback, "5.0.0", host=HOST, components=["toolchain"])
    with pytest.raises(UnknownName, match="did you mean 'linux-x64'"):
        fetch_sdk(on_loopback, "5.0.0", host="linux_x64")
    assert server.seen == []


def repacked(release: Release, folder: Path, change: object) -> Path:
    """The release with its native package rewritten by `change(zip)`."""
    packed = folder / "native.zip"
    with zipfile.ZipFile(release.components["native"]) as old, zipfile.ZipFile(packed, "w") as new:
        for info in old.infolist():
            new.writestr(info, old.read(info))
        change(new)  # type: ignore[operator]
    place = folder / "linux"
    place.mkdir()
    shutil.copy(packed, place / release.components["native"].name)
    shutil.copy(release.components["toolchains"], place / release.components["toolchains"].name)
    archive = folder / "sdk.tar.gz"
    subprocess.run(["tar", "-czf", archive, "-C", folder, "linux"], check=True)
    return archive


def test_a_package_that_reaches_out_of_its_folder_is_refused(
    session: Session, release: Release, tmp_path: Path
) -> None:
    archive = repacked(release, tmp_path, lambda new: new.writestr("native/../../evil", b"x"))
    with pytest.raises(HostileArchive) as caught:
        fetch_sdk(session, host=HOST, archive=str(archive))
    assert caught.value.exit_status == 67
    assert nothing_is_installed(session)
    assert not list(session.settings.data.rglob("evil"))


def test_a_package_without_a_whole_compiler_is_refused(session: Session, tmp_path: Path) -> None:
    packed = make_release(tmp_path / "packed", "5.0.0", HOST)
    (tmp_path / "packed/tree/native/llvm/bin/clang-15").unlink()
    again = make_release(tmp_path / "again", "5.0.0", HOST, tree=tmp_path / "packed/tree")
    assert packed.sha256 != again.sha256
    with pytest.raises(SdkIncomplete, match="llvm/bin/clang"):
        fetch_sdk(session, host=HOST, archive=str(again.archive))
    assert nothing_is_installed(session)


def test_a_full_disk_is_told_before_the_download_when_sizes_are_known(
    on_loopback: Session, server: Loopback, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_list(server, release)
    monkeypatch.setattr("core.files.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(NotEnoughSpace) as caught:
        fetch_sdk(on_loopback, "5.0.0", host=HOST)
    assert caught.value.exit_status == 75
    assert not [seen for seen in server.seen if seen.path.startswith("/cdn/")]


def test_a_full_disk_is_told_as_soon_as_the_package_in_a_tarball_says_its_size(
    session: Session, server: Loopback, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = serve_mirror(server, release)
    monkeypatch.setattr("core.files.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(NotEnoughSpace, match=r"Unpacking .*native-linux-x64"):
        fetch_sdk(session, "5.0.0", host=HOST, mirror=mirror)
    assert nothing_is_installed(session)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a read-only disk needs root")
def test_a_read_only_target_is_named(
    session: Session, server: Loopback, release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = serve_mirror(server, release)
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "small", disk]).returncode:
        pytest.skip("mounting is forbidden here")
    try:
        monkeypatch.setenv("OHFORGE_DATA_DIR", str(disk))
        with pytest.raises(CannotWrite, match="Read-only file system") as caught:
            fetch_sdk(session, "5.0.0", host=HOST, mirror=mirror)
        assert caught.value.exit_status == 77
        assert server.seen == []
    finally:
        subprocess.run(["umount", disk], check=True)
