"""Installed SDKs are named by words that tell them apart."""

from __future__ import annotations

import json

import pytest

from core.errors import SdkNotFound
from core.session import Session
from tests.support.trees import nest
from toolchains.installed import InstalledSdk, find_installed, remove_sdk, sdk_root, write_installed


def install(session: Session, version: str, host: str) -> InstalledSdk:
    """An SDK without any component, as far as its marker tells."""
    folder = sdk_root(session) / f"{version}-{host}"
    folder.mkdir(parents=True)
    sdk = InstalledSdk(
        folder=folder,
        version=version,
        sdk_version=f"{version}.71",
        api_level=12,
        host=host,
        components={},
        source={},
        installed_at="2024-01-01T00:00:00Z",
    )
    write_installed(sdk, {})
    return sdk


def test_a_version_that_two_hosts_have_is_answered_with_the_words_that_work(session: Session) -> None:
    for version, host in (("5.0.0", "linux-x64"), ("5.0.0", "windows-x64"), ("4.1", "linux-x64")):
        install(session, version, host)
    with pytest.raises(SdkNotFound) as caught:
        remove_sdk(session, "5.0.0")
    words = [word for word in caught.value.remedy.split() if word.startswith("5.0.0-")]
    assert sorted(words) == ["5.0.0-linux-x64", "5.0.0-windows-x64"]
    assert "4.1" not in caught.value.message + caught.value.remedy
    remove_sdk(session, "5.0.0-windows-x64")
    assert find_installed(session, "5.0.0").host == "linux-x64"


def test_without_a_version_the_only_sdk_is_meant_and_several_are_all_shown(session: Session) -> None:
    only = install(session, "5.0.0", "linux-x64")
    assert find_installed(session, "") == only
    install(session, "4.1", "linux-x64")
    with pytest.raises(SdkNotFound, match=r"5\.0\.0-linux-x64, 4\.1-linux-x64"):
        find_installed(session, "")


def test_verify_takes_the_version_as_the_page_on_the_sdk_shows_it(
    session: Session, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from commands.program import OhforgeProgram

    install(session, "5.0.1", "linux-x64")
    monkeypatch.setenv("OHFORGE_DATA_DIR", str(session.settings.data))
    OhforgeProgram().run("ohforge sdk.verify 5.0.1 --json")
    assert json.loads(capsys.readouterr().out) == {
        "ok": True,
        "path": str(sdk_root(session) / "5.0.1-linux-x64"),
        "files": 0,
        "problems": [],
    }


@pytest.mark.usefixtures("any_depth")
def test_folders_nested_deeper_than_python_recurses_are_removed(session: Session) -> None:
    sdk = install(session, "5.0.0", "linux-x64")
    nest(sdk.folder / "native", 1900)
    remove_sdk(session, "5.0.0")
    begun = sdk_root(session) / ".new-4.1-linux-x64"
    nest(begun, 1900)
    assert remove_sdk(session, "4.1") == 5
    assert [path.name for path in sdk_root(session).iterdir() if path.is_dir()] == []
