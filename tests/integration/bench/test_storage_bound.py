"""The regime in which a model is larger than memory, produced on an emulated board with real limits, against its forecast."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.storage_bound import limited_board, make_models, measure, own_disk
from core.errors import HostUnsupported
from core.session import Session
from tests.support.emulated import emulated_home

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]
MIB = 1024 * 1024


def test_a_token_waits_for_what_it_reads_from_storage_until_the_limit_is_lifted(
    session: Session, tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OHFORGE_CACHE_DIR", str(shared_cache))
    try:
        with own_disk(tmp_path, readahead=128) as disk, emulated_home(disk / "home") as home:
            for name, value in home.items():
                monkeypatch.setenv(name, value)
            models = make_models(session, tmp_path / "models")
            with limited_board(session, memory_limit=36 * MIB, storage_rate=30 * MIB) as board:
                small, large = measure(session, board, "x86_64", models, tokens=4, limited=True)
            with limited_board(session, memory_limit=0, storage_rate=30 * MIB) as board:
                free_small, free_large = measure(session, board, "x86_64", models, tokens=4, limited=False)
    except (PermissionError, subprocess.CalledProcessError, HostUnsupported) as error:
        pytest.skip(f"this machine lets no limit be set: {error}")
    for row in (small, large):
        assert row.verdict == "storage-bound"
        assert row.seconds == pytest.approx(row.forecast, rel=0.15)
        # 0.05 where nothing else runs; what else is read, such as pages of the program itself, counts too.
        assert row.read == pytest.approx(row.read_foreseen, rel=0.10)
    assert large.seconds / small.seconds == pytest.approx(large.file / small.file, rel=0.15)
    for free, row in ((free_small, small), (free_large, large)):
        assert free.verdict == "fits"
        assert free.read < 0.05 * free.read_foreseen
        assert free.seconds < row.seconds / 2
    assert free_large.seconds / free_small.seconds < 0.8 * large.seconds / small.seconds
