"""Building one component in an OpenHarmony source tree with its own ``build.sh``."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.check import Check
from core.deadline import Deadline
from core.dry import Would
from core.errors import (
    DeadlineExpired,
    InternalError,
    Interrupted,
    NotEnoughSpace,
    OhforgeError,
    SourceBuildFailed,
    explain_exception,
)
from core.files import sha256_text
from core.locks import hold
from core.record_folder import OUTPUTS
from core.session import Session
from native.openharmony.failures import STEP, Diagnosis, diagnose, plain_text, read_tail, succeeded
from native.openharmony.outputs import CollectedFile, collect_outputs, find_error_log
from native.openharmony.prerequisites import (
    Machine,
    check_prerequisites,
    require_prerequisites,
    safe_jobs,
)
from native.openharmony.record import SourceBuildRecord, start_source_record
from native.openharmony.tree import Component, SourceTree, TreeProduct, find_component, find_product, find_tree
from toolchains.arch import ARM32, Arch, find_arch

if TYPE_CHECKING:
    from core.process import Result

TREE_CPUS = {"arm32": "arm", "arm64": "arm64", "x86_64": "x86_64"}
"""What ``--target-cpu`` calls our arches."""
DISK_FULL = "disk-full"


@dataclass(frozen=True, kw_only=True)
class SourceBuildRequest:
    """What is to be built. Empty text means "the default"."""

    component: str
    tree: Path
    product: str = "rk3568"
    cpu: str = ""
    ccache: bool = False
    jobs: int = 0
    prebuilt_sdk: bool = False
    """True: let build.sh build the whole SDK first, as it does by default from API level 12 on."""
    ignore_checks: bool = False
    timeout: float = 0.0
    """Seconds; 0: the setting."""


@dataclass(frozen=True, kw_only=True)
class SourceBuildOutcome:
    """A build that ended well."""

    record: Path
    component: str
    target: str
    product: str
    arch: str
    outputs: list[CollectedFile]
    seconds: float

    @property
    def libraries(self) -> Path:
        return self.record / OUTPUTS / "lib"

    def as_json(self) -> dict[str, Any]:
        return {
            "record": str(self.record),
            "component": self.component,
            "target": self.target,
            "product": self.product,
            "arch": self.arch,
            "libraries": str(self.libraries),
            "outputs": [file.as_json() for file in self.outputs],
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, kw_only=True)
class ComponentLook:
    """A build that nothing stands against, before it begins."""

    tree: SourceTree
    product: TreeProduct
    component: Component
    arch: Arch
    checks: Sequence[Check]
    command: list[str]


def look_at_component(session: Session, request: SourceBuildRequest) -> ComponentLook:
    """Finds what is to be built, and checks machine and tree. Raises NotASourceTree, UnknownName, TreeNotReady."""
    tree = find_tree(request.tree)
    product = find_product(tree, request.product)
    component = find_component(tree, product, request.component)
    arch = _choose_arch(session, product, request.cpu)
    machine = Machine.examine(tree.root)
    checks = check_prerequisites(tree, component, machine)
    _announce(session, tree, component, checks)
    if not request.ignore_checks:
        require_prerequisites(checks)
    command = compose_command(tree, product, component, arch, request, safe_jobs(machine, request.jobs))
    return ComponentLook(tree=tree, product=product, component=component, arch=arch, checks=checks, command=command)


def would_build(look: ComponentLook) -> Would:
    """What `build_component` would do."""
    what = f"{look.component.title} ({look.component.target}) for {look.product.name}, {look.arch.name}"
    return Would(action="build", what=what, where=str(look.tree.root), why=f"by `{shlex.join(look.command)}`")


def build_component(session: Session, request: SourceBuildRequest) -> SourceBuildOutcome:
    """Checks, builds and collects; the record says what happened in every case.

    Raises NotASourceTree, UnknownName, TreeNotReady, SourceBuildFailed, NotEnoughSpace, ProductMissing, UnfitProduct,
    DeadlineExpired, Busy, Interrupted.
    """
    look = look_at_component(session, request)
    tree, product, component, arch = look.tree, look.product, look.component, look.arch
    seconds = request.timeout or session.settings.timeouts.source_build
    with _own(session, tree):
        record = start_source_record(
            session,
            component.name,
            product.name,
            _first_content(look, seconds),
        )
        session.console.stage(f"Building {component.title} ({component.target}) for {product.name}; log: {record.log}")
        with _ended(record):
            try:
                took = _run(session, tree, product, component, look.command, seconds, record)
            finally:
                _keep_error_log(tree, product, record)
            outputs = collect_outputs(tree, product, component, arch, record.outputs)
        record.end("done", outputs=[file.as_json() for file in outputs])
    return SourceBuildOutcome(
        record=record.folder,
        component=component.name,
        target=component.target,
        product=product.name,
        arch=arch.name,
        outputs=outputs,
        seconds=took,
    )


def compose_command(
    tree: SourceTree, product: TreeProduct, component: Component, arch: Arch, request: SourceBuildRequest, jobs: int
) -> list[str]:
    """The command line of build.sh. All its options exist from 3.2 on; --no-prebuilt-sdk only where the script has it."""
    words = ["bash", str(tree.script.relative_to(tree.root)), "--product-name", product.name]
    words += ["--target-cpu", TREE_CPUS[arch.name], "--build-target", component.target]
    words += ["--ccache"] if request.ccache else []
    words += ["--jobs", str(jobs)]
    if not request.prebuilt_sdk and "--no-prebuilt-sdk" in tree.script.read_text(errors="replace"):
        words.append("--no-prebuilt-sdk")
    return words


def _choose_arch(session: Session, product: TreeProduct, cpu: str) -> Arch:
    own = find_arch(product.cpu) if product.cpu in TREE_CPUS.values() else ARM32
    if not cpu:
        why = "the product's own" if product.cpu else "what build.sh takes when nothing is said"
        session.console.chosen("cpu", TREE_CPUS[own.name], why)
        return own
    arch = find_arch(cpu)
    if product.cpu and arch != own:
        session.console.warn(
            f"{product.name} is made for {product.cpu}: libraries for {TREE_CPUS[arch.name]} do not run on its usual image."
        )
    return arch


def _announce(session: Session, tree: SourceTree, component: Component, checks: Sequence[Check]) -> None:
    session.console.chosen("tree", str(tree.root), tree.title)
    if component.target != component.name:
        session.console.chosen("build target", component.target, f"what this release calls {component.name}")
    for check in checks:
        if check.state == "doubtful":
            session.console.warn(f"{check.name}: {check.found}" + (f" ({check.remedy})" if check.remedy else ""))


def _own(session: Session, tree: SourceTree) -> contextlib.AbstractContextManager[bool]:
    """Two builds in one tree would write the same files."""
    lock = session.settings.cache / "locks" / f"source-{sha256_text(str(tree.root))[:16]}.lock"
    deadline = Deadline.after(session.settings.timeouts.lock, f"the build in {tree.root}")
    return hold(lock, deadline, lambda text: session.console.info(f"    {text}"))


def _run(
    session: Session,
    tree: SourceTree,
    product: TreeProduct,
    component: Component,
    command: list[str],
    seconds: float,
    record: SourceBuildRecord,
) -> float:
    deadline = Deadline.after(seconds, f"the build of {component.name} in {tree.root}")
    started = time.monotonic()
    with record.log.open("wb") as log, session.console.progress(component.name, unit="steps") as progress:

        def keep(chunk: bytes) -> None:
            log.write(chunk)
            log.flush()
            session.console.detail(chunk.decode("utf-8", "replace").rstrip())
            if steps := STEP.findall(chunk.decode("ascii", "replace")):
                done, total = map(int, steps[-1])
                record.content["steps"] = {"done": done, "total": total}
                progress.reach(done, total)

        try:
            result = session.runner.run(command, deadline=deadline, cwd=tree.root, on_stdout=keep, on_stderr=keep)
        finally:
            record.content["seconds"] = round(time.monotonic() - started, 3)
    record.save(exit_status=_as_status(result))
    _judge(component, result, record, find_error_log(tree, product, record.began))
    return float(record.content["seconds"])


def _judge(component: Component, result: Result, record: SourceBuildRecord, error_log: Path | None) -> None:
    text = plain_text(read_tail(record.log))
    if result.ok and succeeded(text):
        return
    found = diagnose(text)
    if found.general and error_log is not None:
        # hb shows ninja's steps only; some releases put what failed into the file and nowhere else.
        special = diagnose(plain_text(read_tail(error_log)))
        found = special if special.name and not special.general else found
    record.save(failure={"name": found.name or "unknown", "sentence": found.sentence, "evidence": found.evidence})
    raise _failure(component, result, found, record)


def _keep_error_log(tree: SourceTree, product: TreeProduct, record: SourceBuildRecord) -> None:
    path = find_error_log(tree, product, record.began)
    if path is not None:
        shutil.copy(path, record.folder / path.name)


def _failure(component: Component, result: Result, found: Diagnosis, record: SourceBuildRecord) -> OhforgeError:
    status = _as_status(result)
    ended = f"status {status}" if status < 128 else f"signal {status - 128}"
    if result.ok:
        ended = "status 0, but without the line that says that it was successful"
    message = (
        f"Building {component.name} failed: {found.sentence} (build.sh ended with {ended}.)\n{found.excerpt}\n"
        f"The whole log: {record.log}"
    )
    if found.name == DISK_FULL:
        return NotEnoughSpace(message, remedy=found.remedy, failure=found.name, log=str(record.log))
    return SourceBuildFailed(message, remedy=found.remedy, failure=found.name or "unknown", log=str(record.log))


def _as_status(result: Result) -> int:
    return result.exit_code if result.exit_code >= 0 else 128 - result.exit_code


@contextlib.contextmanager
def _ended(record: SourceBuildRecord) -> Iterator[None]:
    """Whatever ends the block, the record says it."""
    try:
        yield
    except KeyboardInterrupt:
        error = Interrupted(
            "The build was interrupted; build.sh and what it had started were ended.",
            remedy="Run the command again: ninja goes on where it stopped.",
        )
        record.end("interrupted", error)
        raise error from None
    except OhforgeError as error:
        record.end("timeout" if isinstance(error, DeadlineExpired) else "failed", error)
        raise
    except BaseException as error:
        known = explain_exception(error)
        record.end("failed", known)
        if isinstance(known, InternalError):
            raise
        raise known from error


def _first_content(look: ComponentLook, seconds: float) -> dict[str, Any]:
    tree, product, component = look.tree, look.product, look.component
    return {
        "tree": {"root": str(tree.root), "release": tree.release, "api_level": tree.api_level},
        "product": {"name": product.name, "cpu": product.cpu, "board": product.board},
        "component": {"name": component.name, "target": component.target},
        "arch": look.arch.name,
        "command": {"words": look.command, "timeout_seconds": seconds},
        "prerequisites": [check.as_json() for check in look.checks],
    }
