"""The agent, built for real, and called without a board: natively, or under qemu-user for ARM."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.process import OnOutput
from core.session import Session
from core.settings import Settings
from deploy.agent.agent import AgentHandle, AgentRun, run_options
from deploy.agent.frames import AgentReport, FrameDecoder, Sample
from deploy.board.protocol import Board
from deploy.board.script import quote
from native.artifact.artifact import Product
from native.build.ensure import BuildRequest, ensure_built
from toolchains.arch import find_arch
from toolchains.host_toolchain import ToolchainChoice

LIMIT_SECONDS = 120.0
"""No call of a test takes nearly as long, on a busy machine under qemu included."""


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A built agent and how it is called here."""

    arch: str
    path: Path
    product: Product

    def command(self, *words: str | Path, cpu: str = "") -> list[str]:
        qemu = find_arch(self.arch).qemu
        prefix = [qemu, *(["-cpu", cpu] if cpu else [])] if qemu else []
        return [*prefix, str(self.path), *map(str, words)]

    def run(self, *words: str | Path) -> Ended:
        """Runs the agent to its end with these words after ``run``."""
        with self.started(*words) as process:
            return self.finish(process)

    @contextmanager
    def started(self, *words: str | Path) -> Iterator[subprocess.Popen[bytes]]:
        """The running agent, with these words after ``run``; see `started`. Its first frame is read: it waits for that."""
        with started(self.command("run", *words)) as process:
            _first_frames[process.pid] = _read_frame(process)
            yield process

    def finish(self, process: subprocess.Popen[bytes], already: bytes = b"") -> Ended:
        stream, complaints = process.communicate(timeout=LIMIT_SECONDS)
        out, err = bytearray(), bytearray()
        samples: list[Sample] = []
        decoder = FrameDecoder(on_stdout=out.extend, on_stderr=err.extend, on_sample=samples.append)
        decoder.feed(_first_frames.pop(process.pid, b"") + already + stream)
        return Ended(
            report=decoder.finish(),
            out=bytes(out),
            err=bytes(err),
            samples=samples,
            status=process.returncode,
            complaints=complaints.decode(),
        )

    def hash(self, *words: str | Path, cpu: str = "") -> list[str]:
        """The lines that ``hash`` prints."""
        command = self.command("hash", *words, cpu=cpu)
        answer = subprocess.run(command, capture_output=True, timeout=LIMIT_SECONDS, check=False)
        assert answer.stderr == b""
        return answer.stdout.decode().splitlines()


_first_frames: dict[int, bytes] = {}
"""What was read of running agents, by their numbers."""


def _read_frame(process: subprocess.Popen[bytes]) -> bytes:
    """One whole frame, and nothing behind it; less when the agent ends before."""
    assert process.stdout is not None
    content = b""
    wanted = 32
    while len(content) < wanted and (piece := os.read(process.stdout.fileno(), wanted - len(content))):
        content += piece
        if len(content) == 32:
            wanted += int.from_bytes(content[8:12], "little")
    return content


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run that is over. `status` is that of the agent's own process, `complaints` its own stderr."""

    report: AgentReport
    out: bytes
    err: bytes
    samples: Sequence[Sample]
    status: int
    complaints: str


@contextmanager
def started(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process with pipes for its output, which is ended when the block is left, however that comes."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def build_agent(shared_cache: Path, arch: str) -> Agent:
    """The agent for that arch, by the zig host toolchain; built once for each content of the shared cache."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OHFORGE_DATA_DIR", str(shared_cache / "data"))
        environment.setenv("OHFORGE_CACHE_DIR", str(shared_cache / "cache"))
        session = Session(settings=Settings(build_dir=str(shared_cache / "builds")))
        request = BuildRequest(target="agent", choice=ToolchainChoice(arch=arch, toolchain="zig", static=True))
        artifact = ensure_built(session, request).artifact
    product = artifact.product("ohforge-agent")
    return Agent(arch=arch, path=artifact.path_of(product), product=product)


def run_on_board(
    board: Board,
    handle: AgentHandle,
    words: Sequence[str],
    run: AgentRun | None = None,
    *,
    deadline: Deadline,
    seconds: float = 60.0,
    on_stdout: OnOutput | None = None,
    on_stderr: OnOutput | None = None,
    on_sample: Callable[[Sample], None] | None = None,
) -> AgentReport:
    """Runs a program by the agent that is on a board; `seconds` is the agent's own deadline."""
    decoder = FrameDecoder(on_stdout=on_stdout, on_stderr=on_stderr, on_sample=on_sample)
    line = [handle.path, *run_options(run or AgentRun(), seconds=seconds), "--", *words]
    board.shell(" ".join(map(quote, line)), deadline=deadline, on_output=decoder.feed)
    return decoder.finish()
