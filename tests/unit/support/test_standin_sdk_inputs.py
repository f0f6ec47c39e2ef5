"""The stand-in SDK's inputs: nothing of the machine is touched, and nothing is used that is not what was asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import HostToolMissing, IntegrityError, NetworkError
from core.process import OnOutput, Result
from core.testing import FakeRunner
from tests.shared.standin_sdk import assemble, packages, runtimes, standin_sdk
from tests.shared.standin_sdk.packages import fetch_packages, unpack_packages
from tests.shared.standin_sdk.releases import SdkRelease

EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
WANTED = len(packages.HOST_PACKAGES) + sum(len(names) for names in packages.TARGET_PACKAGES.values())


@dataclass
class FakeTools:
    """apt, dpkg and pip that give empty files."""

    fail: str = ""
    leave_out: int = 0
    calls: list[tuple[str, ...]] = field(default_factory=list)
    configuration: str = ""
    """The text of apt's configuration file, which is gone afterwards."""

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        deadline: Deadline,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        on_stdout: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        stdin: bytes | None = None,
    ) -> Result:
        words = tuple(os.fspath(word) for word in argv)
        self.calls.append(words)
        if self.fail and self.fail in words:
            return Result(argv=words, exit_code=100, stdout=b"", stderr=b"E: it went wrong", seconds=0)
        text = ""
        if words[0] == "dpkg":
            text = "amd64\n"
        elif words[0] == "apt-get":
            self.configuration = Path(words[words.index("-c") + 1]).read_text()
            text = self._apt(words, cwd)
        elif "pip" in words:
            (Path(words[words.index("--dest") + 1]) / "sources.whl").touch()
        return Result(argv=words, exit_code=0, stdout=text.encode(), stderr=b"", seconds=0)

    def _apt(self, words: tuple[str, ...], cwd: Path | None) -> str:
        if "download" not in words:
            return ""
        asked = words[words.index("download") + 1 :]
        lines = []
        for name, architecture in (word.split(":") for word in asked[self.leave_out :]):
            # apt writes the colon of an epoch as %3a in file names.
            file = f"{name}_1%3a2.0_{architecture}.deb"
            lines.append(f"'http://mirror.invalid/{file}' {file} 0 SHA256:{EMPTY_SHA256}")
            if "--print-uris" not in words:
                assert cwd is not None
                (cwd / file).touch()
        return "\n".join(lines) + "\n"


@pytest.fixture(autouse=True)
def empty_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "SOURCES_SHA256", EMPTY_SHA256)


def test_apt_works_in_folders_of_its_own_and_without_the_machines_packages(tmp_path: Path) -> None:
    tools = FakeTools()
    fetched = fetch_packages(tmp_path, tools)
    assert len(fetched.items) == WANTED + 1
    assert {item.version for item in fetched.items if item.architecture != "source"} == {"1:2.0"}
    for key in ("Dir::State", "Dir::State::lists", "Dir::State::status", "Dir::Cache"):
        value = next(line for line in tools.configuration.splitlines() if line.startswith(f"{key} ")).split('"')[1]
        assert not value.startswith(("/var", "/etc"))
    assert not [call for call in tools.calls if call[0] == "dpkg" and call[1] != "--print-architecture"]


def test_a_second_fetch_asks_no_network(tmp_path: Path) -> None:
    first = fetch_packages(tmp_path, FakeTools())
    tools = FakeTools()
    assert fetch_packages(tmp_path, tools) == first
    assert tools.calls == [("dpkg", "--print-architecture")]


@pytest.mark.parametrize("damage", ["listing", "package"])
def test_a_cache_that_lost_something_is_filled_again(tmp_path: Path, damage: str) -> None:
    first = fetch_packages(tmp_path, FakeTools())
    lost = next(tmp_path.glob("*.json")) if damage == "listing" else first.items[0].path(tmp_path)
    lost.unlink()
    assert fetch_packages(tmp_path, FakeTools()) == first


def test_a_damaged_listing_is_made_anew(tmp_path: Path) -> None:
    first = fetch_packages(tmp_path, FakeTools())
    next(tmp_path.glob("*.json")).write_text(json.dumps([{"name": "clang-19"}]))
    assert fetch_packages(tmp_path, FakeTools()) == first


def test_sources_with_another_hash_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "SOURCES_SHA256", "0" * 64)
    with pytest.raises(IntegrityError, match=EMPTY_SHA256):
        fetch_packages(tmp_path, FakeTools())
    assert not (tmp_path / ("0" * 64)).exists()


def test_a_package_that_changed_on_disk_is_refused_and_fetched_next_time(tmp_path: Path) -> None:
    fetched = fetch_packages(tmp_path, FakeTools())
    fetched.items[0].path(tmp_path).write_bytes(b"other content")
    with pytest.raises(IntegrityError, match="has changed on disk"):
        unpack_packages(fetched, tmp_path / "unpacked", FakeTools())
    tools = FakeTools()
    fetch_packages(tmp_path, tools)
    assert any(call[0] == "apt-get" for call in tools.calls)


@pytest.mark.parametrize("part", ["update", "download", "pip"])
def test_a_tool_that_fails_is_named_with_its_last_words(tmp_path: Path, part: str) -> None:
    with pytest.raises(NetworkError, match="it went wrong"):
        fetch_packages(tmp_path, FakeTools(fail=part))


def test_a_package_that_apt_does_not_name_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="clang-19:amd64"):
        fetch_packages(tmp_path, FakeTools(leave_out=1))


def test_a_machine_without_dpkg_is_told_what_is_needed(tmp_path: Path) -> None:
    missing = HostToolMissing("The program 'dpkg' is not on this machine.")
    with pytest.raises(HostToolMissing) as caught:
        fetch_packages(tmp_path, FakeRunner(answers=[(("dpkg",), missing)]))
    assert "Debian" in caught.value.remedy


def test_a_library_that_the_compiler_lacks_is_named_with_its_packages(tmp_path: Path) -> None:
    said = b"clang: error while loading shared libraries: libedit.so.2: cannot open shared object file\n"
    clang = str(tmp_path / "llvm/bin/clang")
    answer = Result(argv=(clang,), exit_code=127, stdout=b"", stderr=said, seconds=0)
    with pytest.raises(HostToolMissing, match=r"libedit\.so\.2") as caught:
        runtimes.check_host_libraries(tmp_path, FakeRunner(answers=[((clang,), answer)]))
    assert "libedit2" in caught.value.remedy


@pytest.fixture
def quick_assembly(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces compiling by writing one file; the list grows by a word for each time."""
    done: list[str] = []

    def assemble_base(folder: Path, _packages: packages.Packages, _runner: object) -> None:
        done.append("base")
        for part in ("native", "work"):
            (folder / part).mkdir()
        (folder / "native/libc.so").write_text("content")

    def write_release(folder: Path, release: SdkRelease, _runner: object) -> None:
        done.append(release.version)
        (folder / "native/version").write_text(release.version)

    monkeypatch.setattr(assemble, "_assemble_base", assemble_base)
    monkeypatch.setattr(assemble, "_write_release", write_release)
    return done


def test_releases_share_one_base_and_are_made_once(tmp_path: Path, quick_assembly: list[str]) -> None:
    trees = [standin_sdk(tmp_path, version, FakeTools()) for version in ("5.0.0", "7.0", "5.0.0")]
    assert quick_assembly == ["base", "5.0.0", "7.0"]
    assert trees[0] == trees[2] != trees[1]
    assert [(tree / "native/version").read_text() for tree in trees] == ["5.0.0", "7.0", "5.0.0"]
    assert trees[0].joinpath("native/libc.so").stat().st_ino == trees[1].joinpath("native/libc.so").stat().st_ino


def test_what_a_killed_assembly_left_is_removed_and_never_taken_for_a_tree(
    tmp_path: Path, quick_assembly: list[str]
) -> None:
    whole = standin_sdk(tmp_path, "5.0.0", FakeTools())
    remains = whole.parent / f".{whole.name}.abc123"
    whole.rename(remains)
    assert standin_sdk(tmp_path, "5.0.0", FakeTools()) == whole
    assert quick_assembly == ["base", "5.0.0", "5.0.0"]
    assert not remains.exists()
