"""Folders that are hard to remove, and names that are as long as a name may be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import CannotWrite, explain_exception
from core.files import atomic_folder, folders_in, make_folder, remove_all, remove_tree, write_atomic
from tests.support.trees import nest


@pytest.fixture
def ordinary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder at hand belongs to a user whom modes stop, which they do not stop when the tests run as root."""
    monkeypatch.chdir(tmp_path)
    if os.geteuid() != 0:
        yield
        return
    os.chown(tmp_path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_removing_a_tree_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/kept").write_text("kept")
    (tmp_path / "tree/inner").mkdir(parents=True)
    (tmp_path / "tree/inner/link").symlink_to(tmp_path / "mine")
    (tmp_path / "to the tree").symlink_to(tmp_path / "mine")
    assert folders_in(tmp_path / "tree") == [tmp_path / "tree", tmp_path / "tree/inner"]
    for name in ("tree", "to the tree", "tree"):
        remove_all(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine/kept").read_text() == "kept"


@pytest.mark.usefixtures("any_depth")
@pytest.mark.parametrize(("depth", "name"), [(1900, "d"), (60, "d" * 255)], ids=["levels", "path longer than PATH_MAX"])
def test_a_tree_of_any_depth_is_removed(tmp_path: Path, depth: int, name: str) -> None:
    (tmp_path / "tree/also").mkdir(parents=True)
    nest(tmp_path / "tree", depth, name)
    remove_tree(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("ordinary")
def test_folders_that_may_not_be_read_or_written_are_removed() -> None:
    for mode in (0o000, 0o500, 0o300):
        inner = Path(f"tree/a/{mode}/b")
        inner.mkdir(parents=True)
        (inner / "f").write_text("f")
        inner.chmod(mode)
        inner.parent.chmod(mode)
    Path("tree").chmod(0o500)
    remove_all(Path("tree"))
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("ordinary")
def test_what_is_left_of_a_tree_is_told() -> None:
    Path("closed/tree").mkdir(parents=True)
    Path("closed").chmod(0o500)
    with pytest.raises(CannotWrite, match="cannot be removed"):
        remove_all(Path("closed/tree"))
    Path("closed").chmod(0o700)


def test_the_longest_name_is_written_whole(tmp_path: Path) -> None:
    for name in ("n" * 255, "é" * 127):
        write_atomic(tmp_path / name, "content")
        assert (tmp_path / name).read_text() == "content"
        (tmp_path / name).unlink()
        with atomic_folder(tmp_path / name) as folder:
            (folder / "f").write_text("f")
        assert (tmp_path / name / "f").read_text() == "f"


def test_a_name_that_no_file_can_have_is_no_defect(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="name too long") as caught:
        write_atomic(tmp_path / ("n" * 256), "content")
    assert explain_exception(caught.value).code == "OHF7703"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("any_depth")
def test_folders_are_made_however_deep(tmp_path: Path) -> None:
    deep = tmp_path / "/".join(["d"] * 1500)
    make_folder(deep)
    make_folder(deep)
    assert deep.is_dir()
