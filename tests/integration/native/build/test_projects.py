"""Public projects from their archives to their output on the emulated board: a few small ones of the whole table.

All of them with both arches and toolchains: scripts/projects_matrix.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.console import Console, Verbosity
from core.errors import HostToolMissing, NetworkError
from core.session import Session
from core.settings import Settings
from tests.shared.projects_matrix import (
    DATA,
    Cell,
    Machine,
    NotRun,
    build_project,
    fetch_project,
    prepared_machine,
    read_projects,
    run_cell,
)
from toolchains.arch import ARCHES, ARM32, ARM64

pytestmark = pytest.mark.timeout(1200)
PROJECTS = read_projects()
FEW = [("lua", "arm32", "zig"), ("bzip2", "arm64", "zig"), ("zlib", "arm64", "ohos")]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Iterator[Machine]:
    session = Session(
        settings=Settings(cache_dir=str(shared_cache)), console=Console(json_mode=True, verbosity=Verbosity.QUIET)
    )
    with prepared_machine(session, tmp_path_factory.mktemp("projects"), shared_cache) as machine:
        yield machine


def cell_of(machine: Machine, name: str, arch: str, toolchain: str) -> Cell:
    """The cell, when its archives can be had here."""
    project = PROJECTS[name]
    for needed in (name, *project.needs):
        try:
            fetch_project(machine.session, PROJECTS[needed], machine.cache)
        except (NetworkError, NotRun, HostToolMissing) as why:
            pytest.skip(f"the archive of {needed} cannot be had here: {why}")
    return Cell(project=project, arch=ARCHES[arch], toolchain=toolchain)


@pytest.mark.parametrize(("name", "arch", "toolchain"), FEW)
def test_a_public_project_is_built_and_prints_on_the_board_what_is_published(
    machine: Machine, name: str, arch: str, toolchain: str
) -> None:
    run_cell(machine, cell_of(machine, name, arch, toolchain), PROJECTS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("arch", [ARM32.name, ARM64.name])
def test_a_shared_libpng_finds_its_shared_zlib_beside_the_program(machine: Machine, arch: str) -> None:
    cell = cell_of(machine, "libpng", arch, "ohos")
    run_cell(machine, cell, PROJECTS)
    manifests = (machine.folder / "build/libpng-program").glob(f"{arch}-*/artifact.json")
    [libraries] = [json.loads(path.read_text())["runtime_libraries"] for path in manifests]
    assert libraries == ["out/libpng16.so.16", "out/libz.so.1"]
    zlib = build_project(machine, Cell(project=PROJECTS["zlib"], arch=cell.arch, toolchain="ohos"), PROJECTS)[1]
    assert Path(zlib.answer["prefix"], "lib/libz.so.1").exists()


@pytest.mark.parametrize("name", PROJECTS)
def test_a_row_of_the_table_is_whole(name: str) -> None:
    """What is needed is there, what is run is named, and what must be printed is said."""
    project = PROJECTS[name]
    assert bool(project.debian) != bool(project.pypi)
    assert len(project.sha256) == 64
    assert set(project.needs) <= set(PROJECTS)
    ours = [path for path in (DATA / f"{name}.c", DATA / f"{name}.cpp") if path.exists()]
    assert bool(project.program) != bool(ours and project.finds)
    assert project.prints or project.digest or project.same_as


def test_no_program_of_ours_is_left_over() -> None:
    assert {path.stem for path in DATA.glob("*.c*")} <= set(PROJECTS)
