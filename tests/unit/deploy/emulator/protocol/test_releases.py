"""The texts and abilities of hdc's releases."""

from __future__ import annotations

import pytest

from core.errors import UnknownName
from core.session import PROJECT
from deploy.emulator.protocol.releases import RELEASES, find_release


@pytest.mark.parametrize(
    ("release", "version"),
    [
        *(("3.2", "1.2.0a"), ("4.0", "1.3.0a"), ("4.1", "2.0.0a"), ("5.0", "3.1.0b"), ("5.0.3", "3.1.0e")),
        *(("5.1", "3.1.0e"), ("6.0", "3.2.0c"), ("6.1", "3.2.0c"), ("7.0-Beta1", "3.2.0e"), ("7.0", "3.2.0f")),
    ],
)
def test_each_release_has_its_version_number(release: str, version: str) -> None:
    assert find_release(release).version == version


def test_a_patch_release_speaks_as_its_minor_release() -> None:
    assert find_release("5.1.2") is RELEASES["5.1"]
    assert find_release("5.0.1") is RELEASES["5.0"]


def test_an_unknown_release_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"known: 3\.2, 4\.0|did you mean"):
        find_release("9.9")


@pytest.mark.parametrize(
    ("name", "before", "release", "since"),
    [
        (
            "need_key",
            "[Fail]ExecuteCommand need connect-key?",
            "5.0",
            "[Fail]ExecuteCommand need connect-key? please confirm a device by help info",
        ),
        ("unknown_name", "", "5.0", "unknown..."),
        ("authorises", False, "5.0", True),
        ("block", 49_152, "5.0", 418_611),
        ("block", 12_288, "4.0", 49_152),
        ("server_seconds", 5.0, "4.1", 12.0),
        (
            "broken_link",
            "[Fail]Failed to communicate with daemon",
            "5.0.3",
            "[Fail][E002106] Failed to communicate with daemon",
        ),
        ("bundles", False, "5.0.3", True),
        (
            "offline",
            "[Fail]Device not founded or connected",
            "5.1",
            "[Fail][E001005] Device not found or connected",
        ),
        ("checks_address", False, "5.1", True),
        ("notices_full_disk", False, "5.1", True),
        ("heartbeat", False, "5.1", True),
        ("protects_keys", False, "5.1", True),
        (
            "no_folder",
            "Error create directory, path:{path}",
            "5.1",
            "[E005005] Error create directory: {reason}, path:{path}",
        ),
    ],
)
def test_each_text_and_ability_has_the_release_that_brought_it(
    name: str, before: object, release: str, since: object
) -> None:
    order = list(RELEASES)
    assert getattr(find_release(release), name) == since
    assert getattr(find_release(order[order.index(release) - 1]), name) == before


def test_5_0_ends_the_lines_of_the_dialog_otherwise() -> None:
    assert "\r" not in find_release("5.0").not_answered
    assert (
        find_release("5.0").refused.splitlines()[2].startswith("Please execute 'hdc kill' and redo your command, then")
    )
    assert find_release("5.0.3").not_answered == find_release("7.0").not_answered


def test_the_guide_names_every_release() -> None:
    guide = (PROJECT / "docs/hdc.md").read_text()
    assert f"({', '.join(RELEASES)}; " in guide.replace("\n", " ")
