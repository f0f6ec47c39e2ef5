"""What is done when a process dies without a chance to tidy up."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.last_will import done_if_killed
from core.session import PROJECT
from tests.support.waiting import wait_until

CHILD = """
import sys, time
from core.last_will import done_if_killed
with done_if_killed(["/bin/sh", "-c", 'echo "$A" >"$1"', "sh", sys.argv[1]], {"A": "it is done"}):
    print("within", flush=True)
    sys.stdin.read()
print("left", flush=True)
sys.stdin.read()
time.sleep(60)
"""


def start(done: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", CHILD, str(done)]
    return subprocess.Popen(words, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_who_is_killed_has_it_done_all_the_same(tmp_path: Path, number: signal.Signals) -> None:
    done = tmp_path / "done"
    with start(done) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "within\n"
        child.send_signal(number)
        child.wait(timeout=60)
    assert wait_until("the will", lambda: done.is_file() and done.read_text()) == "it is done\n"


def test_who_has_left_the_block_has_nothing_done(tmp_path: Path) -> None:
    done = tmp_path / "done"
    with start(done) as child:
        assert child.stdout is not None and child.stdin is not None
        child.stdin.close()
        assert child.stdout.read(len("within\nleft\n")) == "within\nleft\n"
        # The witness was waited for before "left" was said, so nobody is there who could do it now.
        child.kill()
    assert not done.exists()


def test_an_error_leaves_the_block_too(tmp_path: Path) -> None:
    done = tmp_path / "done"
    with pytest.raises(ValueError, match="broken"), done_if_killed(["/bin/sh", "-c", 'echo >"$1"', "sh", str(done)]):
        raise ValueError("broken")
    assert not done.exists()
