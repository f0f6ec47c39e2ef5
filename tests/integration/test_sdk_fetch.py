"""``sdk.fetch`` from release-shaped archives on loopback: every layout, every source, every fault."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import socket
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import core.http
from core.errors import (
    CannotWrite,
    DamagedArchive,
    HostileArchive,
    IntegrityError,
    NetworkError,
    NoSourceLeft,
    NotEnoughSpace,
    NotFoundOnServer,
    NotTheFile,
    Offline,
    OhforgeError,
    SdkIncomplete,
    SdkNotForHost,
    SdkNotFound,
    UnknownName,
    UsageError,
)
from core.session import Session
from tests.support.loopback import Loopback
from tests.support.sdk_server import (
    LIST,
    MIRROR,
    MIRROR2,
    archive_path,
    listing,
    serve_github,
    serve_list,
    serve_mirror,
    unpack_by_hand,
    use_loopback_for_all,
)
from tests.support.standin_sdk.pack import VARIANTS, Release, make_release
from toolchains.install import fetch_sdk
from toolchains.installed import damage_error, list_sdks, read_installed, remove_sdk, sdk_root, verify_sdk
from toolchains.sdk import list_installed

HOST = "linux-x64"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core.http, "PAUSES_SECONDS", (0.01,))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    with Loopback() as server:
        use_loopback_for_all(server, monkeypatch)
        yield server


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return make_release(tmp_path_factory.mktemp("release"), "5.0.0", HOST)


@pytest.fixture
def on_loopback(session: Session, server: Loopback) -> Session:
    """A session whose first mirror is the server, too."""
    return dataclasses.replace(session, settings=dataclasses.replace(session.settings, sdk_mirror=server.url + MIRROR))


def nothing_is_installed(session: Session) -> bool:
    return not list(sdk_root(session).glob("[!.]*"))


# layouts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_layout_of_a_tarball_installs_what_tar_and_unzip_make_of_it(
    session: Session, server: Loopback, tmp_path: Path, variant: str
) -> None:
    packed = make_release(tmp_path / "packed", "5.0.0", HOST, variant)
    url = server.serve("/sdk.tar.gz", packed.archive)
    server.serve("/sdk.tar.gz.sha256", packed.archive.with_name(f"{packed.archive.name}.sha256"))
    fetched = fetch_sdk(session, host=HOST, archive=url)
    assert listing(fetched.path) == listing(unpack_by_hand(packed, tmp_path / "by-hand"))
    assert (fetched.version, fetched.sdk_version, fetched.api_level) == ("5.0.0", "5.0.0.71", 12)
    assert fetched.path == sdk_root(session) / "5.0.0-linux-x64"


@pytest.mark.parametrize("host", ["linux-x64", "windows-x64", "macos-x64", "macos-arm64"])
@pytest.mark.parametrize("version", ["3.2", "4.1", "5.0.1", "6.0"])
def test_every_host_of_old_and_new_releases_installs_from_the_mirror(
    session: Session, server: Loopback, tmp_path: Path, host: str, version: str
) -> None:
    packed = make_release(tmp_path / "packed", version, host)
    mirror = serve_mirror(server, packed)
    fetched = fetch_sdk(session, version, host=host, mirror=mirror, sha256=packed.sha256)
    assert listing(fetched.path) == listing(unpack_by_hand(packed, tmp_path / "by-hand"))
    assert (fetched.version, fetched.host) == (version, host)
    sdk = read_installed(fetched.path)
    assert sdk is not None
    assert sdk.components["native"].package.endswith("-Beta1.zip" if version == "6.0" else "-Release.zip")


def test_an_installed_sdk_is_found_by_the_toolchains_and_not_fetched_again(
    session: Session, server: Loopback, release: Release
) -> None:
    mirror = serve_mirror(server, release)
    first = fetch_sdk(session, "api12", host=HOST, mirror=mirror)
    asked = len(server.seen)
    again = fetch_sdk(session, "5.0.0-Release", host=HOST, mirror=mirror)
    assert len(server.seen) == asked
    assert (again.path, again.bytes_downloaded, again.bytes_reused) == (first.path, 0, 0)
    assert [sdk.root for sdk in list_installed(session)] == [first.path]
    assert first.bytes_downloaded == release.size


def test_only_the_named_components_are_installed_and_others_can_follow(
    session: Session, server: Loopback, release: Release
) -> None:
    mirror = serve_mirror(server, release)
    first = fetch_sdk(session, "5.0.0", host=HOST, components=["native"], mirror=mirror)
    assert not (first.path / "toolchains").exists()
    native = (first.path / "native").stat().st_ino
    second = fetch_sdk(session, "5.0.0", host=HOST, components=["native", "toolchains"], mirror=mirror)
    assert second.components == ("native", "toolchains")
    assert (second.path / "native").stat().st_ino == native
    assert os.access(second.path / "toolchains/hdc", os.X_OK)
    assert verify_sdk(session).ok


# sources ---------------------------------------------------------------------------------------------


def test_the_second_mirror_is_used_when_the_first_lacks_the_file_and_the_reason_is_printed(
    on_loopback: Session, server: Loopback, release: Release, capsys: pytest.CaptureFixture[str]
) -> None:
    serve_mirror(server, release, MIRROR2)
    fetch_sdk(on_loopback, "5.0.0", host=HOST)
    printed = capsys.readouterr().out
    assert re.search(r"source mirror is passed over: .*HTTP 404", printed)
    assert re.search(r"source: .*/second/os/.* \(1 passed over\)", printed)


def test_the_component_list_gives_the_wanted_packages_alone(
    on_loopback: Session, server: Loopback, release: Release, tmp_path: Path
) -> None:
    serve_list(server, release)
    fetched = fetch_sdk(on_loopback, "5.0.0", host=HOST)
    assert listing(fetched.path) == listing(unpack_by_hand(release, tmp_path / "by-hand"))
    wanted = sum(release.components[name].stat().st_size for name in ("native", "toolchains"))
    assert fetched.bytes_downloaded == wanted
    body_paths = [seen.path for seen in server.seen if seen.path.startswith("/cdn/")]
    assert len(body_paths) == 2
    assert not list((on_loopback.settings.cache / "downloads").glob("[0-9a-f]*[0-9a-f]"))


@pytest.mark.parametrize("options", [{"size_as_text": True}, {"names_arch": False}])
def test_the_forms_in_which_the_component_list_answers_are_understood(
    on_loopback: Session, server: Loopback, release: Release, options: dict[str, bool]
) -> None:
    serve_list(server, release, **options)
    assert fetch_sdk(on_loopback, "5.0.0", host=HOST).source.startswith("component list")


def test_api_26_is_found_in_the_list_under_its_long_name(
    on_loopback: Session, server: Loopback, tmp_path: Path
) -> None:
    serve_list(server, make_release(tmp_path / "packed", "7.0", HOST))
    fetched = fetch_sdk(on_loopback, "latest", host=HOST)
    assert (fetched.version, fetched.api_level) == ("7.0", 26)


def test_a_component_list_that_refuses_shows_its_code_and_message(on_loopback: Session, server: Loopback) -> None:
    server.answer_posts(LIST, lambda _: (400, {"code": 139403, "message": "parameter check failed"}))
    with pytest.raises(NoSourceLeft, match="HTTP 400, code 139403: parameter check failed"):
        fetch_sdk(on_loopback, "5.0.0", host=HOST)


def test_a_component_list_without_the_release_says_what_it_has(
    on_loopback: Session, server: Loopback, release: Release
) -> None:
    serve_list(server, release)
    with pytest.raises(NoSourceLeft, match=r"does not list native, toolchains of 6\.1\.0\.31 .*native 5\.0\.0\.71"):
        fetch_sdk(on_loopback, "6.1", host=HOST)


@pytest.mark.parametrize("piece", [0, 2000])
def test_archives_on_github_are_read_whole_or_in_pieces(
    on_loopback: Session, server: Loopback, release: Release, tmp_path: Path, piece: int
) -> None:
    serve_github(server, release, piece)
    fetched = fetch_sdk(on_loopback, "5.0.0", host=HOST)
    assert listing(fetched.path) == listing(unpack_by_hand(release, tmp_path / "by-hand"))
    pieces = -(-release.size // piece) if piece else 1
    assert fetched.source.endswith(f"in {pieces} pieces" if piece else release.archive.name)
    assert fetched.bytes_downloaded == release.size


def test_a_missing_piece_is_noticed_by_the_hash(on_loopback: Session, server: Loopback, release: Release) -> None:
    serve_github(server, release, 2000)
    (last,) = [path for path in server.files if path.endswith(".ac")]
    del server.files[last]
    with pytest.raises(IntegrityError):
        fetch_sdk(on_loopback, "5.0.0", host=HOST)
    assert nothing_is_installed(on_loopback)


def test_the_order_of_sources_is_the_users(on_loopback: Session, server: Loopback, release: Release) -> None:
    serve_mirror(server, release)
    serve_list(server, release)
    settings = dataclasses.replace(on_loopback.settings, sdk_sources=("components", "mirror"))
    fetched = fetch_sdk(dataclasses.replace(on_loopback, settings=settings), "5.0.0", host=HOST)
    assert fetched.source.startswith("component list")
    settings = dataclasses.replace(on_loopback.settings, sdk_sources=("miror",))
    with pytest.raises(UnknownName, match="did you mean 'mirror'"):
        fetch_sdk(dataclasses.replace(on_loopback, settings=settings), "5.0.1", host=HOST)


def test_an_archive_on_the_disk_is_installed_offline(
    session: Session, release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline = dataclasses.replace(session, settings=dataclasses.replace(session.settings, offline=True))

    def no_socket(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", no_socket)
    monkeypatch.setattr(socket, "getaddrinfo", no_socket)
    fetched = fetch_sdk(offline, host=HOST, archive=str(release.archive))
    assert listing(fetched.path) == listing(unpack_by_hand(release, tmp_path / "by-hand"))
    with pytest.raises(Offline) as caught:
        fetch_sdk(offline, "6.1", host=HOST)
    assert caught.value.exit_status == 66


def test_a_single_package_on_the_disk_is_installed(session: Session, release: Release) -> None:
    package = release.components["native"]
    fetched = fetch_sdk(session, host=HOST, components=["native"], archive=str(package))
    assert fetched.components == ("native",)
    assert package.exists()
    with pytest.raises(IntegrityError, match="12" * 32):
        fetch_sdk(session, host="windows-x64", components=["native"], archive=str(package), sha256="12" * 32)
    with pytest.raises(UsageError, match="is the component native"):
        fetch_sdk(session, host=HOST, components=["toolchains"], archive=str(package))


def test_a_folder_can_be_the_mirror(session: Session, release: Release, tmp_path: Path) -> None:
    for path, file in release.mirror_files.items():
        (tmp_path / "usb" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, tmp_path / "usb" / path)
    fetched = fetch_sdk(session, "5.0.0", host=HOST, mirror=(tmp_path / "usb").as_uri())
    assert fetched.version == "5.0.0"


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


# afterwards ------------------------------------------------------------------------------------------


@pytest.fixture
def installed(session: Session, release: Release) -> Path:
    return fetch_sdk(session, host=HOST, archive=str(release.archive)).path


def put_in_place_of_the_link(path: Path, new: bytes | str) -> None:
    """A file with that content, or a link to that name."""
    path.unlink()
    path.write_bytes(new) if isinstance(new, bytes) else path.symlink_to(new)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "has another content": lambda sdk: (sdk / "toolchains/libusb_shared.so").write_bytes(b"no librarx\n"),
    "has 3 bytes, not": lambda sdk: (sdk / "toolchains/libusb_shared.so").write_bytes(b"cut"),
    "is missing": lambda sdk: (sdk / "native/llvm/bin/lld").unlink(),
    "has the mode 644": lambda sdk: (sdk / "native/llvm/bin/clang-15").chmod(0o644),
    "no longer a link to clang-15": lambda sdk: put_in_place_of_the_link(sdk / "native/llvm/bin/clang", b"clang-15"),
    "leads to lld": lambda sdk: put_in_place_of_the_link(sdk / "native/llvm/bin/clang", "lld"),
    "was not in the package": lambda sdk: (sdk / "native/added.h").touch(),
    "was changed": lambda sdk: (sdk / "installed-files.json").write_text('{"native": [], "toolchains": []}'),
}


@pytest.mark.parametrize("problem", DAMAGE)
def test_verify_finds_every_kind_of_change(session: Session, installed: Path, problem: str) -> None:
    assert verify_sdk(session, "5.0.0").ok
    DAMAGE[problem](installed)
    check = verify_sdk(session, "5.0.0")
    assert any(problem in line for line in check.problems), check.problems
    error = damage_error(check)
    assert error.exit_status == 67
    assert str(installed) in error.message


def test_fetching_again_mends_an_installation_that_lost_a_file(
    session: Session, installed: Path, release: Release, server: Loopback
) -> None:
    (installed / "native/llvm/bin/lld").unlink()
    fetch_sdk(session, "5.0.0", host=HOST, mirror=serve_mirror(server, release))
    assert verify_sdk(session).ok


def test_remove_leaves_nothing(session: Session, installed: Path) -> None:
    assert remove_sdk(session, "5.0.0-linux-x64") > 0
    assert [path.name for path in sdk_root(session).iterdir() if not path.name.endswith(".lock")] == []
    with pytest.raises(SdkNotFound):
        remove_sdk(session, "5.0.0")


def test_remove_also_takes_away_what_a_broken_off_installation_left(
    session: Session, server: Loopback, release: Release
) -> None:
    begun = sdk_root(session) / ".new-5.0.1-linux-x64"
    begun.mkdir(parents=True)
    (begun / "native.zip").write_bytes(b"x" * 1000)
    assert remove_sdk(session, "5.0.1") == 1000
    assert not begun.exists()


def test_list_shows_what_is_installed_and_what_can_be_had(session: Session, installed: Path) -> None:
    rows = list_sdks(session)
    assert rows[0]["path"] == str(installed)
    assert rows[0]["components"] == ["native", "toolchains"]
    by_version = {row["version"]: row for row in rows}
    assert len(by_version) == len(rows) == 26
    assert by_version["7.0"]["api_level"] == 26
    assert by_version["7.0"]["path"] == ""


def test_a_name_that_is_not_installed_is_answered_with_the_nearest(session: Session, installed: Path) -> None:
    with pytest.raises(SdkNotFound, match="did you mean '5"):
        verify_sdk(session, "5.0.0-linux-x86")


def test_every_failure_says_what_to_try(session: Session, server: Loopback) -> None:
    with pytest.raises(OhforgeError) as caught:
        fetch_sdk(session, "5.0.0", host=HOST, mirror=server.url)
    assert caught.value.remedy
