"""ccache and sccache: which is taken, what it is told, what it hit."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.session import Session
from native.build.cache import find_compiler_cache


@pytest.mark.parametrize("name", ["ccache", "sccache"])
def test_a_compiler_cache_keeps_to_our_folder(
    name: str, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("CCACHE_DIR", "SCCACHE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / name).write_text("#!/bin/sh\n")
    (bin_folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_folder))
    cache = find_compiler_cache(session, tree=tmp_path / "tree", log=tmp_path / "log")
    assert cache is not None
    assert cache.program == str(bin_folder / name)
    assert cache.environment[f"{name.upper()}_DIR"] == str(session.settings.cache / name)
    assert cache.hits() is None


def test_without_a_compiler_cache_there_is_none(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler_cache(session, tree=tmp_path / "tree", log=tmp_path / "log") is None


def test_the_users_own_cache_folder_is_kept(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ccache").write_text("#!/bin/sh\n")
    (tmp_path / "ccache").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CCACHE_DIR", "/mine")
    cache = find_compiler_cache(session, tree=tmp_path / "tree", log=tmp_path / "log")
    assert cache is not None
    assert "CCACHE_DIR" not in cache.environment


def test_hits_are_counted_from_ccaches_own_record(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ccache").write_text("#!/bin/sh\n")
    (tmp_path / "ccache").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    log = tmp_path / "log"
    cache = find_compiler_cache(session, tree=tmp_path / "tree", log=log)
    assert cache is not None
    log.write_text("# a.c\ndirect_cache_hit\nlocal_storage_hit\n# b.c\ncache_miss\n# c.c\npreprocessed_cache_hit\n")
    assert cache.hits() == (2, 3)
