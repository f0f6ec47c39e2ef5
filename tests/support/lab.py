"""A lab on loopback: labgrid's own coordinator and exporter, and its own client to look with."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc
import yaml
from labgrid.remote.generated.labgrid_coordinator_pb2 import GetPlacesRequest
from labgrid.remote.generated.labgrid_coordinator_pb2_grpc import CoordinatorStub

from tests.support.waiting import wait_until

EXPORTER = "shelf"
ANNA = {"LG_USERNAME": "anna", "LG_HOSTNAME": "desk"}
"""Another user at another computer, as labgrid's client would be told."""


@dataclass(frozen=True, kw_only=True)
class Lab:
    """A lab that runs."""

    address: str

    def client(self, *words: str, place: str = "", who: Mapping[str, str] | None = None) -> str:
        """What labgrid's own client prints, called by this user or by `who`; its status must be 0."""
        at = ["-p", place] if place else []
        done = subprocess.run(
            [sys.executable, "-m", "labgrid.remote.client", "-x", self.address, *at, *words],
            env={**os.environ, **(who or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def holder(self, place: str) -> str:
        """Who has the place, as the coordinator tells; empty when nobody does."""
        with grpc.insecure_channel(self.address) as channel:
            places = CoordinatorStub(channel).GetPlaces(GetPlacesRequest(), timeout=60).places
        [name] = [each.acquired for each in places if each.name == place]
        return str(name)


@contextlib.contextmanager
def loopback_lab(folder: Path, boards: Mapping[str, Mapping[str, str]], *empty: str) -> Iterator[Lab]:
    """A lab with a place for each of `boards`, whose resource has these parameters; the `empty` places have none."""
    places = {name: [{"exporter": EXPORTER, "group": name, "cls": "NetworkHDCDevice"}] for name in boards}
    places |= {name: [] for name in empty}
    described = {name: {"matches": matches, "created": 0.0, "changed": 0.0} for name, matches in places.items()}
    (folder / "places.yaml").write_text(yaml.safe_dump(described))
    (folder / "exports.yaml").write_text(
        yaml.safe_dump({name: {"NetworkHDCDevice": dict(told)} for name, told in boards.items()})
    )
    with contextlib.ExitStack() as ending:
        said = _start(ending, folder, "coordinator", "-l", "127.0.0.1:0", until="listening on ")
        [address] = [line.split()[-1] for line in said.splitlines() if line.startswith("listening on ")]
        _start(
            ending, folder, "exporter", "-c", address, "-n", EXPORTER, str(folder / "exports.yaml"), until="poll task"
        )
        lab = Lab(address=address)
        wait_until("the boards", lambda: lab.client("resources").count("NetworkHDCDevice") == len(boards), 60)
        yield lab


def _start(ending: contextlib.ExitStack, folder: Path, name: str, *words: str, until: str) -> str:
    """Starts a program of labgrid's, and gives what it has said when `until` is among it."""
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", f"labgrid.remote.{name}", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    ending.callback(_end, process)
    wait_until(f"{name}: {until}", lambda: until in log.read_text() or process.poll() is not None, 60)
    assert process.poll() is None, log.read_text()
    return log.read_text()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(timeout=60)
