"""Real limits of an emulated board: what is done before they hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deploy.emulator.board.limits import _forget_pages
from tests.support.trees import nest


@pytest.mark.usefixtures("any_depth")
def test_pages_are_dropped_in_folders_of_any_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside").write_text("not of the disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "link").symlink_to(tmp_path / "outside")
    nest(disk, 1200, "d")
    (disk / "top").write_text("content")
    files = {disk / "top", disk / "/".join("d" * 1200) / "f"}
    dropped: list[Path] = []

    def drop(descriptor: int, offset: int, length: int, advice: int) -> None:
        assert (offset, length, advice) == (0, 0, os.POSIX_FADV_DONTNEED)
        dropped.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "posix_fadvise", drop)
    _forget_pages(disk)
    assert set(dropped) == files
