"""The agent, built for the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import Agent, build_agent
from toolchains.arch import ARCHES


@pytest.fixture(scope="module", params=sorted(ARCHES))
def agent(request: pytest.FixtureRequest, shared_cache: Path) -> Agent:
    """The agent for each arch in turn."""
    return build_agent(shared_cache, request.param)


@pytest.fixture(scope="module")
def native_agent(shared_cache: Path) -> Agent:
    return build_agent(shared_cache, "x86_64")
