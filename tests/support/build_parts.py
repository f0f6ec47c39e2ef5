"""Parts for tests of building: a recipe of a few lines, a toolchain without a compiler, a build system that copies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from core.deadline import Deadline
from core.session import Session
from native.build.ensure import BuildOutcome, BuildRequest, ensure_built
from native.build.job import BuildJob, BuildLog
from native.recipe.recipe import load_recipe
from tests.support.tiny_elf import write_arm32, write_arm64
from toolchains.arch import ARM64, Arch
from toolchains.host_toolchain import HostToolchain, ToolchainChoice


def small_recipe() -> dict[str, Any]:
    """A valid recipe for one program, as the YAML file would be read."""
    return {
        "name": "hello",
        "description": "says hello",
        "version": "1",
        "sources": [{"kind": "folder", "path": "src"}],
        "build": {"system": "cmake"},
        "rules": [{"options": {"GREETING": "hello", "LOUD": False}}],
        "products": [{"name": "hello", "path": "bin/hello", "kind": "program"}],
    }


def write_recipe(folder: Path, recipe: dict[str, Any]) -> Path:
    """Writes ``recipe.yaml`` and a source tree with one file; returns the recipe's path."""
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "src" / "main.c").write_text("int main(void) { return 0; }\n")
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))
    return path


def make_toolchain(arch: Arch = ARM64, **changes: Any) -> HostToolchain:
    """A toolchain that only has to be named, not to compile."""
    nowhere = Path("/nowhere")
    toolchain = HostToolchain(
        name="zig",
        arch=arch,
        cpu="generic",
        static=True,
        file=nowhere / "toolchain.cmake",
        id="1" * 64,
        title="a compiler 1.0",
        cc=nowhere / "cc",
        cxx=nowhere / "c++",
        ar=nowhere / "ar",
        ranlib=nowhere / "ranlib",
        strip=(),
        environment={},
        sdk=None,
        stl="c++_static",
    )
    return dataclasses.replace(toolchain, **changes)


@dataclass
class CopyingSystem:
    """A build system whose programs are a few bytes of machine code; `runs` remembers what it was asked for."""

    runs: list[list[str]] = field(default_factory=list)
    before_products: Callable[[BuildJob], None] = lambda job: None
    arch_of_products: str = ""
    text: bytes = b"hello\n"

    def version(self) -> str:
        return "copying 1"

    def run(self, session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> None:
        job.tree.mkdir(parents=True, exist_ok=True)
        self.runs.append([product.name for product in job.wanted])
        log.write(b"copying\n")
        self.before_products(job)
        write = {"arm32": write_arm32, "arm64": write_arm64}[self.arch_of_products or job.toolchain.arch.name]
        for product in job.wanted:
            place = job.tree / product.path
            place.parent.mkdir(parents=True, exist_ok=True)
            write(place, self.text)

    def install(self, session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> str:
        return "there is none"


@dataclass
class Workshop:
    """A recipe, a toolchain and a build system that a test can change between builds."""

    session: Session
    folder: Path
    recipe: dict[str, Any]
    system: CopyingSystem
    toolchain: dict[str, Any]

    def build(self, *products: str, arch: str = "arm64") -> BuildOutcome:
        path = write_recipe(self.folder, self.recipe)
        return ensure_built(
            self.session, BuildRequest(target=str(path), products=products, choice=ToolchainChoice(arch=arch))
        )


def make_job(tmp_path: Path, **changes: Any) -> BuildJob:
    """A job as a plan makes it, of `small_recipe` in `tmp_path`."""
    recipe = load_recipe(str(write_recipe(tmp_path, small_recipe())))
    values: dict[str, Any] = {
        "title": "hello for arm64",
        "source": tmp_path / "src",
        "tree": tmp_path / "tree",
        "toolchain": make_toolchain(),
        "build_type": "Release",
        "options": {},
        "compile_flags": [],
        "link_flags": [],
        "products": recipe.products,
        "wanted": recipe.products,
        "jobs": 1,
        "launcher": "",
        "environment": {},
        "log_path": tmp_path / "build.log",
        **changes,
    }
    return BuildJob(**values)
