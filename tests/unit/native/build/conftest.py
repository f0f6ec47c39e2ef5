"""A recipe, a toolchain and a build system that copies, for each test its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import native.build.ensure as build_module
from core.session import Session
from tests.support.build_parts import CopyingSystem, Workshop, make_toolchain, small_recipe
from toolchains.arch import find_arch
from toolchains.host_toolchain import HostToolchain, ToolchainChoice


@pytest.fixture
def workshop(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    system, changes = CopyingSystem(), dict[str, Any]()

    def choose(session: Session, choice: ToolchainChoice, selected: object) -> HostToolchain:
        return make_toolchain(find_arch(choice.arch), file=tmp_path / "toolchain.cmake", **changes)

    monkeypatch.setitem(build_module.SYSTEMS, "cmake", system)
    monkeypatch.setattr(build_module, "choose_toolchain", choose)
    monkeypatch.setattr("native.build.perform.check_compiler", lambda session, toolchain: 0.0)
    recipe = small_recipe()
    recipe["products"].append({"name": "other", "path": "bin/other", "kind": "program"})
    return Workshop(session=session, folder=tmp_path / "recipe", recipe=recipe, system=system, toolchain=changes)
