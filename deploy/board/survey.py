"""What a board is and has: one script asks for everything, so that it costs one round trip."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeVar

from core.deadline import Deadline
from core.errors import BoardError, LostConnection, PermissionOnBoard
from core.session import Session
from deploy.board.clock import FORMAT, BoardClock, read_clock
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.board.script import quote
from toolchains.arch import ARCHES

T = TypeVar("T")
PARAMETERS = (
    "const.product.model",
    "const.product.brand",
    "const.product.name",
    "const.product.devicetype",
    "const.product.software.version",
    "const.product.cpu.abilist",
    "const.ohos.apiversion",
    "const.ohos.fullname",
    "const.ohos.releasetype",
    "const.debuggable",
    "const.build.ver.physical",
)
LIBRARY_FOLDERS = tuple(
    f"{place}{suffix}"
    for suffix in ("", "64")
    for place in ("/lib", "/system/lib", "/vendor/lib", "/chip_prod/lib", "/sys_prod/lib")
) + tuple(
    f"/{part}/lib{suffix}/{below}"
    for suffix in ("", "64")
    for part, below in (
        ("system", "ndk"),
        ("system", "platformsdk"),
        ("system", "chipset-sdk"),
        ("system", "chipset-sdk-sp"),
        ("system", "chipset-pub-sdk"),
        ("vendor", "chipsetsdk"),
    )
)
"""Where the loader of OpenHarmony finds libraries; those of 64-bit systems end in 64 at the first ``lib``."""
IDENTITY = "%n %s %i %y"
"""Format of ``stat``: name, size, inode, time of last change to the nanosecond."""
SURVEY_SECONDS = 60.0
ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a survey shall look for besides the board's own facts."""

    stored: Sequence[str] = ()
    """Names in the store."""
    sizes: Sequence[int] = ()
    """Sizes in bytes: all that the store has of them is told as if it were asked for by name."""
    parts: Sequence[str] = ()
    """Fingerprints of large files (`deploy.transfer.store`), of which some may be there."""
    folder: str = ""
    """A path of which shall be told whether it is a folder."""
    libraries: Sequence[str] = ()
    interpreters: Sequence[str] = ()
    agents: Sequence[str] = ()
    """Paths at which an agent (`deploy.agent.agent`) may lie; those that are there are asked for their version."""
    facts: bool = True
    """Whether the CPU and the system's parameters are wanted."""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What a board answered. Sizes in bytes."""

    machine: str
    kernel: str
    hash_tool: str
    """``sha256sum`` or ``md5sum``, whichever was seen to work; empty when neither does."""
    writable: bool
    free_bytes: int | None
    """None when the board cannot tell."""
    storage_bytes: int | None
    loaders: frozenset[str]
    libraries: frozenset[tuple[str, int]]
    """Names of the libraries that were asked for and are there, each with its bits (32, 64)."""
    memory: Mapping[str, int]
    cpu: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    stored: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the files in the store."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """Bytes of large files that are on their way into the store, by their fingerprints."""
    proven: frozenset[str] = frozenset()
    """Names in the store that are unchanged since their hash was verified there."""
    has_folder: bool = False
    """Whether the path that was asked for is a folder."""
    clock: BoardClock | None = None
    """None when the board cannot tell the time."""
    agents: Mapping[str, str] = field(default_factory=dict)
    """What the agents that were asked for said, by path: their version, or why they do not run. Absent ones are left out."""
    agent: str = ""
    """Path of an agent that is known to run there; it hashes faster than the board's own tools."""

    @property
    def verifier(self) -> str:
        """What hashes files: ``agent``, ``sha256sum`` or ``md5sum``; empty when nothing does."""
        return "agent" if self.agent else self.hash_tool

    @property
    def hash_command(self) -> str:
        """The command that hashes its standard input: MD5 for ``md5sum``, else SHA-256."""
        return f"{quote(self.agent)} hash -" if self.agent else self.hash_tool

    @property
    def memory_bytes(self) -> int:
        return self.memory.get("MemTotal", 0)

    @property
    def available_bytes(self) -> int:
        return self.memory.get("MemAvailable", self.memory.get("MemFree", 0))

    @property
    def is_emulated(self) -> bool:
        """Whether the board says that it is an emulated one, by whatever hdc it is reached."""
        return self.parameters.get("const.build.ver.physical", "").startswith("emulated")

    @property
    def arches(self) -> tuple[str, ...]:
        """Arches whose programs run, the one of the system first: a 64-bit ARM kernel runs 32-bit programs as well."""
        native = [arch for arch in ARCHES.values() if self.machine in arch.uname_machines]
        if self.machine == "aarch64":
            native.append(ARCHES["arm32"])
        named = self.parameters.get("const.product.cpu.abilist", "")
        order = sorted(native, key=lambda arch: (arch.loader not in self.loaders, arch.ohos_arch not in named))
        return tuple(arch.name for arch in order)

    @property
    def static_only(self) -> tuple[str, ...]:
        """Arches of which only static programs run, because their loader is not there."""
        return tuple(name for name in self.arches if ARCHES[name].loader not in self.loaders)

    @property
    def cpu_features(self) -> tuple[str, ...]:
        found = re.search(r"^Features\s*:\s*(.*)$", self.cpu, re.MULTILINE)
        return tuple(found[1].split()) if found else ()

    @property
    def cores(self) -> int:
        return len(re.findall(r"^processor\s*:", self.cpu, re.MULTILINE))

    def as_json(self) -> dict[str, Any]:
        """The facts for records."""
        return {
            "machine": self.machine,
            "kernel": self.kernel,
            "arches": list(self.arches),
            "static_only": list(self.static_only),
            "loaders": sorted(self.loaders),
            "cores": self.cores,
            "cpu_features": list(self.cpu_features),
            "cpuinfo": self.cpu,
            "memory_bytes": self.memory_bytes,
            "memory_available_bytes": self.available_bytes,
            "storage_bytes": self.storage_bytes,
            "storage_free_bytes": self.free_bytes,
            "hash_tool": self.hash_tool,
            "parameters": dict(self.parameters),
            "clock": self.clock.as_json() if self.clock is not None else None,
        }


NOT_ASKED = Survey(
    machine="",
    kernel="",
    hash_tool="",
    writable=False,
    free_bytes=None,
    storage_bytes=None,
    loaders=frozenset(),
    libraries=frozenset(),
    memory={},
)
"""Of a board that is left alone."""


def survey_board(session: Session, board: Board, question: Question | None = None) -> Survey:
    """Asks the board; its folders for ohforge are made when they are not there, but not with ``--dry``.

    Raises BoardError when the answer cannot be understood, and what `Board.shell` raises.
    """
    asked = question or Question()
    script = render_script(
        "survey",
        make=not session.dry,
        device_dir=board.profile.device_dir,
        identity=IDENTITY,
        clock=FORMAT,
        library_folders=LIBRARY_FOLDERS,
        parameters=PARAMETERS,
        stored=asked.stored,
        sizes=asked.sizes,
        parts=asked.parts,
        folder=asked.folder,
        libraries=asked.libraries,
        interpreters=asked.interpreters,
        agents=asked.agents,
        facts=asked.facts,
    )
    deadline = Deadline.after(SURVEY_SECONDS, f"the answer of board {board.serial}")

    def ask() -> Survey:
        before = time.time()
        text = board.shell(script, deadline=deadline).text
        return dataclasses.replace(read_survey(text), clock=read_clock(text, before, time.time()))

    return ask_again(session, ask)


def ask_again(session: Session, ask: Callable[[], T]) -> T:
    """The answer to a question that changes nothing on the board, which is asked again when none comes.

    The first command after a board was connected may be swallowed. Raises LostConnection when nothing ever comes.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return ask()
        except LostConnection as lost:
            session.console.detail(f"{lost.message} Asking again.")
    return ask()


def read_survey(text: str) -> Survey:
    """Understands the output of ``survey.sh``. Raises BoardError when it is not whole."""
    sections = dict(re.findall(r"^@@(\w+)\n(.*?)(?=^@@)", text + "\n", re.MULTILINE | re.DOTALL))
    machine = sections.get("machine", "").splitlines()
    if "\n@@end" not in text or not machine:
        raise BoardError(
            f"The board's answer is not whole. It said: {text[-300:]!r}", remedy="Run again with --verbose."
        )
    storage, free = read_df(sections.get("space", ""))
    stored = sections.get("stored", "").splitlines()
    parts: dict[str, int] = {}
    for line in sections.get("parts", "").splitlines():
        path, size = line.split()
        name = path.partition(".parts/")[0]
        parts[name] = parts.get(name, 0) + int(size)
    proven = set(sections.get("proven", "").splitlines())
    return Survey(
        machine=machine[0],
        kernel=" ".join(machine[1:]),
        hash_tool=sections.get("hash", "").strip(),
        writable=sections.get("writable", "").strip() == "yes",
        free_bytes=free,
        storage_bytes=storage,
        loaders=frozenset(sections.get("loaders", "").split()),
        libraries=frozenset(_read_libraries(sections.get("libraries", ""))),
        memory={
            name: int(kib) * 1024 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB", sections["memory"], re.MULTILINE)
        },
        cpu=sections.get("cpu", "").strip(),
        parameters=dict(_read_parameters(sections.get("parameters", ""))),
        stored={line.split()[0]: int(line.split()[1]) for line in stored},
        parts=parts,
        proven=frozenset(line.split()[0] for line in stored if line in proven),
        has_folder=sections.get("folder", "").strip() == "yes",
        agents=dict(_read_agents(sections.get("agents", ""))),
    )


def read_df(text: str) -> tuple[int, int] | tuple[None, None]:
    """Size and free bytes from the last line of ``df -Pk``; None when there is none."""
    found = re.search(r"\s(\d+)\s+(\d+)\s+(-?\d+)\s+\S+%\s+/\S*\s*$", text)
    return (int(found[1]) * 1024, max(0, int(found[3])) * 1024) if found else (None, None)


def _read_libraries(text: str) -> list[tuple[str, int]]:
    # The byte is EI_CLASS of the ELF header: 1 means 32 bits, 2 means 64 (System V ABI, chapter 4).
    rows = [line.split(" ", 1) for line in text.splitlines()]
    return [(PurePosixPath(row[1]).name, 32 * int(row[0])) for row in rows if row[0] in ("1", "2") and len(row) == 2]


def _read_agents(text: str) -> list[tuple[str, str]]:
    rows = [line.partition(" says ")[::2] for line in text.splitlines()]
    return [(path, answer) for path, answer in rows if path.startswith("/")]


def _read_parameters(text: str) -> list[tuple[str, str]]:
    pairs = [line.partition("=")[::2] for line in text.splitlines() if "=" in line]
    # An unknown parameter is answered by a sentence, with status 0.
    return [(name, value.strip()) for name, value in pairs if value.strip() and "errNum" not in value]


def require_usable(board: Board, survey: Survey) -> None:
    """Raises PermissionOnBoard or BoardError when nothing could be placed on the board."""
    if not survey.writable:
        folder = board.profile.device_dir
        raise PermissionOnBoard(
            f"Board {board.serial}: {folder}/ohforge cannot be written.",
            remedy=f"See with `ohforge board.shell 'ls -ld {folder}; mount'` whose it is and whether its storage is read-only, "
            "which a restart of the board may end; another image may have another device_dir in its profile.",
        )
    if not survey.verifier:
        raise BoardError(
            f"Board {board.serial} has no working sha256sum or md5sum, so nothing that is sent to it could be verified.",
            remedy="Use an image whose toybox has one of them.",
        )
