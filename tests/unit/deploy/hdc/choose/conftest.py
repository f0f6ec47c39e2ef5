"""A computer without an hdc of its own, and sessions whose hdc gives what a test wants."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from core.session import Session
from core.testing import Answer, FakeRunner
from deploy.hdc import choose
from tests.support.hdc_lists import MakeSession


@pytest.fixture(autouse=True)
def no_hdc_of_this_computer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(choose, "_hdc_of_sdk", lambda session: None)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@pytest.fixture
def hdc(tmp_path: Path) -> Path:
    path = tmp_path / "toolchains" / "hdc"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def with_hdc(session: Session, hdc: Path) -> MakeSession:
    """A session whose hdc gives these answers; further settings by name."""

    def make(answers: list[tuple[list[str], Answer]], **settings: object) -> Session:
        runner = FakeRunner(answers=[([str(hdc), *words], answer) for words, answer in answers])
        changed = dataclasses.replace(session.settings, hdc=str(hdc), **settings)  # type: ignore[arg-type]
        return dataclasses.replace(session, settings=changed, runner=runner)

    return make
