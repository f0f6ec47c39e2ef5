"""Which builds are removed, and which are kept."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from core.errors import Busy, UnknownName
from core.session import Session
from native.artifact.artifact import read_artifact
from native.build.clean import find_builds, remove_builds, would_remove
from native.build.job import BuildJob
from tests.support.build_parts import Workshop
from tests.support.trees import nest


def test_builds_are_removed_by_program_and_arch_and_nothing_else(workshop: Workshop) -> None:
    kept, gone = workshop.build(arch="arm64").artifact.folder, workshop.build(arch="arm32").artifact.folder
    notes = workshop.session.settings.builds / "hello" / "my notes"
    notes.mkdir()
    removed = remove_builds(find_builds(workshop.session, program="hello", arch="arm32"))
    assert removed.folders == (gone,)
    assert removed.size > 0
    assert (kept.is_dir(), gone.exists(), notes.is_dir()) == (True, False, True)
    assert workshop.build(arch="arm64").reason == "nothing changed"
    with pytest.raises(UnknownName, match="no program that was built 'helo'; did you mean 'hello'"):
        remove_builds(find_builds(workshop.session, program="helo"))


def test_the_newest_builds_can_be_kept(workshop: Workshop) -> None:
    old = workshop.build().artifact
    workshop.toolchain.update(cpu="cortex-a55", id="2" * 64)
    new = workshop.build().artifact
    os.utime(old.folder / "artifact.json", (1, 1))
    assert remove_builds(find_builds(workshop.session, keep_newest=True)).folders == (old.folder,)
    assert read_artifact(new.folder) == new


def test_without_its_tree_an_artifact_stays_usable(workshop: Workshop) -> None:
    artifact = workshop.build().artifact
    assert remove_builds(find_builds(workshop.session, trees_only=True)).folders == (artifact.folder / "tree",)
    assert workshop.build().reason == "nothing changed"
    assert remove_builds(find_builds(workshop.session, trees_only=True)).folders == ()


def test_a_build_that_goes_on_is_not_removed(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("native.build.clean.PATIENCE", 0.1)
    refused: list[bool] = []

    def remove(job: BuildJob) -> None:
        with pytest.raises(Busy, match="the end of the build"):
            remove_builds(find_builds(workshop.session))
        refused.append(True)

    workshop.system.before_products = remove
    workshop.build()
    assert refused == [True]


def test_four_that_remove_at_once_remove_every_build_once(workshop: Workshop) -> None:
    built = {workshop.build(arch=arch).artifact.folder for arch in ("arm32", "arm64")}
    found = find_builds(workshop.session)
    with ThreadPoolExecutor(4) as pool:
        removed = list(pool.map(remove_builds, [found] * 4))
    assert sorted(folder for each in removed for folder in each.folders) == sorted(built)
    assert [each.size for each in removed if not each.folders] == [0] * sum(not each.folders for each in removed)
    assert find_builds(workshop.session) == []


def test_what_vanishes_while_its_size_is_asked_for_takes_no_room(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workshop.build().artifact.folder
    monkeypatch.setattr("native.build.clean.files_in", lambda _: [folder / "gone", folder / "artifact.json"])
    assert would_remove([folder])[0].size == (folder / "artifact.json").stat().st_size


@pytest.mark.usefixtures("any_depth")
def test_a_tree_deeper_than_python_recurses_is_measured_and_removed(workshop: Workshop) -> None:
    folder = workshop.build().artifact.folder
    nest(folder / "tree", 1200)
    there = would_remove([folder / "tree"])[0].size
    removed = remove_builds(find_builds(workshop.session, trees_only=True))
    assert removed.folders == (folder / "tree",)
    assert removed.size == there
    assert not (folder / "tree").exists()


def test_there_is_nothing_to_remove_on_a_fresh_machine(session: Session) -> None:
    assert remove_builds(find_builds(session)).folders == ()
