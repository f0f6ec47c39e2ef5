"""The hdc that the contract is checked against: the stand-in with an emulated board, or a real one.

``OHFORGE_REAL_HDC=/path/to/hdc`` names a real one, which must have one connected target, or several of which
``OHFORGE_REAL_KEY`` names one. A test that needs a state into which a real board cannot be brought from here is
skipped then. ``OHFORGE_EMULATOR_SANDBOX=proot`` checks the emulated board without namespaces.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from deploy.emulator.board.boards import SANDBOX
from tests.support.emulated import Hdc, emulated_home
from tests.support.surroundings import users_server

REAL = "OHFORGE_REAL_HDC"
KEY = "OHFORGE_REAL_KEY"
# Read before the tests' own settings hide the user's.
REAL_HDC = os.environ.get(REAL, "")
REAL_KEY = os.environ.get(KEY, "")
OHOS = {name: value for name, value in os.environ.items() if name.startswith("OHOS_")}
SANDBOX_KIND = os.environ.get(SANDBOX, "")


@pytest.fixture(scope="session")
def hdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdc]:
    if REAL_HDC:
        server = OHOS | users_server()
        listed = subprocess.run(
            [REAL_HDC, "list", "targets"], env={**os.environ, **server}, capture_output=True, check=True, timeout=60
        ).stdout
        keys = [line for line in listed.decode().split() if not line.startswith("[")]
        if not keys:
            pytest.exit(f"{REAL} names {REAL_HDC}, but no target is connected", returncode=3)
        yield Hdc(argv=(REAL_HDC,), environment=server, key=REAL_KEY or keys[0], real=True)
        return
    with emulated_home(tmp_path_factory.mktemp("contract")) as environment:
        yield Hdc(environment=environment | ({SANDBOX: SANDBOX_KIND} if SANDBOX_KIND else {}))


@pytest.fixture
def stand_in(hdc: Hdc) -> Hdc:
    if hdc.real:
        pytest.skip("needs a state that only an emulated board can be brought into")
    return hdc


@pytest.fixture
def folder(hdc: Hdc) -> Iterator[str]:
    """An empty folder on the board."""
    path = f"/data/local/tmp/contract-{uuid.uuid4().hex[:8]}"
    assert hdc.shell(f"mkdir {path} && echo made") == b"made\n"
    yield path
    hdc.shell(f"rm -rf {path}")
