"""What the kernel counts of a process, as this computer's own kernel tells it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from core.errors import UsageError
from deploy.board.render import render_script
from deploy.launch.model_server import ServeOptions
from deploy.launch.process_use import ProcessUse, parse_use
from deploy.launch.serve import server_words

SIZE, INTERPRETER = 80_000_000, 60_000_000
MARKED = ("OHFORGE_SERVER", "a1b2c3")


def ask(mark: str) -> str:
    script = render_script("marked", mark=mark)
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_counters_are_those_of_the_process_with_the_mark() -> None:
    child = [sys.executable, "-c", f"a = b'1' * {SIZE}; print('begun', flush=True); input()"]
    environment = {**os.environ, MARKED[0]: MARKED[1]}
    with subprocess.Popen(child, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"begun\n"
            text = ask("=".join(MARKED))
            use = parse_use(text)
        finally:
            process.kill()
            _, _, usage = os.wait4(process.pid, 0)
    assert text.startswith(f"@@process {process.pid}\n") and text.endswith("@@end\n")
    assert use is not None
    assert use.peak_bytes is not None and use.resident_bytes is not None
    assert SIZE < use.resident_bytes <= use.peak_bytes < SIZE + INTERPRETER
    assert use.minor_faults is not None and 0 < use.minor_faults <= usage.ru_minflt
    assert use.major_faults == usage.ru_majflt
    assert use.read_bytes == usage.ru_inblock * 512


def test_of_no_process_nothing_is_told() -> None:
    assert parse_use(ask("OHFORGE_SERVER=nobody has this")) is None


def test_of_several_processes_the_largest_counts_and_what_is_not_told_is_none() -> None:
    small = "@@process 7\nName:\tsh\nVmHWM:\t     900 kB\nVmRSS:\t     800 kB\nread_bytes: 4096\nstat: S 1 7 7 0 -1 0 11 0 3 0\n"
    large = "@@process 8\nName:\tserver\nVmHWM:\t    2000 kB\nVmRSS:\t    1000 kB\n"
    assert parse_use(small + "@@end\n") == ProcessUse(
        resident_bytes=819_200, peak_bytes=921_600, minor_faults=11, major_faults=3, read_bytes=4096
    )
    assert parse_use(small + large + "@@end\n") == ProcessUse(
        resident_bytes=1_024_000, peak_bytes=2_048_000, minor_faults=None, major_faults=None, read_bytes=None
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (ServeOptions(context=0), "context 0"),
        (ServeOptions(slots=-1, batch=0), "slots -1, batch 0"),
        (ServeOptions(threads=-1), "threads -1"),
    ],
)
def test_counts_that_make_no_sense_are_refused(options: ServeOptions, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        server_words("m.gguf", options)
