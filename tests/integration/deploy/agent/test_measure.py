"""`ohforge-agent measure`, called natively."""

from __future__ import annotations

import json
import platform
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.agents import build_agent

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="calls the agent for x86_64")
MIB = 1024 * 1024
SMALL = (f"--buffer={8 * MIB}", f"--file={2 * MIB}", "--passes=1", "--threads=2")


@pytest.fixture
def agent(shared_cache: Path) -> Path:
    return build_agent(shared_cache, "x86_64").path


def call(agent: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([agent, "measure", *words], capture_output=True, text=True, timeout=120, check=False)


def test_every_pass_is_told_and_nothing_is_left(agent: Path, tmp_path: Path) -> None:
    answer = json.loads(call(agent, *SMALL[:2], "--passes=2", "--threads=1", tmp_path).stdout)
    assert [len(answer["copied"]), len(answer["read"]), answer["errno"]] == [2, 2, 0]
    assert min(answer["copied"] + answer["read"]) > 0
    assert (answer["threads"], answer["buffer_bytes"], answer["file_bytes"]) == (1, 8 * MIB, 2 * MIB)
    assert list(tmp_path.iterdir()) == []


def test_a_file_on_a_disk_in_memory_is_known_as_one(agent: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        assert json.loads(call(agent, *SMALL, folder).stdout)["cached"] == 1


def test_a_folder_that_cannot_be_written_is_told_with_its_errno(agent: Path, tmp_path: Path) -> None:
    answer = json.loads(call(agent, *SMALL, tmp_path / "none").stdout)
    assert (answer["read"], answer["errno"]) == ([], 2)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--file=1", "."),
        ("--threads=0", "."),
        ("--threads=8", "--buffer=1000000", "."),
        ("--what", "."),
        (".", "."),
    ],
)
def test_a_wrong_call_ends_with_125(agent: Path, words: tuple[str, ...]) -> None:
    done = call(agent, *words)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith("ohforge-agent: ")
