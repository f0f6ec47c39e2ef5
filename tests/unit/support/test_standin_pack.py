"""The archives of the stand-in SDK have the habits of the published ones, as other programs see them."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from core.errors import UnknownName
from tests.shared.standin_sdk import VARIANTS, ListService, Release, make_release, synthetic_tree, tiny_tree


def command(*argv: str | Path, cwd: Path | None = None) -> str:
    return subprocess.run(argv, cwd=cwd, check=True, capture_output=True, text=True, timeout=60).stdout


def native_zip(release: Release) -> zipfile.ZipFile:
    return zipfile.ZipFile(release.components["native"])


@pytest.mark.parametrize(
    ("version", "host", "native"),
    [
        ("5.0.0", "linux-x64", "linux/native-linux-x64-5.0.0.71-Release.zip"),
        ("5.0.3", "linux-x64", "ohos-sdk/linux/native-linux-x64-5.0.3.135-Release.zip"),
        ("6.0", "linux-x64", "linux/native-linux-x64-6.0.0.47-Beta1.zip"),
        ("7.0", "macos-arm64", "sdk/packages/ohos-sdk/darwin/native-darwin-arm64-26.0.0.38-Release.zip"),
    ],
)
def test_tar_lists_the_member_that_the_release_is_known_to_have(
    tmp_path: Path, version: str, host: str, native: str
) -> None:
    release = make_release(tmp_path, version, host)
    assert native in command("tar", "-tzf", release.archive).splitlines()


@pytest.mark.parametrize(
    ("variant", "native"),
    [
        ("prefix", "ohos-sdk/linux/native-linux-x64-5.0.0.71-Release.zip"),
        ("three-folders", "sdk/packages/ohos-sdk/linux/native-linux-x64-5.0.0.71-Release.zip"),
        ("beta", "linux/native-linux-x64-5.0.0.71-Beta1.zip"),
        ("no-type", "linux/native-linux-x64-5.0.0.71.zip"),
        ("dot-slash", "./linux/native-linux-x64-5.0.0.71-Release.zip"),
    ],
)
def test_variants_differ_in_the_names_of_members(tmp_path: Path, variant: str, native: str) -> None:
    release = make_release(tmp_path, "5.0.0", variant=variant)
    assert native in command("tar", "-tzf", release.archive).splitlines()


def test_archive_names_follow_the_releases_habits(tmp_path: Path) -> None:
    names = {
        (version, host): make_release(tmp_path / f"{version}-{host}", version, host).mirror_path
        for version, host in [("7.0", "linux-x64"), ("4.1", "macos-arm64"), ("6.1-LTS", "macos-x64")]
    }
    assert names == {
        ("7.0", "linux-x64"): "7.0-Release/ohos-sdk-windows_linux-public_20260829.tar.gz",
        ("4.1", "macos-arm64"): "4.1-Release/L2-SDK-MAC-M1-PUBLIC-signed.tar.gz",
        ("6.1-LTS", "macos-x64"): "6.1-LTS/ohos-sdk-mac-public.tar.gz",
    }


def test_zip_entries_have_permissions_but_no_file_type_and_links_have_both(tmp_path: Path) -> None:
    with native_zip(make_release(tmp_path, "5.0.0")) as archive:
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
        times = {entry.date_time for entry in archive.infolist()}
        assert archive.read("native/llvm/bin/clang") == b"clang-15"
    assert modes["native/llvm/bin/clang-15"] == 0o755
    assert modes["native/oh-uni-package.json"] == 0o644
    assert modes["native/llvm/bin/clang"] == stat.S_IFLNK | 0o644
    assert times == {(2001, 1, 1, 0, 0, 0)}
    assert not [name for name in modes if name.endswith("/")]


@pytest.mark.skipif(shutil.which("unzip") is None, reason="Info-ZIP's unzip is not installed")
def test_unzip_restores_modes_and_links(tmp_path: Path) -> None:
    release = make_release(tmp_path, "5.0.0")
    command("unzip", "-q", release.components["native"], "-d", tmp_path / "out")
    binaries = tmp_path / "out/native/llvm/bin"
    assert (binaries / "clang").readlink() == Path("clang-15")
    assert "clang version 15.0.4" in command(binaries / "clang++")


def test_links_to_folders_and_empty_folders_are_not_stored(tmp_path: Path) -> None:
    tree = tiny_tree(tmp_path / "tree")
    (tree / "native/empty").mkdir()
    (tree / "native/other").symlink_to("sysroot", target_is_directory=True)
    with native_zip(make_release(tmp_path, "5.0.0", tree=tree)) as archive:
        assert not [name for name in archive.namelist() if "empty" in name or "other" in name]


@pytest.mark.parametrize("variant", ["published", "checksum-with-name"])
def test_the_checksum_beside_the_archive_is_what_sha256sum_says(tmp_path: Path, variant: str) -> None:
    release = make_release(tmp_path, "5.0.0", variant=variant)
    said = command("sha256sum", release.archive.name, cwd=tmp_path)
    sidecar = Path(f"{release.archive}.sha256").read_text()
    assert sidecar == (said if variant == "checksum-with-name" else said.split()[0])
    assert release.sha256 == said.split()[0]


def test_pieces_in_the_order_of_their_names_are_the_archive(tmp_path: Path) -> None:
    release = make_release(tmp_path, "5.0.0")
    files = release.github_files(piece=release.size // 3)
    pieces = [name for name in files if not name.endswith(".sha256")]
    assert [name.rpartition(".")[2] for name in pieces] == ["aa", "ab", "ac", "ad"][: len(pieces)]
    assert len(pieces) >= 3
    whole = b"".join(files[name].read_bytes() for name in sorted(pieces))
    assert hashlib.sha256(whole).hexdigest() == release.sha256
    assert list(release.github_files(piece=release.size)) == [
        "v5.0.0/ohos-sdk-windows_linux-public.tar.gz.sha256",
        "v5.0.0/ohos-sdk-windows_linux-public.tar.gz",
    ]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_arguments_give_the_same_bytes(tmp_path: Path, variant: str) -> None:
    first, second = (make_release(tmp_path / name, "7.0", variant=variant) for name in ("a", "b"))
    assert first.archive.read_bytes() == second.archive.read_bytes()


def test_foreign_members_stand_first_in_releases_that_have_them(tmp_path: Path) -> None:
    with tarfile.open(make_release(tmp_path, "7.0").archive) as archive:
        assert archive.getnames()[0] == "manifest_tag.xml"


@pytest.mark.parametrize(("version", "level"), [("3.2", "9"), ("5.0.0", "12"), ("6.1", "23"), ("7.0", "26")])
def test_each_component_describes_itself_one_key_a_line(tmp_path: Path, version: str, level: str) -> None:
    tree = tiny_tree(tmp_path, version)
    for component in ("native", "toolchains"):
        text = (tree / component / "oh-uni-package.json").read_text()
        content = json.loads(text)
        assert (content["apiVersion"], content["path"]) == (level, component)
        assert sum('"version":' in line for line in text.splitlines()) == 1


def test_a_synthetic_tree_has_the_size_that_was_asked_for(tmp_path: Path) -> None:
    tree = synthetic_tree(tmp_path, "5.0.0", 2_000_000)
    data = [path.stat().st_size for path in (tree / "native/data").rglob("*.bin")]
    assert sum(data) == 2_000_000


def ask(service: ListService, **request: str) -> tuple[int, object]:
    return service.answer(json.dumps(request).encode())


def test_the_list_service_offers_the_components_that_its_files_hold(tmp_path: Path) -> None:
    release = make_release(tmp_path, "7.0", "macos-arm64")
    service = ListService(releases=[release], base="http://127.0.0.1:1/cdn")
    status, items = ask(service, osType="darwin", osArch="arm64", supportVersion="26.0-ohos-single-1")
    assert status == 200
    assert isinstance(items, list)
    native = next(item for item in items if item["path"] == "native")
    assert (native["apiVersion"], native["version"]) == ("26.0.0", "26.0.0.38")
    path = service.files[native["archive"]["url"].removeprefix("http://127.0.0.1:1/cdn/")]
    assert native["archive"]["checksum"] == command("sha256sum", path).split()[0]
    assert native["archive"]["size"] == len(path.read_bytes())


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", 4003),
        (b'{"osType": "linux"}', 139403),
        (b'{"osType": "win", "osArch": "x64", "supportVersion": "5.0-ohos-single-12"}', 134004),
        (b'{"osType": "linux", "osArch": "x86_64", "supportVersion": "5.0-ohos-single-12"}', 134012),
    ],
)
def test_the_list_service_refuses_with_an_object(body: bytes, code: int) -> None:
    status, value = ListService(releases=[], base="http://127.0.0.1:1").answer(body)
    assert (status, value["code"]) == (400, code)


def test_an_unknown_release_host_or_variant_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"5\.0\.9"):
        make_release(tmp_path, "5.0.9")
    with pytest.raises(UnknownName, match="linux-arm64"):
        make_release(tmp_path, "5.0.0", "linux-arm64")
    with pytest.raises(UnknownName, match="split-up"):
        make_release(tmp_path, "5.0.0", variant="split-up")
