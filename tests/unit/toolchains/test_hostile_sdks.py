"""Archives that somebody made with intent: each is refused with a documented error, and nothing of it stays."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from core.errors import DamagedArchive, IntegrityError, OhforgeError, SdkIncomplete
from core.session import Session
from toolchains.install import fetch_sdk
from toolchains.installed import sdk_root

HOST = "linux-x64"
PACKAGE = "linux/toolchains-linux-x64-5.0.0.71-Release.zip"
DESCRIBED = {"path": "toolchains", "version": "5.0.0.71", "apiVersion": "12"}


def package(description: object = DESCRIBED, **more: bytes) -> bytes:
    """The zip of a component; what is no text is written as JSON."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        text = description if isinstance(description, str) else json.dumps(description)
        file.writestr("toolchains/oh-uni-package.json", text.encode("utf-8", "surrogatepass"))
        for name, content in more.items():
            file.writestr(f"toolchains/{name}", content)
    return packed.getvalue()


def tarball(path: Path, *members: tuple[str, bytes], form: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w:gz", format=form) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def left_of(session: Session) -> list[str]:
    """All that lies in the folder of SDKs, but for locks."""
    return sorted(path.name for path in sdk_root(session).iterdir() if path.suffix != ".lock")


def refused(session: Session, archive: Path) -> OhforgeError:
    with pytest.raises((IntegrityError, SdkIncomplete)) as caught:
        fetch_sdk(session, host=HOST, components=["toolchains"], archive=str(archive))
    return caught.value


def test_the_honest_one_is_installed(session: Session, tmp_path: Path) -> None:
    archive = tarball(tmp_path / "sdk.tar.gz", (PACKAGE, package()))
    fetched = fetch_sdk(session, host=HOST, components=["toolchains"], archive=str(archive))
    assert left_of(session) == ["5.0.0-linux-x64"]
    assert (fetched.version, fetched.sdk_version, fetched.api_level) == ("5.0.0", "5.0.0.71", 12)


VERSIONS = [
    "../../outside", "/absolute", "5/0", "..", "5.0\0", "5.0\n", "5\x1b[2J", "archive", "²", "5" * 300, "\ud800", "",
    5, None, True, [], {"a": 1}, 1e300,
]  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS, ids=repr)
def test_a_version_that_is_none_never_becomes_a_path(session: Session, tmp_path: Path, version: object) -> None:
    if version == "/absolute":
        version = str(tmp_path / "mine")
    (tmp_path / "mine-linux-x64").mkdir()
    (tmp_path / "mine-linux-x64/kept").write_text("kept")
    archive = tarball(tmp_path / "sdk.tar.gz", (PACKAGE, package({**DESCRIBED, "version": version})))
    refused(session, archive)
    assert (tmp_path / "mine-linux-x64/kept").read_text() == "kept"
    assert left_of(session) == []


LEVELS = ["x", "-12", "", "0", "12x", "²", "1" * 5000, "1e3", None, [], {}, True, 1e300, "12\x1b[31m"]


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: repr(level)[:20])
def test_an_api_level_that_is_none_is_refused(session: Session, tmp_path: Path, level: object) -> None:
    archive = tarball(tmp_path / "sdk.tar.gz", (PACKAGE, package({**DESCRIBED, "apiVersion": level})))
    refused(session, archive)
    assert left_of(session) == []


DESCRIPTIONS = ["", "[]", "5", "{", "[" * 100_000, '{"version": NaN}', '{"version": 1' + "0" * 5000 + "}", "\ufffe"]


@pytest.mark.parametrize("text", DESCRIPTIONS, ids=lambda text: repr(text)[:20])
def test_a_description_that_is_none_is_refused(session: Session, tmp_path: Path, text: str) -> None:
    refused(session, tarball(tmp_path / "sdk.tar.gz", (PACKAGE, package(text))))
    assert left_of(session) == []


def test_a_package_by_itself_leaves_nothing_either(session: Session, tmp_path: Path) -> None:
    alone = tmp_path / "toolchains-linux-x64-5.0.0.71-Release.zip"
    for content in (package({**DESCRIBED, "version": "/x"}), package()[:-30], b"no zip"):
        alone.write_bytes(content)
        refused(session, alone)
        assert left_of(session) == []


@pytest.mark.parametrize("name", ["a\x1b[2J", "a\nb", "é", "a" * 300, "a b"], ids=repr)
def test_a_package_whose_name_is_none_is_refused(session: Session, tmp_path: Path, name: str) -> None:
    odd = f"linux/toolchains-linux-x64-{name}.zip"
    refused(session, tarball(tmp_path / "sdk.tar.gz", (odd, package())))
    assert left_of(session) == []


def test_a_package_that_stands_twice_in_a_tarball_is_refused(session: Session, tmp_path: Path) -> None:
    error = refused(session, tarball(tmp_path / "sdk.tar.gz", (PACKAGE, package()), (PACKAGE, package())))
    assert isinstance(error, IntegrityError)
    assert not isinstance(error, DamagedArchive)
    assert "twice" in error.message
    assert left_of(session) == []


@pytest.mark.parametrize(
    "name", ["a" * 300, "d/" * 1990 + "f", "a\x1b[2J", "\u009b2J"], ids=lambda name: repr(name)[:20]
)
def test_a_package_with_a_name_that_no_sdk_has_leaves_nothing(session: Session, tmp_path: Path, name: str) -> None:
    refused(session, tarball(tmp_path / "sdk.tar.gz", (PACKAGE, package(**{name: b"x"}))))
    assert left_of(session) == []


@pytest.mark.parametrize("record", [b"PK\x01\x02", b"PK\x05\x06"])
@pytest.mark.parametrize("at", range(4, 46, 3))
def test_a_package_with_a_bogus_directory_leaves_nothing(
    session: Session, tmp_path: Path, record: bytes, at: int
) -> None:
    content = bytearray(package(more=b"x"))
    begin = content.index(record) + at
    content[begin : begin + 4] = b"\xff\xff\xff\x7f"[: max(0, len(content) - begin)]
    archive = tarball(tmp_path / "sdk.tar.gz", (PACKAGE, bytes(content)))
    try:
        fetch_sdk(session, host=HOST, components=["toolchains"], archive=str(archive))
    except (IntegrityError, SdkIncomplete):
        assert left_of(session) == []
    else:
        assert left_of(session) == ["5.0.0-linux-x64"]


@pytest.mark.parametrize(
    "records", [{"path": "\udcff.zip"}, {"path": "x\0y"}, {"size": "-1"}, {"size": "²"}, {"size": "9" * 30}], ids=repr
)
def test_oddities_of_pax_in_a_tarball_leave_nothing(session: Session, tmp_path: Path, records: dict[str, str]) -> None:
    with tarfile.open(tmp_path / "sdk.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo(PACKAGE)
        info.size, info.pax_headers = len(package()), records
        tar.addfile(info, io.BytesIO(package()))
    refused(session, tmp_path / "sdk.tar.gz")
    assert left_of(session) == []
