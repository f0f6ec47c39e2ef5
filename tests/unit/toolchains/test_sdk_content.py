"""What an SDK holds, by one hash: the same wherever it lies, another after any change, and quick when there is none."""

from __future__ import annotations

import dataclasses
import os
import shutil
import zlib
from pathlib import Path

import pytest

import toolchains.sdk_content
from core.session import Session
from core.tree import Entry
from tests.shared.standin_sdk import tiny_tree
from toolchains.installed import InstalledComponent, InstalledSdk, write_installed
from toolchains.sdk import describe_sdk
from toolchains.sdk_content import hash_content
from toolchains.toolchain import ToolchainChoice, choose_toolchain

LIBRARY = "native/llvm/lib/aarch64-linux-ohos/libc++_static.a"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_tree(tmp_path / "sdk")
    write(tmp_path / "sdk" / LIBRARY, b"!<arch>\nabc\n")
    return tmp_path / "sdk"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that have been read."""
    names: list[str] = []
    original = toolchains.sdk_content.crc32_of_file

    def note(path: Path) -> int:
        names.append(path.name)
        return original(path)

    monkeypatch.setattr(toolchains.sdk_content, "crc32_of_file", note)
    return names


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def content_of(session: Session, folder: Path) -> str:
    return hash_content(session, describe_sdk(folder))


def test_two_folders_with_the_same_sdk_have_one_content_and_another_version_has_another(
    session: Session, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "and another one", symlinks=True)
    tiny_tree(tmp_path / "third", "5.0.1")
    assert content_of(session, folder) == content_of(session, tmp_path / "and another one/native")
    assert content_of(session, folder) != content_of(session, tmp_path / "third")


def test_a_library_that_was_changed_in_place_is_noticed_with_its_size_and_time_kept(
    session: Session, folder: Path
) -> None:
    library = folder / LIBRARY
    before, looked = content_of(session, folder), library.stat()
    with library.open("r+b") as file:
        file.write(b"!<arch>\nabd\n")
    os.utime(library, ns=(looked.st_atime_ns, looked.st_mtime_ns))
    changed = content_of(session, folder)
    assert changed != before
    write(library, b"!<arch>\nabc\n")
    assert content_of(session, folder) == before


@pytest.mark.parametrize("change", ["added", "removed", "link"])
def test_another_file_and_another_link_are_noticed(session: Session, folder: Path, change: str) -> None:
    before = content_of(session, folder)
    if change == "added":
        write(folder / "native/sysroot/usr/include/new.h", b"")
    elif change == "removed":
        (folder / LIBRARY).unlink()
    else:
        (folder / "native/llvm/bin/clang").unlink()
        (folder / "native/llvm/bin/clang").symlink_to("lld")
    assert content_of(session, folder) != before


def test_what_lies_behind_a_link_out_of_the_sdk_belongs_to_it(session: Session, folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "headers/a/limits.h", b"1")
    (folder / "native/llvm/lib/include").symlink_to(tmp_path / "headers")
    (tmp_path / "headers/a/round").symlink_to(tmp_path / "headers")
    before = content_of(session, folder)
    write(tmp_path / "headers/a/limits.h", b"2")
    assert content_of(session, folder) != before


def test_what_no_build_takes_does_not_matter(session: Session, folder: Path) -> None:
    before = content_of(session, folder)
    write(folder / "native/build-tools/cmake/bin/cmake", b"another")
    write(folder / "native/llvm/python/__pycache__/a.pyc", b"1")
    assert content_of(session, folder) == before


def test_a_second_look_reads_nothing_and_a_third_only_what_was_changed(
    session: Session, folder: Path, read: list[str]
) -> None:
    content_of(session, folder)
    assert "libc++_static.a" in read
    read.clear()
    content_of(session, folder)
    assert read == []
    write(folder / LIBRARY, b"!<arch>\n")
    content_of(session, folder)
    assert read == ["libc++_static.a"]


def test_of_an_installed_sdk_only_what_was_touched_since_is_read(
    session: Session, folder: Path, read: list[str]
) -> None:
    unpacked = content_of(session, folder)
    files = [path for path in (folder / "native").rglob("*") if path.is_file() and not path.is_symlink()]
    entries = [
        Entry(
            name=path.relative_to(folder / "native").as_posix(),
            size=path.stat().st_size,
            crc32=zlib.crc32(path.read_bytes()),
        )
        for path in files
    ]
    component = InstalledComponent(version="1", package="p", files=len(files), bytes=1, list_sha256="")
    sdk = InstalledSdk(
        folder=folder,
        version="5.0.0",
        sdk_version="5.0.0.71",
        api_level=12,
        host="linux-x64",
        components={"native": component},
        source={},
        installed_at="2024-01-01T00:00:00Z",
    )
    write_installed(sdk, {"native": entries})
    read.clear()
    shutil.rmtree(session.settings.cache / "sdk-content")
    assert content_of(session, folder) == unpacked
    assert read == []
    shutil.rmtree(session.settings.cache / "sdk-content")
    os.utime(folder / "installed.json", (1, 1))
    assert content_of(session, folder) == unpacked
    assert "libc++_static.a" in read


def test_nothing_is_kept_of_a_look_that_only_asks(session: Session, folder: Path) -> None:
    asking = dataclasses.replace(session, dry=True)
    assert content_of(asking, folder) == content_of(session, folder)
    shutil.rmtree(session.settings.cache)
    content_of(asking, folder)
    assert not session.settings.cache.exists()


def test_a_changed_library_gives_another_toolchain_and_another_name_to_compiler_caches(
    session: Session, folder: Path
) -> None:
    (folder / "native/llvm/bin/llvm-strip").touch()
    (folder / "native/sysroot/usr/lib/aarch64-linux-ohos").mkdir(parents=True, exist_ok=True)
    (folder / "native/sysroot/usr/lib/aarch64-linux-ohos/crt1.o").touch()
    choice = ToolchainChoice(arch="arm64", sdk=str(folder))
    before = choose_toolchain(session, choice)
    write(folder / LIBRARY, b"!<arch>\nabd\n")
    after = choose_toolchain(session, choice)
    assert before.id != after.id
    for variable in ("CCACHE_COMPILERCHECK", "SCCACHE_C_CUSTOM_CACHE_BUSTER"):
        assert before.environment[variable] != after.environment[variable]
