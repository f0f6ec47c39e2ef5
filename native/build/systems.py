"""The build systems by the names that recipes and ``--system`` give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from native.build.cargo import Cargo
from native.build.cmake import CMake
from native.build.make import Make
from native.build.meson import Meson

if TYPE_CHECKING:
    from core.deadline import Deadline
    from core.session import Session
    from native.build.job import BuildJob, BuildLog


class BuildSystem(Protocol):
    """What turns a source tree into files; one for each value of a recipe's ``build.system``."""

    def version(self) -> str:
        """The build system and its version, as a part of the key."""

    def run(self, session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> None:
        """Leaves the wanted products of `job` in its tree, or raises BuildError. May find the work of an earlier run."""

    def install(self, session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> str:
        """Does the project's own install step into ``job.staging``; else why not: there is none, none that is safe, or it fails."""


SYSTEMS: dict[str, BuildSystem] = {"cmake": CMake(), "meson": Meson(), "make": Make(), "cargo": Cargo()}
