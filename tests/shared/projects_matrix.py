"""Public projects × arch × host toolchain: built with the commands that a user types, and run on the emulated board.

What is built, from which archive and what must be printed stands in tests/data/projects; the archives come from Debian's
source packages and the Python package index, with whatever mirror apt and pip are configured for.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import yaml

from core.errors import IntegrityError, NetworkError
from core.files import atomic_folder, sha256_file, sha256_json
from core.session import Session
from deploy.emulator.board.boards import create_board, stop_board
from native.source.pypi import fetch_file
from tests.shared.command_line import Said, invoke
from tests.shared.standin_sdk import board_libraries, standin_sdk
from toolchains.arch import ARM32, ARM64, Arch

DATA = Path(__file__).resolve().parents[1] / "data/projects"
TABLE = DATA / "projects.yaml"
SDK_RELEASE = "5.0.0"
BOARDS = {ARM32: "dayu200", ARM64: "dayu200-arm64"}
TOOLCHAINS = ("zig", "ohos")
FETCH_SECONDS = 900.0
BUILD_SECONDS = 3600.0
FOUND_BY = {
    "pkg-config": "prog: main.{suffix}\n"
    "\t$({compiler}) $(shell pkg-config --cflags {name}) -o $@ $< $(shell pkg-config --static --libs {name})\n",
    "library": "prog: main.{suffix}\n\t$({compiler}) -o $@ $< {name}\n",
    "cmake": "cmake_minimum_required(VERSION 3.16)\nproject(prog C CXX)\nfind_package(Threads)\nset(CMAKE_CXX_STANDARD 17)\n"
    "find_package({package} REQUIRED)\n"
    "add_executable(prog main.{suffix})\ntarget_link_libraries(prog {targets})\n",
}
"""How a program of ours finds the library → what builds it."""


class NotRun(Exception):
    """A cell that cannot be tried on this machine, and why."""


@dataclass(frozen=True, kw_only=True)
class Project:
    """One row of the table."""

    name: str
    file: str
    sha256: str
    debian: str = ""
    """Name of the source package."""
    pypi: str = ""
    subfolder: str = ""
    """Where in the archive the project is that is built."""
    prepare: Sequence[Sequence[str]] = ()
    """What its own page has people type before make; ``{arch}`` words are filled in."""
    system: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    options_for: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Further ones for an arch or a toolchain."""
    products: Sequence[str] = ()
    needs: Sequence[str] = ()
    """Other projects of the table, whose prefixes it gets."""
    program: str = ""
    """Which of its own programs is run; empty for one of ours that uses its libraries: ``DATA/<name>.c`` or ``.cpp``."""
    finds: Mapping[str, str] = field(default_factory=dict)
    """How ours finds the libraries: a key of `FOUND_BY` → name, or package and targets."""
    arguments: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """What lies beside the program: name → text, ``base64:…`` or ``source:PATH`` of a file of the archive."""
    status: int = 0
    """With which the program ends."""
    prints: str = ""
    """Pattern of what is printed, to standard output or error."""
    digest: str = ""
    """MD5 of what is printed to standard output."""
    same_as: str = ""
    """File of the archive that has what must be printed to standard output."""
    weight: int = 1
    """Rough CPU minutes of one cell; what is heavy comes last."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One project for one arch and host toolchain."""

    project: Project
    arch: Arch
    toolchain: str

    def __str__(self) -> str:
        return f"{self.project.name}, {self.arch.name}, {self.toolchain}"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine with an SDK, boards with the libraries that belong to it, and a folder to work in."""

    session: Session
    folder: Path
    cache: Path
    sdk: Path
    environment: Mapping[str, str]
    built: dict[str, tuple[Path, Said]] = field(default_factory=dict)
    """Cells of which the project is built."""

    def call(self, *words: str | Path) -> Said:
        return invoke(*words, seconds=BUILD_SECONDS, **self.environment)


def read_projects(path: Path = TABLE) -> dict[str, Project]:
    """The table, light ones first."""
    rows = yaml.safe_load(path.read_text())
    found = [Project(name=name, **row) for name, row in rows.items()]
    return {project.name: project for project in sorted(found, key=lambda project: project.weight)}


def cells(projects: Mapping[str, Project]) -> list[Cell]:
    return [
        Cell(project=project, arch=arch, toolchain=toolchain)
        for project in projects.values()
        for toolchain in TOOLCHAINS
        for arch in BOARDS
    ]


def inputs_of(cell: Cell, projects: Mapping[str, Project]) -> str:
    """Hash of what the table and the folder beside it have for a cell: a verdict is about that and nothing else."""
    project = cell.project
    ours = [path.read_text() for path in sorted(DATA.glob(f"{project.name}.c*"))]
    needs = [inputs_of(_with(cell, projects[name]), projects) for name in project.needs]
    return sha256_json({"cell": str(cell), "row": asdict(project), "program": ours, "needs": needs})


@contextmanager
def prepared_machine(session: Session, folder: Path, cache: Path) -> Iterator[Machine]:
    """The boards run until the end. All that is built stays in `folder`."""
    boards = [
        create_board(
            f"emulated-{profile}",
            home=folder / "data/boards",
            profile=profile,
            libraries={arch.name: str(board_libraries(arch.name, cache))},
        )
        for arch, profile in BOARDS.items()
    ]
    environment = {
        "OHFORGE_DATA_DIR": str(folder / "data"),
        "OHFORGE_CACHE_DIR": str(cache),
        "INVOKE_OHFORGE_BUILD_DIR": str(folder / "build"),
        "INVOKE_OHFORGE_RUNS_DIR": str(folder / "runs"),
    }
    try:
        yield Machine(
            session=session, folder=folder, cache=cache, sdk=standin_sdk(cache, SDK_RELEASE), environment=environment
        )
    finally:
        for board in boards:
            stop_board(board)


def fetch_project(session: Session, project: Project, cache: Path) -> Path:
    """The unpacked archive. Raises NetworkError, IntegrityError, HostToolMissing."""
    folder = cache / "projects" / project.sha256[:16] / project.name
    if not folder.is_dir():
        archive = (_fetch_debian if project.debian else _fetch_pypi)(session, project, cache / "projects/archives")
        with atomic_folder(folder) as fresh, tarfile.open(archive) as tar:
            tar.extractall(fresh, filter="data")
    entries = list(folder.iterdir())
    return (entries[0] if len(entries) == 1 else folder) / project.subfolder


def _fetch_pypi(session: Session, project: Project, folder: Path) -> Path:
    del folder
    return fetch_file(session, project.pypi, project.file, sha256=project.sha256).path


def _fetch_debian(session: Session, project: Project, folder: Path) -> Path:
    kept = folder / project.file
    if not kept.is_file():
        with _source_lists() as (configuration, work):
            _tool(["apt-get", "-c", configuration, "-qq", "update"], work)
            words = ["apt-get", "-c", configuration, "-qq", "--download-only", "--tar-only", "source", project.debian]
            _tool(words, work)
            if not (work / project.file).is_file():
                there = ", ".join(sorted(path.name for path in work.iterdir()))
                raise NetworkError(f"Debian's source package {project.debian} has no {project.file}, but {there}.")
            folder.mkdir(parents=True, exist_ok=True)
            partial = folder / f".{project.file}.part"
            shutil.move(work / project.file, partial)
            partial.replace(kept)
    if (found := sha256_file(kept)) != project.sha256:
        raise IntegrityError(f"{kept} has the SHA-256 {found}, but {project.sha256} is expected.")
    return kept


@contextmanager
def _source_lists() -> Iterator[tuple[str, Path]]:
    """An apt configuration with the machine's own places as places of sources, and a folder to download into."""
    listed = _tool(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
        Path("/"),
    )
    with tempfile.TemporaryDirectory(prefix="projects-apt-") as name:
        root = Path(name)
        for part in ("lists/partial", "cache/archives/partial", "work"):
            (root / part).mkdir(parents=True)
        (root / "status").touch()
        (root / "sources.list").write_text("".join(f"deb-src {line}\n" for line in sorted(set(listed.splitlines()))))
        (root / "apt.conf").write_text(
            f'Dir::State "{root}";\nDir::State::lists "{root}/lists";\nDir::State::status "{root}/status";\n'
            f'Dir::Cache "{root}/cache";\nDir::Etc::SourceList "{root}/sources.list";\nDir::Etc::SourceParts "-";\n'
            'APT::Sandbox::User "";\nAcquire::Languages "none";\n'
            "#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n"
        )
        yield str(root / "apt.conf"), root / "work"


def _tool(words: Sequence[str], folder: Path) -> str:
    if shutil.which(words[0]) is None:
        raise NotRun(f"{words[0]} is not on this machine")
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    if done.returncode:
        raise NetworkError(f"`{' '.join(words)}` failed: {done.stderr[-1000:]}")
    return done.stdout


def run_cell(machine: Machine, cell: Cell, projects: Mapping[str, Project]) -> str:
    """Builds and runs one cell; returns what its program printed.

    Raises AssertionError with the reason, NotRun, and what fetching raises.
    """
    project = cell.project
    source, built = build_project(machine, cell, projects)
    program = built.answer["products"].get(project.program) if project.program else ""
    if not program:
        assert not project.program, f"no product {project.program}, but {', '.join(built.answer['products'])}"
        prefixes = [source, *(build_project(machine, _with(cell, projects[n]), projects)[0] for n in project.needs)]
        ours = write_program(machine.folder / "programs" / f"{project.name}-program", project)
        program = _build(machine, cell, ours, prefixes, []).answer["products"]["prog"]
    return _run(machine, cell, source, program)


def build_project(machine: Machine, cell: Cell, projects: Mapping[str, Project]) -> tuple[Path, Said]:
    """Builds what the project needs, then itself; returns its folder and what the command answered."""
    if str(cell) in machine.built:
        return machine.built[str(cell)]
    project = cell.project
    prefixes = [build_project(machine, _with(cell, projects[name]), projects)[0] for name in project.needs]
    source = _prepare(machine, cell, inputs_of(cell, projects), fetch_project(machine.session, project, machine.cache))
    words = [word for name, value in options_of(cell).items() for word in ("--option", f"{name}={value}")]
    words += [word for name in project.products for word in ("--product", name)]
    words += ["--system", project.system] if project.system else []
    machine.built[str(cell)] = source, _build(machine, cell, source, prefixes, words)
    return machine.built[str(cell)]


def options_of(cell: Cell) -> dict[str, str]:
    further = [cell.project.options_for.get(name, {}) for name in (cell.arch.name, cell.toolchain)]
    return {name: value for options in (cell.project.options, *further) for name, value in options.items()}


def _with(cell: Cell, project: Project) -> Cell:
    return Cell(project=project, arch=cell.arch, toolchain=cell.toolchain)


def _prepare(machine: Machine, cell: Cell, inputs: str, source: Path) -> Path:
    """The source where it lies; a copy for the cell when something is to be typed in it first."""
    if not cell.project.prepare:
        return source
    copy = machine.folder / "prepared" / inputs[:16] / cell.project.name
    if not copy.is_dir():
        values = {"openssl_target": {"arm32": "linux-armv4", "arm64": "linux-aarch64"}[cell.arch.name]}
        # Under its last name from the start: OpenSSL's Configure writes down where it was run.
        shutil.copytree(source, copy, symlinks=True)
        try:
            for words in cell.project.prepare:
                if shutil.which(words[0]) is None and not (copy / words[0]).is_file():
                    raise NotRun(f"{words[0]} is not on this machine")
                filled = [word.format(**values) for word in words]
                done = subprocess.run(filled, cwd=copy, capture_output=True, text=True, timeout=600, check=False)
                assert done.returncode == 0, f"`{' '.join(filled)}`: {done.stderr[-1000:]}"
        except BaseException:
            shutil.rmtree(copy)
            raise
    return copy


def _build(machine: Machine, cell: Cell, source: Path, prefixes: Sequence[Path], words: Sequence[str]) -> Said:
    toolchain = ("--sdk", machine.sdk) if cell.toolchain == "ohos" else ("--toolchain", "zig")
    more = [word for prefix in prefixes for word in ("--prefix", prefix)]
    said = machine.call("build", "--source", source, "--arch", cell.arch.name, *toolchain, *more, *words)
    assert said.status == 0, f"build: {said.answer.get('error', {}).get('message') or said.text[-1500:]}"
    return said


def write_program(folder: Path, project: Project) -> Path:
    """A project of ours that uses the libraries of another."""
    code = next(path for suffix in ("c", "cpp") if (path := DATA / f"{project.name}.{suffix}").is_file())
    [(way, name)] = project.finds.items()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(code, folder / f"main{code.suffix}")
    package, _, targets = name.partition(" ")
    compiler = "CC" if code.suffix == ".c" else "CXX"
    text = FOUND_BY[way].format(
        suffix=code.suffix[1:], compiler=compiler, name=name, package=package, targets=targets or name
    )
    (folder / ("CMakeLists.txt" if way == "cmake" else "Makefile")).write_text(text)
    return folder


def _run(machine: Machine, cell: Cell, source: Path, program: str) -> str:
    project = cell.project
    words: list[str | Path] = []
    for name, content in project.files.items():
        words += ["--file", _write_file(machine.folder / "files" / project.name / name, content, source)]
    said = machine.call(
        "board.run", "--program", program, "--board", BOARDS[cell.arch], *words, "--", *project.arguments
    )
    assert "record" in said.answer, f"run: {said.answer.get('error', {}).get('message') or said.text[-1500:]}"
    record = Path(said.answer["record"])
    printed = (record / "stdout.log").read_bytes()
    text = b"".join([printed, (record / "stderr.log").read_bytes()]).decode("utf-8", "replace")
    tail = text[-600:]
    assert said.answer["exit_code"] == project.status, f"run: status {said.answer['exit_code']}: {tail}"
    if project.digest:
        found = hashlib.md5(printed, usedforsecurity=False).hexdigest()
        assert found == project.digest, f"run: {len(printed)} bytes with the MD5 {found}, not {project.digest}"
    if project.same_as:
        assert printed == (source / project.same_as).read_bytes(), f"run: {len(printed)} bytes, not {project.same_as}"
    assert re.search(project.prints, text, re.M), f"run: printed {tail!r}"
    return text


def _write_file(place: Path, content: str, source: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    kind, _, rest = content.partition(":")
    if kind == "source":
        shutil.copy(source / rest, place)
    elif kind == "base64":
        place.write_bytes(base64.b64decode(rest))
    else:
        place.write_text(content)
    return place
