"""board.list, and boards as the settings describe them."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigurationError
from core.session import Session
from core.settings import BoardEntry, read_settings
from deploy.board.profiles import list_profiles
from deploy.hdc.choose import choose_board
from deploy.hdc.listed import list_boards
from tests.support.hdc_lists import KEY, LIST, NONE, ONE, OTHER, SILENT, TWO, MakeSession

# board.list ----------------------------------------------------------------------------------------


def test_the_list_has_real_boards_named_ones_and_emulated_ones(with_hdc: MakeSession) -> None:
    boards = {"bench": BoardEntry(serial=KEY, profile="dayu200"), "shelf": BoardEntry(serial="AABB")}
    listed = {board["serial"]: board for board in list_boards(with_hdc([(LIST, TWO)], boards=boards))}
    assert (listed[KEY]["state"], listed[KEY]["profile"], listed[KEY]["name"]) == ("connected", "dayu200", "bench")
    assert (listed["AABB"]["state"], listed["AABB"]["name"]) == ("not connected", "shelf")
    assert not listed[OTHER]["emulated"]
    assert listed["emulated-dayu200"]["emulated"]


def test_the_list_needs_no_hdc(session: Session) -> None:
    assert {board["serial"] for board in list_boards(session)} >= {"emulated-dayu200", "emulated-dayu200-arm64"}


def test_no_test_of_this_folder_reaches_a_real_hdc() -> None:
    assert "empty" in os.environ["PATH"]


# boards as data ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("boards", "key", "text"),
    [
        ({"bench": {"profile": "dayu20"}}, "bench.profile", "did you mean 'dayu200'"),
        ({"a": {"serial": KEY}, "bench": {"serial": KEY}}, "bench.serial", r"ohforge\.boards\.a too"),
        ({"bench": {"serial": "300.1.1.1:8710"}}, "bench.serial", "IP:PORT"),
        ({"bench": {"serial": "192.168.1.9:0"}}, "bench.serial", "IP:PORT"),
        ({"bench": {"serial": "192.168.1.9:"}}, "bench.serial", "IP:PORT"),
        ({"bench": {"serial": KEY, "hdc_server": "lab"}}, "bench.hdc_server", "IP:PORT"),
        ({"bench": {"serial": KEY, "hdc_server": "10.0.0.1:99999"}}, "bench.hdc_server", "IP:PORT"),
        ({"bench": {"via": "lab1", "key": KEY}}, "bench.via", "ssh://"),
        ({"bench": {"via": "ssh://lab1", "key": KEY, "serial": KEY}}, "bench.via", "without `serial`"),
        ({"bench": {"key": KEY}}, "bench.key", "with `via`"),
        ({"bench": {"serial": KEY, "hdc": "/opt/hdc"}}, "bench.hdc", "with `via`"),
        (
            {"a": {"via": "ssh://lab1", "key": KEY}, "bench": {"via": "ssh://lab1", "key": KEY}},
            "bench.key",
            r"ohforge\.boards\.a too",
        ),
    ],
)
def test_an_entry_that_cannot_be_right_is_told_with_file_and_key(boards: dict[str, Any], key: str, text: str) -> None:
    files = {"/home/me/.invoke.yaml": {"ohforge": {"boards": boards}}}
    with pytest.raises(ConfigurationError, match=text) as caught:
        read_settings({"boards": boards}, lambda: files, list_profiles)
    assert caught.value.message.startswith(f"/home/me/.invoke.yaml: ohforge.boards.{key}")


def test_entries_that_can_be_right_are_taken() -> None:
    boards = {"lab": {"serial": OTHER, "hdc_server": "8711"}, "x": {"profile": "dayu200"}, "y": {"profile": "dayu200"}}
    boards |= {"here": {"serial": KEY}, **{f"rack{n}": {"via": f"ssh://lab{n}", "key": KEY} for n in (1, 2)}}
    assert read_settings({"boards": boards}, list_profiles=list_profiles).boards["lab"].hdc_server == "8711"


def test_an_entry_without_a_serial_is_an_emulated_board_of_its_own(session: Session, tmp_path: Path) -> None:
    boards = {"second": BoardEntry(profile="dayu200"), "third": BoardEntry(serial="emulated-x", profile="generic")}
    session = dataclasses.replace(session, settings=dataclasses.replace(session.settings, boards=boards))
    second = choose_board(session, "second")
    assert (second.serial, second.profile.name, second.emulated) == ("emulated-second", "dayu200", True)
    assert choose_board(session, "third").serial == "emulated-x"
    listed = {board["serial"]: board["profile"] for board in list_boards(session)}
    assert (listed["emulated-second"], listed["emulated-x"]) == ("dayu200", "generic")
    # It exists from now on, whatever the settings say.
    later = dataclasses.replace(session, settings=dataclasses.replace(session.settings, boards={}))
    assert choose_board(later, "emulated-second").profile.name == "dayu200"
    changed = {"second": BoardEntry(profile="generic")}
    with pytest.raises(ConfigurationError, match="dayu200"):
        choose_board(
            dataclasses.replace(session, settings=dataclasses.replace(session.settings, boards=changed)), "second"
        )


def test_each_server_that_the_settings_name_is_listed(with_hdc: MakeSession) -> None:
    entry = BoardEntry(serial=KEY, hdc_server="10.0.0.2:8711")
    there = (["-s", "10.0.0.2:8711", *LIST], ONE)
    listed = {board["serial"]: board for board in list_boards(with_hdc([(LIST, NONE), there], boards={"lab": entry}))}
    assert (listed[KEY]["state"], listed[KEY]["name"]) == ("connected", "lab")


def test_a_board_behind_a_host_is_listed_without_asking_it_and_is_no_emulated_one(with_hdc: MakeSession) -> None:
    session = with_hdc([(LIST, NONE)], boards={"rack": BoardEntry(via="ssh://lab1", key=KEY, profile="dayu200")})
    listed = {board["serial"]: board for board in list_boards(session)}
    there = listed[f"ssh://lab1/{KEY}"]
    assert (there["name"], there["state"], there["profile"]) == ("rack", "not asked", "dayu200")
    assert "emulated-rack" not in listed


def test_a_named_server_that_does_not_answer_is_told_and_the_rest_is_listed(
    with_hdc: MakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = BoardEntry(serial=OTHER, hdc_server="10.0.0.2:8711")
    silent = (["-s", "10.0.0.2:8711", *LIST], SILENT)
    listed = {board["serial"]: board for board in list_boards(with_hdc([(LIST, ONE), silent], boards={"lab": entry}))}
    assert (listed[KEY]["state"], listed[OTHER]["state"]) == ("connected", "not connected")
    assert "10.0.0.2:8711 does not answer" in capsys.readouterr().err
