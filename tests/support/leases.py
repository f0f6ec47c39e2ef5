"""What the tests of leases share."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from deploy.lease import lease
from deploy.lease.lease import Lease, LeasePlace
from deploy.lease.owner import Owner, current_owner, steady_time

ROOT = Path(__file__).parents[2]


SOMEBODY_ELSE = 4242


NOBODY = "65534"


@contextlib.contextmanager
def holder(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the board of `folder`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.lease_holder", str(folder), *words],
        cwd=ROOT,
        env={**os.environ, "OHFORGE_LEASE_DIR": str(folder), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def put(place: LeasePlace, kind: lease.Kind, owner: Owner, *, seconds: float = 100.0, purpose: str = "a test") -> Lease:
    """Writes a lease as another process would have."""
    now = time.time()
    made = Lease(owner=owner, purpose=purpose, since=now, until=now + seconds, ends=steady_time() + seconds)
    with place.change() as shared:
        shared.value[kind] = dataclasses.asdict(made)
    return made


def others(owner: Owner) -> Owner:
    return dataclasses.replace(owner, uid=SOMEBODY_ELSE, user="anna")


def living() -> Owner:
    """A process that lives and is not this one."""
    from deploy.lease.owner import start_time

    parent = os.getppid()
    return dataclasses.replace(current_owner(), pid=parent, started=start_time(parent), user="anna", uid=SOMEBODY_ELSE)
