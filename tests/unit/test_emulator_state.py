"""What the stand-in's server remembers, and the texts of its releases."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import UnknownName
from deploy.emulator.faults import FAULTS, FaultFile
from deploy.emulator.state import NoServer, Server, find_server
from deploy.emulator.versions import RELEASES, words_of


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_the_port_comes_from_the_option_then_the_variable_then_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_server("").port == 8710
    monkeypatch.setenv("OHOS_HDC_SERVER_PORT", "9000")
    assert find_server("").port == 9000
    assert find_server("127.0.0.1:9001").port == 9001


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("99999", "OHOS_HDC_SERVER_PORT 99999 is not in (0, 65535] range\n"),
        ("0", "OHOS_HDC_SERVER_PORT 0 is not in (0, 65535] range\n"),
        ("abc", "OHOS_HDC_SERVER_PORT abc is not digit\n"),
    ],
)
def test_a_bad_port_is_told_in_the_usual_words(value: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHOS_HDC_SERVER_PORT", value)
    with pytest.raises(NoServer) as caught:
        find_server("")
    assert (str(caught.value), caught.value.wait) == (words, False)


def test_a_second_port_of_one_temporary_folder_has_no_server(tmp_path: Path) -> None:
    Server(port=8710, folder=tmp_path).start()
    with pytest.raises(NoServer) as caught:
        Server(port=8711, folder=tmp_path).start()
    assert caught.value.wait


def test_kill_ends_the_server_of_the_folder_whatever_its_port(tmp_path: Path) -> None:
    Server(port=8710, folder=tmp_path).start()
    Server(port=8711, folder=tmp_path).kill()
    assert not Server(port=8710, folder=tmp_path).runs
    Server(port=8711, folder=tmp_path).start()


def test_what_is_known_of_keys_lasts_until_the_server_is_killed(tmp_path: Path) -> None:
    server = Server(port=8710, folder=tmp_path)
    server.start()
    with server.change() as state:
        state.keys["127.0.0.1:5555"] = {"status": "Offline"}
    assert server.read().keys == {"127.0.0.1:5555": {"status": "Offline"}}
    assert Server(port=8711, folder=tmp_path).read().keys == {}
    server.kill()
    assert server.read().keys == {}


@pytest.mark.parametrize(
    ("release", "version"),
    [
        *(("3.2", "1.2.0a"), ("4.0", "1.3.0a"), ("4.1", "2.0.0a"), ("5.0", "3.1.0b"), ("5.0.3", "3.1.0e")),
        *(("5.1", "3.1.0e"), ("6.0", "3.2.0c"), ("6.1", "3.2.0c"), ("7.0-Beta1", "3.2.0e"), ("7.0", "3.2.0f")),
    ],
)
def test_each_release_has_its_version_number(release: str, version: str) -> None:
    assert words_of(release).version == version


def test_a_patch_release_speaks_as_its_minor_release() -> None:
    assert words_of("5.1.2") is RELEASES["5.1"]
    assert words_of("5.0.1") is RELEASES["5.0"]


def test_an_unknown_release_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"known: 3\.2, 4\.0|did you mean"):
        words_of("9.9")


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
        (
            "no_folder",
            "[E005005] Error create directory: {reason}, path:{path}",
            "7.0",
            "[E005005] Error create directory: {reason}, path:{masked}",
        ),
    ],
)
def test_each_text_and_ability_has_the_release_that_brought_it(
    name: str, before: object, release: str, since: object
) -> None:
    order = list(RELEASES)
    assert getattr(words_of(release), name) == since
    assert getattr(words_of(order[order.index(release) - 1]), name) == before


def test_5_0_ends_the_lines_of_the_dialog_otherwise() -> None:
    assert "\r" not in words_of("5.0").not_answered
    assert words_of("5.0").refused.splitlines()[2].startswith("Please execute 'hdc kill' and redo your command, then")
    assert words_of("5.0.3").not_answered == words_of("7.0").not_answered


def test_a_fault_with_a_count_switches_itself_off(tmp_path: Path) -> None:
    faults = FaultFile(folder=tmp_path)
    faults.set("cut-output", at=5, count=2)
    assert [faults.use("cut-output") is not None for _ in range(3)] == [True, True, False]
    assert faults.active() == {}


def test_a_fault_without_a_count_stays(tmp_path: Path) -> None:
    faults = FaultFile(folder=tmp_path)
    faults.set("slow", rate=10)
    for _ in range(3):
        used = faults.use("slow")
        assert used is not None
        assert used["rate"] == 10
    faults.clear()
    assert faults.use("slow") is None


def test_an_unknown_fault_and_an_unknown_parameter_are_refused(tmp_path: Path) -> None:
    faults = FaultFile(folder=tmp_path)
    with pytest.raises(UnknownName, match="did you mean 'cut-output'"):
        faults.set("cut-outputs")
    with pytest.raises(UnknownName, match="parameter of slow"):
        faults.set("slow", speed=1)
    assert faults.active() == {}


def test_every_fault_is_described() -> None:
    assert all(fault.text and name == fault.name for name, fault in FAULTS.items())


def test_the_guide_names_every_fault_and_its_parameters() -> None:
    guide = (Path(__file__).parents[2] / "docs/emulated-board.md").read_text()
    for fault in FAULTS.values():
        assert f"| `{fault.name}`{''.join(f' {name}' for name in fault.parameters)} |" in guide, fault.name


def test_the_guide_names_every_release() -> None:
    guide = (Path(__file__).parents[2] / "docs/emulated-board.md").read_text()
    assert f"({', '.join(RELEASES)}; " in guide.replace("\n", " ")


def test_a_fault_can_come_after_some_commands(tmp_path: Path) -> None:
    faults = FaultFile(folder=tmp_path)
    faults.set("cut-output", skip=2)
    faults.set("slow")
    assert [sorted(faults.begin_command()) for _ in range(4)] == [
        ["slow"],
        ["slow"],
        ["cut-output", "slow"],
        ["cut-output", "slow"],
    ]
