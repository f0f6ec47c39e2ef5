"""Temporary folders whose owner was killed are removed by the next, those of the living are not."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from core.session import PROJECT
from core.spool import remove_abandoned_spools, spool_folder

OWNER = """
import sys
from core.spool import spool_folder
with spool_folder() as folder:
    (folder / "chunk").write_bytes(bytes(1000))
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_spool_is_gone_when_its_block_ends(temporary: Path) -> None:
    with spool_folder() as folder:
        (folder / "deep").mkdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert list(temporary.iterdir()) == [folder]
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_has_is_not(temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        remove_abandoned_spools()
        assert (folder / "chunk").stat().st_size == 1000
        owner.kill()
        owner.wait()
        assert (folder / "chunk").exists()
        with spool_folder() as mine:
            assert list(temporary.iterdir()) == [mine]


def test_what_only_looks_like_a_spool_stays(temporary: Path) -> None:
    (temporary / "precious").mkdir()
    (temporary / "precious/.owner").touch()
    (temporary / "ohforge-spool-link").symlink_to("precious")
    (temporary / "ohforge-spool-file").touch()
    (temporary / "ohforge-spool-other").mkdir()  # nobody's lock is in it
    remove_abandoned_spools()
    assert (temporary / "precious/.owner").exists()
    assert len(list(temporary.iterdir())) == 4
