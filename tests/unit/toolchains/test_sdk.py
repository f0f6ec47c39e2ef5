"""An SDK on disk: every layout, every environment name, and every way in which unpacking damages one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from core.errors import SdkIncomplete, SdkNotFound
from core.session import Session
from core.settings import Settings
from tests.shared.standin_sdk import tiny_tree
from toolchains.sdk import ENVIRONMENT_NAMES, describe_sdk, find_hdc, find_sdk, list_installed, require_sdk, this_host


@pytest.fixture(autouse=True)
def no_sdk_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT_NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def components(tmp_path: Path) -> Path:
    """A folder with ``native`` and ``toolchains`` of release 5.0.0."""
    return make_sdk(tmp_path / "an sdk")


def make_sdk(folder: Path, version: str = "5.0.0") -> Path:
    tiny_tree(folder, version)
    return folder


def install(session: Session, name: str, version: str) -> Path:
    folder = make_sdk(session.settings.data / "sdk" / name, version)
    (folder / "installed.json").write_text("{}")
    return folder


LAYOUTS = {
    ".": "folder of components",
    "23": "folder of API levels, 23",
    "linux": "unpacked release archive",
    "ohos-sdk/linux": "unpacked release archive",
    "sdk/default/openharmony": "DevEco or command line tools",
    "default/openharmony": "sdk folder of DevEco or command line tools",
    "Contents/sdk/default/openharmony": "macOS application",
}


@pytest.mark.parametrize(("below", "layout"), LAYOUTS.items())
def test_every_layout_leads_to_the_native_folder(tmp_path: Path, below: str, layout: str) -> None:
    make_sdk(tmp_path / "home" / below)
    sdk = describe_sdk(tmp_path / "home")
    assert sdk.layout == layout
    assert sdk.native == tmp_path / "home" / below / "native"
    assert sdk.toolchains == tmp_path / "home" / below / "toolchains"


def test_the_native_folder_itself_is_an_sdk(components: Path) -> None:
    sdk = describe_sdk(components / "native")
    assert (sdk.layout, sdk.root) == ("native folder", components)
    assert sdk.toolchains == components / "toolchains"


@pytest.mark.parametrize("name", ENVIRONMENT_NAMES)
@pytest.mark.parametrize("below", ["native", ".", ".."])
def test_every_environment_name_is_tried_with_every_meaning(
    session: Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    below: str,
) -> None:
    make_sdk(tmp_path / "levels" / "12")
    monkeypatch.setenv(name, str(tmp_path / "levels/12" / below))
    sdk = find_sdk(session)
    assert sdk is not None
    assert (sdk.found_by, sdk.api_level) == (name, 12)
    assert name in capsys.readouterr().out


def test_the_highest_api_level_is_taken_as_a_number(tmp_path: Path) -> None:
    for level, release in (("9", "3.2"), ("23", "6.1"), ("26.0.0", "7.0"), ("12", "5.0.0")):
        make_sdk(tmp_path / level, release)
    assert describe_sdk(tmp_path).api_level == 26


def test_what_the_package_says_of_itself_is_read(tmp_path: Path) -> None:
    sdk = describe_sdk(make_sdk(tmp_path / "a", "7.0"))
    assert (sdk.api_level, sdk.full_version, sdk.release_type) == (26, "26.0.0", "Release")
    beta = describe_sdk(make_sdk(tmp_path / "b", "6.0"))
    assert (beta.version, beta.release_type) == ("6.0.0.47", "Beta1")
    assert "6.0.0.47 Beta1 (API 20" in beta.title
    assert beta.host == this_host()


def test_the_compiler_version_is_that_of_its_library_folder(components: Path) -> None:
    for name in ("15.0.4", "9.0.0"):
        (components / "native/llvm/lib/clang" / name).mkdir(parents=True)
    assert describe_sdk(components).clang == "15.0.4"


@pytest.mark.parametrize(
    ("start", "host"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\x3e\x00", "linux-x64"),
        (b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00", "linux-arm64"),
        (b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01" + bytes(12), "macos-arm64"),
        (b"\xcf\xfa\xed\xfe\x07\x00\x00\x01" + bytes(12), "macos-x64"),
    ],
)
def test_what_an_sdk_runs_on_is_read_from_its_compiler(components: Path, start: bytes, host: str) -> None:
    (components / "native/llvm/bin/clang-15").write_bytes(start + bytes(100))
    assert describe_sdk(components).host == host


# which one -----------------------------------------------------------------------------------------


def test_without_any_sdk_there_is_none_and_requiring_one_says_where_was_looked(session: Session) -> None:
    assert find_sdk(session) is None
    with pytest.raises(SdkNotFound, match="OHOS_NDK_HOME"):
        require_sdk(session)


def test_flag_setting_installation_and_environment_count_in_this_order(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found_by(session: Session, path: str = "") -> str:
        sdk = find_sdk(session, path)
        assert sdk is not None
        return sdk.found_by

    monkeypatch.setenv("OHOS_SDK_HOME", str(make_sdk(tmp_path / "environment")))
    assert found_by(session) == "OHOS_SDK_HOME"
    install(session, "5.0.0-linux-x64", "5.0.0")
    assert found_by(session) == "installed"
    setting = Session(settings=Settings(sdk=str(make_sdk(tmp_path / "setting"))), console=session.console)
    assert found_by(setting) == "ohforge.sdk"
    assert found_by(setting, str(make_sdk(tmp_path / "flag"))) == "--sdk"


def test_the_newest_installed_sdk_is_taken_and_any_can_be_named_by_version(session: Session) -> None:
    for version in ("4.1", "6.1", "5.0.0", "6.1-LTS"):
        install(session, f"{version}-linux-x64", version)
    assert [sdk.root.name for sdk in list_installed(session)][-2:] == ["5.0.0-linux-x64", "4.1-linux-x64"]
    newest = find_sdk(session)
    assert newest is not None
    assert newest.root.name == "6.1-LTS-linux-x64"
    for named in ("6.1", "6.1.0.31", "6.1-linux-x64"):
        assert require_sdk(session, named).root.name == "6.1-linux-x64"


def test_a_half_installed_sdk_does_not_count(session: Session) -> None:
    folder = install(session, "5.0.0-linux-x64", "5.0.0")
    (folder / "installed.json").unlink()
    assert find_sdk(session) is None


def test_an_environment_name_without_an_sdk_is_passed_over_with_a_word(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OHOS_SDK_NATIVE", str(tmp_path / "gone"))
    monkeypatch.setenv("DEVECO_SDK_HOME", str(make_sdk(tmp_path / "deveco" / "default/openharmony").parent.parent))
    sdk = find_sdk(session)
    assert sdk is not None
    assert sdk.found_by == "DEVECO_SDK_HOME"
    assert "OHOS_SDK_NATIVE names" in capsys.readouterr().err


# hdc -----------------------------------------------------------------------------------------------


def test_hdc_is_found_in_the_sdk_under_its_old_name_too(session: Session, components: Path) -> None:
    assert find_hdc(describe_sdk(components)) == components / "toolchains/hdc"
    (components / "toolchains/hdc").rename(components / "toolchains/hdc_std")
    assert find_hdc(describe_sdk(components / "native")) == components / "toolchains/hdc_std"
    shutil.rmtree(components / "toolchains")
    assert find_hdc(describe_sdk(components)) is None
    assert find_hdc(session) is None


def test_hdc_is_found_where_only_the_toolchains_are_installed(session: Session) -> None:
    folder = install(session, "5.0.0-linux-x64", "5.0.0")
    shutil.rmtree(folder / "native")
    assert find_sdk(session) is None
    assert find_hdc(session) == folder / "toolchains/hdc"


def test_a_damaged_compiler_does_not_hide_hdc(session: Session) -> None:
    folder = install(session, "5.0.0-linux-x64", "5.0.0")
    (folder / "native/llvm/bin/clang-15").unlink()
    assert find_hdc(session) == folder / "toolchains/hdc"


# damage --------------------------------------------------------------------------------------------


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(SdkNotFound, match="nowhere does not exist"):
        describe_sdk(tmp_path / "nowhere")


def test_a_folder_without_an_sdk_is_answered_with_the_places_that_were_tried(tmp_path: Path) -> None:
    with pytest.raises(SdkNotFound, match=r"native, .*sdk/default/openharmony/native"):
        describe_sdk(tmp_path)


def test_packages_that_are_still_packed_are_recognised(tmp_path: Path) -> None:
    package = tmp_path / "ohos-sdk/linux/native-linux-x64-5.0.0.71-Release.zip"
    package.parent.mkdir(parents=True)
    package.write_bytes(b"PK")
    with pytest.raises(SdkNotFound, match="still packed") as caught:
        describe_sdk(tmp_path)
    assert "--archive" in caught.value.remedy


def test_a_lost_link_is_told_from_a_program(components: Path) -> None:
    clang = components / "native/llvm/bin/clang"
    clang.unlink()
    clang.write_text("clang-15")
    clang.chmod(0o755)
    with pytest.raises(SdkIncomplete, match=r"llvm/bin/clang is a text \('clang-15'\).*links were lost"):
        describe_sdk(components)


def test_an_empty_program_is_no_program(components: Path) -> None:
    (components / "native/llvm/bin/llvm-ar").write_bytes(b"")
    with pytest.raises(SdkIncomplete, match="llvm-ar is a text"):
        describe_sdk(components)


def test_lost_mode_bits_are_named(components: Path) -> None:
    (components / "native/llvm/bin/clang-15").chmod(0o644)
    with pytest.raises(SdkIncomplete, match="mode bits were lost"):
        describe_sdk(components)


def test_a_link_to_nothing_is_named_with_its_target(components: Path) -> None:
    (components / "native/llvm/bin/clang-15").unlink()
    with pytest.raises(SdkIncomplete, match="is a link to clang-15, which is missing"):
        describe_sdk(components)


@pytest.mark.parametrize(
    "name",
    [
        "oh-uni-package.json",
        "build/cmake/sdk_native_platforms.cmake",
        "build/cmake/ohos.toolchain.cmake",
        "llvm/bin/lld",
    ],
)
def test_a_missing_file_is_named(components: Path, name: str) -> None:
    (components / "native" / name).unlink()
    with pytest.raises(SdkIncomplete, match=Path(name).name):
        describe_sdk(components)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "is not JSON"),
        ("[1]", "does not describe the component native"),
        (
            json.dumps({"path": "toolchains", "version": "5.0.0.71", "apiVersion": "12"}),
            "does not describe the component",
        ),
        (json.dumps({"path": "native", "version": "5.0.0.71"}), "lacks the version or the API level"),
        (json.dumps({"path": "native", "apiVersion": "12"}), "lacks the version or the API level"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(components: Path, content: str, complaint: str) -> None:
    (components / "native/oh-uni-package.json").write_text(content)
    with pytest.raises(SdkIncomplete, match=complaint):
        describe_sdk(components)


def test_a_description_on_one_line_or_with_a_byte_order_mark_is_read(components: Path) -> None:
    file = components / "native/oh-uni-package.json"
    file.write_text(json.dumps(json.loads(file.read_text())), encoding="utf-8-sig")
    assert describe_sdk(components).version == "5.0.0.71"
