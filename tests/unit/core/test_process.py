"""core.process: streams, deadlines, and no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import DeadlineExpired, HostToolMissing
from core.process import KEEP_BYTES, RealRunner
from core.session import PROJECT
from core.testing import FakeRunner
from tests.support.waiting import is_alive, wait_until


def soon(seconds: float = 20) -> Deadline:
    return Deadline.after(seconds, "the test program")


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_stdout_and_stderr_are_kept_apart_and_the_exit_status_is_true() -> None:
    result = RealRunner().run(["sh", "-c", "echo out; echo err >&2; exit 3"], deadline=soon())
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 3)


def test_output_is_streamed_before_the_program_ends(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    chunks: list[bytes] = []

    def open_gate(chunk: bytes) -> None:
        chunks.append(chunk)
        gate.touch()

    script = f"echo first; while [ ! -e '{gate}' ]; do sleep 0.01; done; echo second"
    RealRunner().run(["sh", "-c", script], deadline=soon(), on_stdout=open_gate)
    assert b"".join(chunks) == b"first\nsecond\n"


def test_standard_input_is_closed_unless_it_is_given() -> None:
    assert RealRunner().run(["cat"], deadline=soon()).stdout == b""
    much = b"x" * 300_000
    assert RealRunner().run(["cat"], deadline=soon(), stdin=much).stdout == much


def test_a_program_reads_a_file_from_where_it_stands_and_writes_to_another(tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"before,after")
    with (tmp_path / "here").open("rb", buffering=0) as source, (tmp_path / "there").open("wb") as sink:
        source.seek(7)
        words = ["sh", "-c", "cat; echo err >&2"]
        result = RealRunner().run(words, deadline=soon(), stdin=source, stdout=sink)
    assert (tmp_path / "there").read_bytes() == b"after"
    assert (result.stdout, result.stderr) == (b"", b"err\n")


def test_a_program_that_shall_not_outlive_its_owner_ends_when_that_is_killed(tmp_path: Path) -> None:
    code = (
        "from core.deadline import Deadline; from core.process import RealRunner\n"
        f"words = ['sh', '-c', 'echo $$ >{tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; sleep 600 & wait']\n"
        "RealRunner().run(words, deadline=Deadline.after(600, 'the end'), end_if_killed=True)"
    )
    owner = subprocess.Popen(python(code), cwd=PROJECT)
    try:
        wait_until("the program's start", (tmp_path / "pid").exists)
    finally:
        owner.kill()
        owner.wait(timeout=60)
    number = int((tmp_path / "pid").read_text())
    wait_until("its end", lambda: not is_alive(number))


def test_a_program_that_does_not_read_its_input_is_no_error() -> None:
    assert RealRunner().run(["true"], deadline=soon(), stdin=b"x" * 1_000_000).ok


def test_a_missing_program_is_named() -> None:
    with pytest.raises(HostToolMissing, match="no-such-program"):
        RealRunner().run(["no-such-program"], deadline=soon())


def test_an_empty_value_removes_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONE", "1")
    result = RealRunner().run(["sh", "-c", "echo ${GONE-unset} $NEW"], deadline=soon(), env={"GONE": "", "NEW": "2"})
    assert result.stdout == b"unset 2\n"


@dataclass(frozen=True, kw_only=True)
class OnceThere(Deadline):
    """Is over as soon as something stands in a file, so that a busy computer makes no difference."""

    file: Path

    @property
    def remaining(self) -> float:
        return 0.0 if self.file.exists() and self.file.read_text().endswith("\n") else 0.1


def test_the_deadline_ends_grandchildren_that_ignore_sigterm(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = (
        f"(trap '' TERM; echo $$ > '{pid_file}'; exec sh -c 'trap \"\" TERM; echo $$ > {pid_file}; sleep 60') & wait"
    )
    with pytest.raises(DeadlineExpired, match="the test program"):
        RealRunner().run(
            ["sh", "-c", script], deadline=OnceThere(at=0, seconds=1, waits_for="the test program", file=pid_file)
        )
    wait_until("the end of the process", lambda: not is_alive(int(pid_file.read_text())))


def test_a_callback_that_raises_ends_the_program(tmp_path: Path) -> None:
    pids: list[int] = []

    def refuse(chunk: bytes) -> None:
        pids.append(int(chunk))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RealRunner().run(["sh", "-c", "echo $$; sleep 60"], deadline=soon(), on_stdout=refuse)
    wait_until("the end of the process", lambda: not is_alive(pids[0]))


def test_a_flood_keeps_its_end_in_bounded_memory() -> None:
    size = 3 * KEEP_BYTES
    code = f"import sys; sys.stdout.buffer.write(b'x' * {size} + b'end')"
    result = RealRunner().run(python(code), deadline=soon(60))
    assert result.truncated
    assert result.stdout.endswith(b"end")
    assert len(result.stdout) <= 2 * KEEP_BYTES + 65536


def test_a_closed_stdout_does_not_hide_that_the_program_still_runs() -> None:
    with pytest.raises(DeadlineExpired):
        RealRunner().run(python("import os, time; os.close(1); os.close(2); time.sleep(60)"), deadline=soon(0.5))


def test_no_file_descriptor_is_left_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        RealRunner().run(["true"], deadline=soon())
    assert len(os.listdir("/proc/self/fd")) == before


def test_it_works_from_a_thread_too() -> None:
    results: list[int] = []
    thread = threading.Thread(
        target=lambda: results.append(RealRunner().run(["sh", "-c", "exit 4"], deadline=soon()).exit_code)
    )
    thread.start()
    thread.join()
    assert results == [4]


def test_the_echo_shows_the_command_line_as_a_shell_would_take_it() -> None:
    lines: list[str] = []
    RealRunner(echo=lines.append).run(["echo", "two words"], deadline=soon())
    assert lines == ["+ echo 'two words'"]


def test_the_fake_answers_by_the_beginning_of_the_command() -> None:
    fake = FakeRunner([(["hdc", "list"], b"KEY\n")])
    assert fake.run(["hdc", "list", "targets"], deadline=soon()).stdout == b"KEY\n"
    with pytest.raises(AssertionError, match="no answer"):
        fake.run(["other"], deadline=soon())


IMPATIENT = """
import sys, threading
from core.deadline import Deadline
from core.errors import Interrupted
from core.interrupts import leave_at_once
from core.process import RealRunner, kill_all_running
stubborn = "trap '' TERM; echo $$ >>" + sys.argv[1] + "; while :; do sleep 1; done"
def run():
    RealRunner().run(["sh", "-c", stubborn], deadline=Deadline.after(600, "it"))
threading.Thread(target=run).start()
try:
    run()
except KeyboardInterrupt:
    leave_at_once(79, kill_all_running)
    print("interrupted", flush=True)
    sys.exit(79)
"""


def test_several_ctrl_c_leave_nothing_running(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    pids.touch()
    with subprocess.Popen([*python(IMPATIENT), str(pids)], cwd=PROJECT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        wait_until("both programs", lambda: len(pids.read_text().split()) == 2)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)  # while the grace period goes on, or before
        assert process.stdout.readline() == b"interrupted\n"
        process.send_signal(signal.SIGINT)  # while the thread is waited for
        assert process.wait(timeout=60) == 79
    for pid in map(int, pids.read_text().split()):
        wait_until(f"the end of {pid}", lambda pid=pid: not is_alive(pid))  # type: ignore[misc]


def test_ctrl_c_while_a_program_is_being_started_ends_it() -> None:
    # In a process of its own, which the signal may end.
    done = subprocess.run(
        python(INTERRUPTED_START), capture_output=True, text=True, cwd=PROJECT, check=True, timeout=60
    )
    number, said = done.stdout.split()
    assert said == "interrupted"
    wait_until("the end of the program", lambda: not is_alive(int(number)))


INTERRUPTED_START = """
import os, signal, subprocess
from core.deadline import Deadline
from core.process import RealRunner

class Interrupted(subprocess.Popen):
    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        print(self.pid)
        os.kill(os.getpid(), signal.SIGINT)

subprocess.Popen = Interrupted
try:
    RealRunner().run(["sleep", "600"], deadline=Deadline.after(20, "the test program"))
except KeyboardInterrupt:
    print("interrupted")
"""
