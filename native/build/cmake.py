"""The build system ``cmake``: configures and builds a tree with CMake and Ninja."""

from __future__ import annotations

import functools
import importlib.metadata
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import HostToolMissing
from core.files import sha256_json, write_atomic
from native.build.job import CONFIGURED, INSTALL_FAILED, INSTALLED_TO, BuildJob, BuildLog, begin_tree, explain_failure
from native.build.render import render_build

if TYPE_CHECKING:
    from core.console import Progress
    from core.deadline import Deadline
    from core.session import Session

OLDEST_POLICY = "3.5"
"""The oldest CMake whose rules CMake 4 still has: a project that asks for an older one gets those."""
MINIMUM = re.compile(
    r"^\s*cmake_minimum_required\s*\(\s*VERSION\s+(\d+)\.(\d+)[\d.]*(?:\.\.\.(\d+)\.(\d+))?", re.I | re.M
)
STATUS = re.compile(r"^\[(\d+)/(\d+)\] (?:(?:Building|Linking) \S+ (?:\S+ )*?)?(?:\S*/)?(\S+)$")


class CMake:
    """CMake with Ninja; both come with ohforge's own environment, so that every machine has the same."""

    def version(self) -> str:
        """What the build system is, as a part of the key."""
        return f"cmake {package_version('cmake')}, ninja {package_version('ninja')}"

    def run(self, session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> None:
        """Configures `job` unless that is done, and builds its wanted products. Raises BuildError with the first error."""
        self._configure(session, job, log, deadline)
        run_ninja(session, job, log, deadline)

    def install(self, session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> str:
        """Does the project's own install step into `job.staging`; why not, when it fails."""
        result = session.runner.run(
            [str(find_cmake()), "--install", str(job.tree)],
            deadline=deadline,
            env={**job.environment, "DESTDIR": str(job.staging)},
            on_stdout=log.write,
            on_stderr=log.write,
        )
        return "" if result.ok else INSTALL_FAILED

    def _configure(self, session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> None:
        additions = job.tree / "ohforge-additions.cmake"
        text = render_additions(job)
        argv = _configure_words(job, additions)
        stamp = sha256_json([argv, text, dict(job.environment)])
        done = job.tree / CONFIGURED
        if not begin_tree(session, job, stamp, anew=not done.exists()):
            return
        write_atomic(additions, text)
        _tell_old_minimum(session, job)
        session.console.info(f"configuring {job.title}")
        result = session.runner.run(
            argv, deadline=deadline, env=job.environment, on_stdout=log.write, on_stderr=log.write
        )
        if not result.ok:
            raise explain_failure(result, "Configuring", job)
        done.touch()


def _tell_old_minimum(session: Session, job: BuildJob) -> None:
    """Says so when the project asks for a CMake older than `OLDEST_POLICY`, which CMake 4 refuses unless it is told."""
    oldest = tuple(map(int, OLDEST_POLICY.split(".")))
    for file in sorted(job.source.rglob("CMakeLists.txt"), key=lambda path: len(path.parts)):
        found = MINIMUM.search(file.read_text(errors="replace"))
        if found and tuple(map(int, found.groups()[2:] if found[3] else found.groups()[:2])) < oldest:
            session.console.info(
                f"{file.relative_to(job.source)} asks for CMake {found[1]}.{found[2]}, which is older than all that CMake "
                f"still knows: it gets the rules of {OLDEST_POLICY} (CMAKE_POLICY_VERSION_MINIMUM={OLDEST_POLICY})"
            )
            return


def run_ninja(session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> None:
    """Builds the wanted targets of a configured tree. Raises BuildError with the first error."""
    ninja = [str(find_ninja()), "-C", str(job.tree)]
    targets = list(dict.fromkeys(product.target for product in job.wanted))
    if targets and not job.products:
        # A project's products are named as people see them; what Ninja does not know so is among all that it builds.
        asked = session.runner.run([*ninja, "-t", "query", *targets], deadline=deadline, env=job.environment)
        targets = targets if asked.ok else []
    environment = {**job.environment, "NINJA_STATUS": "[%f/%t] "}
    with session.console.progress(f"compiling {job.title}", unit="steps") as bar:
        reader = StatusReader(bar)

        def on_stdout(chunk: bytes) -> None:
            log.write(chunk)
            reader.feed(chunk)

        result = session.runner.run(
            [*ninja, "-j", str(job.jobs), *targets],
            deadline=deadline,
            env=environment,
            on_stdout=on_stdout,
            on_stderr=log.write,
        )
    if not result.ok:
        raise explain_failure(result, "Compiling", job)


class StatusReader:
    """Turns Ninja's ``[n/m] Building CXX object …`` lines into progress."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            match = STATUS.match(line.decode("utf-8", "replace").strip())
            if match:
                self._bar.reach(float(match[1]), float(match[2]))
                self._bar.say(match[3].removesuffix(".o"))


def render_additions(job: BuildJob) -> str:
    """The CMake code that adds the recipe's flags and sources to a project, without touching its files."""
    return render_build(
        "additions.cmake.jinja",
        static=job.toolchain.static,
        compile_flags=job.compile_flags,
        link_flags=job.link_flags,
        added_sources={product.target: product.add_sources for product in job.products if product.add_sources},
    )


def _configure_words(job: BuildJob, additions: Path) -> list[str]:
    settings = {
        "CMAKE_TOOLCHAIN_FILE": job.toolchain.file,
        "CMAKE_MAKE_PROGRAM": find_ninja(),
        "CMAKE_BUILD_TYPE": job.build_type,
        "CMAKE_PROJECT_INCLUDE": additions,
        "CMAKE_INSTALL_PREFIX": INSTALLED_TO,
        "CMAKE_INSTALL_LIBDIR": "lib",
        # Programs and their libraries lie side by side on the board, and no path of this machine may be in them.
        "CMAKE_INSTALL_RPATH": "$ORIGIN",
        "CMAKE_BUILD_WITH_INSTALL_RPATH": "ON",
        # Of a project's libraries that leave it open. A static program could not load shared ones.
        "CMAKE_POLICY_VERSION_MINIMUM": OLDEST_POLICY,
        **({"CMAKE_CROSSCOMPILING_EMULATOR": job.emulator} if job.emulator else {}),
        **({"BUILD_SHARED_LIBS": "OFF"} if job.toolchain.static and not job.products else {}),
        **({f"CMAKE_{lang}_COMPILER_LAUNCHER": job.launcher for lang in ("C", "CXX")} if job.launcher else {}),
        **job.options,
    }
    words = [f"-D{name}={value}" for name, value in settings.items()]
    return [str(find_cmake()), "-S", str(job.source), "-B", str(job.tree), "-G", "Ninja", *words]


@functools.cache
def package_version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of the system"


@functools.cache
def find_cmake() -> Path:
    try:
        from cmake import CMAKE_BIN_DIR
    except ImportError:
        return _find_on_path("cmake")
    return Path(CMAKE_BIN_DIR) / "cmake"


@functools.cache
def find_ninja() -> Path:
    try:
        from ninja import BIN_DIR
    except ImportError:
        return _find_on_path("ninja")
    return Path(BIN_DIR) / "ninja" if BIN_DIR else _find_on_path("ninja")


def _find_on_path(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise HostToolMissing(f"{name} is not on this machine.", remedy=f"Install it with `pip install {name}`.")
    return Path(found)
