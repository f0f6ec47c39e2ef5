"""The build system ``meson``: configures a tree with Meson and builds it with Ninja."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from core.errors import HostToolMissing
from core.files import sha256_json, write_atomic
from native.build.cmake import find_cmake, find_ninja, package_version, run_ninja
from native.build.job import CONFIGURED, INSTALL_FAILED, INSTALLED_TO, BuildJob, BuildLog, begin_tree, explain_failure

if TYPE_CHECKING:
    from core.deadline import Deadline
    from core.session import Session

CROSS_FILE = "ohforge-cross.ini"
BUILD_TYPES: Mapping[str, str] = {
    "Release": "release",
    "RelWithDebInfo": "debugoptimized",
    "MinSizeRel": "minsize",
    "Debug": "debug",
}
"""CMake's names for build types → Meson's."""


class Meson:
    """Meson and Ninja; both come with ohforge's own environment."""

    def version(self) -> str:
        """What the build system is, as a part of the key."""
        return f"meson {package_version('meson')}, ninja {package_version('ninja')}"

    def run(self, session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> None:
        """Configures `job` unless that is done, and builds what is wanted. Raises BuildError with the first error."""
        self._configure(session, job, log, deadline)
        run_ninja(session, job, log, deadline)

    def install(self, session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> str:
        """Does the project's own install step into `job.staging`; why not, when it fails."""
        result = session.runner.run(
            [*_meson(), "install", "--no-rebuild", "-C", str(job.tree), "--destdir", str(job.staging)],
            deadline=deadline,
            env=_environment(job),
            on_stdout=log.write,
            on_stderr=log.write,
        )
        return "" if result.ok else INSTALL_FAILED

    def _configure(self, session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> None:
        from toolchains.export import export_meson

        cross_file = job.tree / CROSS_FILE
        text = export_meson(
            job.toolchain,
            launcher=job.launcher,
            emulator=job.emulator,
            cmake=str(find_cmake()),
            compile_flags=job.compile_flags,
            link_flags=job.link_flags,
        )
        argv = [*_meson(), "setup", str(job.tree), str(job.source), "--cross-file", str(cross_file)]
        argv += [f"--prefix={INSTALLED_TO}", "--libdir=lib"] if not job.products else []
        argv += [f"-Dbuildtype={BUILD_TYPES[job.build_type]}", *(f"-D{n}={v}" for n, v in job.options.items())]
        if session.settings.offline:
            argv.append("--wrap-mode=nodownload")
        stamp = sha256_json([argv, text, _environment(job)])
        done = job.tree / CONFIGURED
        if not begin_tree(session, job, stamp, anew=not done.exists()):
            return
        write_atomic(cross_file, text)
        session.console.info(f"configuring {job.title}")
        result = session.runner.run(
            argv, deadline=deadline, env=_environment(job), on_stdout=log.write, on_stderr=log.write
        )
        if not result.ok:
            raise explain_failure(result, "Configuring", job)
        done.touch()


def _environment(job: BuildJob) -> dict[str, str]:
    return {**_own_compilers(job), **job.environment, "NINJA": str(find_ninja())}


def _own_compilers(job: BuildJob) -> dict[str, str]:
    """This machine's compilers, for what is to run here while it is built.

    Meson would put the compiler cache before them by itself, and that is told what the board's compiler is.
    """
    names = {"CC_FOR_BUILD": "cc", "CXX_FOR_BUILD": "c++"} if job.launcher else {}
    return {name: program for name, program in names.items() if name not in os.environ and shutil.which(program)}


def _meson() -> list[str]:
    if importlib.util.find_spec("mesonbuild") is None:
        raise HostToolMissing(
            "Meson is not installed in ohforge's environment.",
            remedy=f"Run `make setup`, or `{sys.executable} -m pip install meson`.",
        )
    return [sys.executable, "-m", "mesonbuild.mesonmain"]
