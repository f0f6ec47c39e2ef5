"""`sdk.fetch` from a loopback server: every layout, every source."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import socket
from pathlib import Path

import pytest

from core.errors import (
    IntegrityError,
    NoSourceLeft,
    Offline,
    UnknownName,
    UsageError,
)
from core.session import Session
from tests.shared.loopback import Loopback
from tests.shared.standin_sdk.pack import VARIANTS, Release, make_release
from tests.support.sdk_fetching import HOST, nothing_is_installed
from tests.support.sdk_server import (
    LIST,
    MIRROR2,
    archive_path,
    listing,
    serve_github,
    serve_list,
    serve_mirror,
    unpack_by_hand,
)
from toolchains.install import fetch_sdk
from toolchains.installed import read_installed, sdk_root, verify_sdk
from toolchains.sdk import list_installed

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


def test_each_second_mirror_is_a_source_of_its_own_also_when_one_dies_in_the_middle(
    session: Session, server: Loopback, release: Release, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dying, good = serve_mirror(server, release, "/dying"), serve_mirror(server, release, "/good")
    server.fault(archive_path(release, "/dying"), "end_early", skip=1, after=release.size // 2)
    server.fault(archive_path(release, "/dying"), "drop", skip=2, times=-1)
    settings = dataclasses.replace(
        session.settings, sdk_sources=("mirror2",), sdk_mirror2=(f"{server.url}/empty", dying, good)
    )
    fetched = fetch_sdk(dataclasses.replace(session, settings=settings), "5.0.0", host=HOST)
    assert listing(fetched.path) == listing(unpack_by_hand(release, tmp_path / "by-hand"))
    printed = capsys.readouterr().out
    assert re.search(r"source: .*/good/.* \(2 passed over\)", printed)
    assert re.search(r"source mirror2 is passed over: .*/empty/.*HTTP 404", printed)


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
