"""What all tests share: a session whose every folder lies below the test's own."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from core.console import Console, Verbosity
from core.process import RealRunner
from core.session import Session
from core.settings import Settings, Timeouts
from tests.support import reruns
from tests.support.surroundings import OURS, PORT, Surroundings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the tests in the background has SIGINT ignored, and all programs below would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes, and how long it is made up, says nothing on a machine that is busy.
hypothesis.settings.register_profile(
    "busy",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("busy")

SHARED_CACHE = "OHFORGE_TEST_CACHE"
"""Variable: a folder that keeps compiler caches and downloads between test runs; losing it costs time only."""


SURROUNDINGS = pytest.StashKey[Surroundings]()
LEFT = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SURROUNDINGS] = Surroundings.enter()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reruns.demand_reasons(items)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Fails the run when something of it stays on the computer; by now all fixtures have ended."""
    yield
    surroundings = session.config.stash[SURROUNDINGS]
    if surroundings.first and (left := surroundings.what_is_left()):
        session.config.stash[LEFT] = left
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    told = reruns.told(terminalreporter.stats.get("rerun", []))
    for title, lines in (("tried once more", told), ("left on this computer", config.stash.get(LEFT, []))):
        if lines:
            terminalreporter.section(title)
            terminalreporter.write("".join(f"{line}\n" for line in lines))


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[SURROUNDINGS].leave()


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> Iterator[None]:
    """Moves everything that ohforge and hdc keep into the test's own folders, and hides the user's own settings."""
    for name in [name for name in os.environ if name.startswith(("OHFORGE_", "INVOKE_", "OHOS_", "LG_"))]:
        if name not in (SHARED_CACHE, "OHFORGE_REAL_HDC", PORT):
            monkeypatch.delenv(name)
    temporary = pytestconfig.stash[SURROUNDINGS].folder_for_test()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("OHFORGE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("OHFORGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("OHFORGE_LEASE_DIR", str(tmp_path / "leases"))
    yield
    assert list(temporary.glob(OURS)) == []


@pytest.fixture
def any_depth(tmp_path: Path) -> Iterator[None]:
    """For a test that makes trees which pytest cannot remove."""
    yield
    subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    # Tests that want the agent say so: it is compiled, which unit tests must not need.
    return Settings(
        build_dir=str(tmp_path / "build"),
        runs_dir=str(tmp_path / "runs"),
        run_engine="shell",
        timeouts=Timeouts(authorise=0.0),
    )


@pytest.fixture
def session(settings: Settings) -> Session:
    """A session that runs programs for real and keeps all its files below the test's folder."""
    return Session(settings=settings, console=Console(verbosity=Verbosity.VERBOSE), runner=RealRunner())


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder for all tests of one run, or of all runs when OHFORGE_TEST_CACHE names one."""
    named = os.environ.get(SHARED_CACHE)
    folder = Path(named) if named else tmp_path_factory.mktemp("shared-cache")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
