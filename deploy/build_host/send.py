"""Files to a build host: those that it has not, in one stream."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from core.errors import SourceError
from core.files import human_bytes
from core.session import Session
from deploy.build_host.host import BuildHost
from deploy.build_host.job import Job

CHUNK = 256 * 1024


def send_lacking(session: Session, host: BuildHost, job: Job) -> int:
    """Sends what the host has not of a job's files; returns the bytes. A call after a cut one sends the rest."""
    paths = {name: path for tree in job.trees for name, path in tree.paths.items()}
    lack = [str(name) for name in host.ask("lack", given=list(paths))["lack"]]
    size = sum(paths[name].stat().st_size for name in lack)
    if lack:
        with session.console.progress(f"sending to {host.serial}", size) as bar:
            host.send("fill", feed=_tar(paths, lack, bar.advance), size=size)
    session.console.detail(f"{len(lack)} of {len(paths)} files sent to {host.serial}, {human_bytes(size)}")
    return size


def _tar(paths: Mapping[str, Path], names: Sequence[str], on_bytes: Callable[[float], None]) -> Iterator[bytes]:
    for name in names:
        entry = tarfile.TarInfo(name)
        with paths[name].open("rb") as file:
            entry.size = paths[name].stat().st_size
            yield entry.tobuf()
            left = entry.size
            while left and (chunk := file.read(min(CHUNK, left))):
                yield chunk
                left -= len(chunk)
                on_bytes(len(chunk))
            if left:
                raise SourceError(f"{paths[name]} became shorter while it was being sent.")
        yield bytes(-entry.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)
