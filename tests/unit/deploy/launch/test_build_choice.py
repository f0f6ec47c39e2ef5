"""Which build of a program fits a board: which arch, which tuning."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from core.errors import MissingLibrary, UnknownName, WrongArch
from core.session import Session
from deploy.board.profiles import load_profile
from deploy.board.survey import survey_board
from deploy.launch import launch
from deploy.launch.build_choice import choose_arch, choose_cpu, known_arches
from native.artifact.artifact import write_artifact
from tests.support.local_board import LocalBoard
from tests.support.run_requests import make_request
from tests.unit.native.artifact.test_artifact import make_artifact
from toolchains.arch import ARCHES
from toolchains.host_toolchain import ToolchainChoice
from toolchains.toolchain import SelectedToolchain

ZIG = SelectedToolchain(name="zig", reason="", sdk=None)


@pytest.fixture
def board(tmp_path: Path) -> LocalBoard:
    """A board with the profile of the DAYU200: a 32-bit system on a 64-bit kernel."""
    board = LocalBoard(tmp_path / "board")
    board.profile = dataclasses.replace(load_profile("dayu200"), device_dir=str(board.folder))
    return board


@pytest.mark.parametrize(
    ("static", "profile", "arch"),
    [
        (True, "dayu200", "arm64"),  # the kernel is enough
        (False, "dayu200", "arm32"),  # the loader is 32-bit
        (True, "dayu200-arm64", "arm64"),
        (False, "dayu200-arm64", "arm64"),
    ],
)
def test_the_arch_follows_from_the_board_and_from_how_programs_are_linked(
    session: Session, board: LocalBoard, static: bool, profile: str, arch: str, capsys: pytest.CaptureFixture[str]
) -> None:
    board.profile = load_profile(profile)
    assert choose_arch(session, board, ToolchainChoice(static=static), ZIG).name == arch
    assert f"arch: {arch} (" in capsys.readouterr().out


@pytest.mark.parametrize(("toolchain", "arch"), [("zig", "arm64"), ("ohos", "arm32")])
def test_without_a_word_about_linking_the_toolchain_decides(
    session: Session, board: LocalBoard, toolchain: str, arch: str
) -> None:
    selected = SelectedToolchain(name=toolchain, reason="", sdk=None)
    assert choose_arch(session, board, ToolchainChoice(), selected).name == arch


def test_an_arch_that_was_asked_for_is_taken_or_refused(session: Session, board: LocalBoard) -> None:
    assert choose_arch(session, board, ToolchainChoice(arch="armv7"), ZIG).name == "arm32"
    with pytest.raises(WrongArch, match="x86_64") as caught:
        choose_arch(session, board, ToolchainChoice(arch="x86_64"), ZIG)
    assert "--arch arm32" in caught.value.remedy
    with pytest.raises(UnknownName, match="arm64"):
        choose_arch(session, board, ToolchainChoice(arch="arm46"), ZIG)


def test_a_board_without_a_profile_is_asked_once(session: Session, board: LocalBoard) -> None:
    board.profile = dataclasses.replace(load_profile("generic"), device_dir=str(board.folder))
    survey = survey_board(session, board)
    board.calls.clear()
    assert known_arches(session, board) == known_arches(session, board) == (survey.arches, survey.static_only)
    assert board.calls == ["shell"]


def test_with_dry_nothing_is_noted_of_a_board(session: Session, board: LocalBoard) -> None:
    board.profile = dataclasses.replace(load_profile("generic"), device_dir=str(board.folder))
    session = dataclasses.replace(session, dry=True)
    assert known_arches(session, board)[0]
    assert not session.settings.cache.exists()
    assert list(board.folder.iterdir()) == []


def test_what_is_known_of_a_board_is_forgotten_when_it_proves_wrong(
    session: Session, board: LocalBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.profile = dataclasses.replace(load_profile("generic"), device_dir=str(board.folder))
    known_arches(session, board)

    def refuse(*_: object) -> None:
        raise MissingLibrary("no loader")

    monkeypatch.setattr(launch, "execute", refuse)
    with pytest.raises(MissingLibrary):
        launch._perform(session, launch.Launch(board=board, run=make_request(board.folder)))
    board.calls.clear()
    known_arches(session, board)
    assert board.calls == ["shell"]


def test_the_tuning_is_the_one_asked_for_else_the_profiles(session: Session, board: LocalBoard) -> None:
    assert choose_cpu(session, board, ARCHES["arm64"], "cortex-a53") == "cortex-a53"
    assert choose_cpu(session, board, ARCHES["arm64"], "") == "cortex-a55"
    assert choose_cpu(session, board, ARCHES["x86_64"], "") == ""
    board.profile = load_profile("generic")
    assert choose_cpu(session, board, ARCHES["arm64"], "") == ""


def test_a_generic_build_that_is_there_is_used_until_a_tuned_one_is(
    session: Session, board: LocalBoard, capsys: pytest.CaptureFixture[str]
) -> None:
    write_artifact(make_artifact(session.settings.builds / "hello" / "arm64-0123456789ab"))
    assert choose_cpu(session, board, ARCHES["arm64"], "", "hello") == ""
    assert "--cpu cortex-a55" in capsys.readouterr().out
    assert choose_cpu(session, board, ARCHES["arm64"], "", "other") == "cortex-a55"
    tuned = make_artifact(session.settings.builds / "hello" / "arm64-ba9876543210", cpu="cortex-a55")
    write_artifact(tuned)
    assert choose_cpu(session, board, ARCHES["arm64"], "", "hello") == "cortex-a55"
