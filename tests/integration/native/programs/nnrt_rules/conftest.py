"""The reference runtimes that the rules are asked of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.nnrt_runtime import (
    Nnrt,
)


@pytest.fixture(scope="module", params=[9, 12], ids=["api9", "api12"])
def nnrt(request: pytest.FixtureRequest, shared_cache: Path) -> Nnrt:
    return Nnrt(shared_cache, request.param)


@pytest.fixture(scope="module")
def modern(shared_cache: Path) -> Nnrt:
    return Nnrt(shared_cache, 12)


@pytest.fixture(autouse=True)
def one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_NNRT_DEVICES", "1")
