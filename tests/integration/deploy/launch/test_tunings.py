"""The CPU tuning that each profile's boards get by default compiles llama.cpp: that part of it which tells quickly.

All tunings with both host toolchains: scripts/tuning_matrix.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from core.session import Session
from deploy.board.profiles import list_profiles, load_profile
from deploy.hdc.choose import choose_board
from deploy.launch.build_choice import choose_cpu
from tests.shared.tuning_matrix import Cell, build_cell
from toolchains.arch import ARCHES
from toolchains.tuning import GENERIC

PLACES = [
    (profile, arch, toolchain)
    for profile in list_profiles()
    for arch in load_profile(profile).arches
    for toolchain in ("zig", "ohos")
    # The toolchain ohos links dynamically, and such a program does not run where only static ones do.
    if toolchain == "zig" or arch not in load_profile(profile).static_only
]


@pytest.fixture(autouse=True)
def lasting_caches(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_CACHE_DIR", str(shared_cache))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all of them are built: boards with the same CPU share what was compiled."""
    return tmp_path_factory.mktemp("tunings")


@pytest.mark.timeout(2700)
@pytest.mark.parametrize(("profile", "arch", "toolchain"), PLACES)
def test_llama_compiles_with_the_tuning_that_a_board_gets_by_default(
    session: Session, shared_cache: Path, folder: Path, profile: str, arch: str, toolchain: str
) -> None:
    cpu = choose_cpu(session, choose_board(session, profile), ARCHES[arch], "") or GENERIC
    build_cell(session, Cell(arch=ARCHES[arch], cpu=cpu, toolchain=toolchain, program="llama"), folder, shared_cache)
