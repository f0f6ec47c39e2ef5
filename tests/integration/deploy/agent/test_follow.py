"""The agent's hash of a file that is being written, by all arches."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.agents import LIMIT_SECONDS, Agent, started


def steps(output: bytes) -> list[str]:
    """What it said, without how much was there each second that a busy machine took."""
    return [line for line in output.decode().splitlines() if not line.startswith("there ")]


def grow(path: Path, content: bytes, pieces: int, out_of_order: bool = False) -> None:
    """Writes `content` in pieces, with pauses; out of order: each piece before the one that comes before it."""
    size = -(-len(content) // pieces)
    order = list(range(pieces))
    if out_of_order:
        order[:-2] = [number ^ 1 for number in order[:-2]]
    with path.open("r+b", buffering=0) as file:
        for number in order:
            file.seek(number * size)
            file.write(content[number * size : (number + 1) * size])
            time.sleep(0.01)


@pytest.mark.parametrize("out_of_order", [False, True])
def test_a_growing_file_is_hashed_to_its_end(agent: Agent, tmp_path: Path, out_of_order: bool) -> None:
    content = random.Random(3).randbytes(1_000_003)
    path = tmp_path / "growing"
    path.touch()
    words = ("follow", f"--size={len(content)}", "--step", "300000", "--lag", "250000", path)
    with started(agent.command(*words)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        grow(path, content, 10, out_of_order)
        said = steps(process.stdout.read())
    ends = (300_000, 600_000, len(content))  # All is there when 900,000 are hashed.
    assert said == [f"{end} {hashlib.sha256(content[:end]).hexdigest()}" for end in ends]
    assert process.returncode == 0


def test_a_file_that_stops_growing_or_shrinks_is_given_up(native_agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 5_000)
    words = native_agent.command("follow", "--size", "9000", "--step", "2000", "--lag", "0", "--idle", "200", path)
    done = subprocess.run(words, capture_output=True, timeout=LIMIT_SECONDS, check=False)
    assert done.returncode == 1
    assert [line.split()[0] for line in steps(done.stdout)] == ["ready", "2000", "4000", "stopped"]
    assert steps(done.stdout)[-1] == "stopped 5000"
    words[words.index("200")] = "60000"
    with started(words) as process:
        assert process.stdout is not None
        while process.stdout.readline()[:4] != b"4000":
            pass
        os.truncate(path, 100)
        assert steps(process.stdout.read())[-1].startswith("stopped ")


def test_nobody_is_followed_for_when_nobody_listens(native_agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with started(native_agent.command("follow", "--size", "9", "--idle", "60000", tmp_path / "file")) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.stdout = None
        assert process.wait(timeout=LIMIT_SECONDS) != 0


def test_what_its_input_says_comes_first_and_in_one_write(native_agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = native_agent.command("follow", "--size", "9", "--idle", "100", "--echo", tmp_path / "file")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"begun\n")
        process.stdin.close()
        assert os.read(process.stdout.fileno(), 1000) == b"begun\nready\n"
        assert process.stdout.read() == b"stopped 0\n"


def test_every_second_it_says_how_much_is_there(native_agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 5_000)
    with started(native_agent.command("follow", "--size", "9000", "--idle", "60000", path)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert process.stdout.readline() == b"there 5000\n"
        with path.open("ab") as file:
            file.write(b"x" * 4_000)  # A file that is written anew is shorter for a moment.
        said = process.stdout.read().decode().splitlines()
    assert said[-1] == f"9000 {hashlib.sha256(b'x' * 9_000).hexdigest()}"
