"""The agent's command lines and answers, without an agent."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import RunError, UsageError
from core.process import OnOutput
from deploy.agent import AgentHandle, AgentRun, RemoteHash, hash_files, read_hashes, run_command, run_program
from deploy.board import Profile, ShellResult
from tests.unit.test_agent_frames import conversation

HANDLE = AgentHandle(path="/data/local/tmp/ohforge/agent/ohforge-agent", arch="arm64", engine="armv8")
PROFILE = Profile(name="b", title="", soc="", cpu="", cores=4, memory_bytes=1, arches=("arm64",), static_only=())


@dataclass
class ScriptedBoard:
    """A board whose shell is a function from the script to its output."""

    answer: Callable[[str], bytes]
    scripts: list[str] = field(default_factory=list)
    serial: str = "board"
    profile: Profile = PROFILE
    emulated: bool = False

    def shell(
        self, script: str, *, deadline: Deadline, folder: str = "", on_output: OnOutput | None = None
    ) -> ShellResult:
        self.scripts.append(script)
        output = self.answer(script)
        if on_output is not None:
            on_output(output)
        return ShellResult(exit_code=0, output=output, seconds=0.1)

    def send(self, local: Path, remote: str, *, deadline: Deadline) -> None:
        raise NotImplementedError

    def receive(self, remote: str, local: Path, *, deadline: Deadline) -> None:
        raise NotImplementedError


def test_every_option_reaches_the_command_line_and_every_word_survives_the_shell() -> None:
    run = AgentRun(
        words=("./llama bench", "-m", "it's a $model"),
        folder="/data/run 1",
        environment={"LD_LIBRARY_PATH": "/a:/b", "EMPTY": ""},
        unset=("HOME",),
        grace_seconds=0.5,
        cpus="0-3,6",
        nice=-5,
        limits={"core": 0, "as": "unlimited"},
        sample_seconds=0.25,
    )
    words = shlex.split(run_command(HANDLE, run, seconds=1.5))
    assert words[0] == HANDLE.path
    options, program = words[1 : words.index("--")], words[words.index("--") + 1 :]
    assert program == ["./llama bench", "-m", "it's a $model"]
    assert options == [
        "run",
        "--deadline=1500",
        "--grace=500",
        "--sample=250",
        "--cwd=/data/run 1",
        "--cpus=0-3,6",
        "--nice=-5",
        "--limit=core=0",
        "--limit=as=unlimited",
        "--unset=HOME",
        "--env=LD_LIBRARY_PATH=/a:/b",
        "--env=EMPTY=",
    ]


def test_a_run_without_options_says_nothing_but_the_deadline() -> None:
    line = run_command(HANDLE, AgentRun(words=("true",)), seconds=2)
    assert line == f"{HANDLE.path} run --deadline=2000 --grace=2000 -- true"


def test_a_program_is_run_and_its_frames_are_decoded() -> None:
    board = ScriptedBoard(answer=lambda _: b"".join(conversation(("o", b"hello"))))
    out = bytearray()
    run = AgentRun(words=("hello",), seconds=5)
    report = run_program(board, HANDLE, run, deadline=Deadline.after(20, "a test"), on_stdout=out.extend)
    assert (bytes(out), report.exit_code) == (b"hello", 3)


def test_the_boards_deadline_comes_before_the_hosts() -> None:
    board = ScriptedBoard(answer=lambda _: b"".join(conversation()))
    run_program(board, HANDLE, AgentRun(words=("true",)), deadline=Deadline.after(100, "a test"))
    [option] = [word for word in shlex.split(board.scripts[0]) if word.startswith("--deadline=")]
    # 2 s of grace and 3 s for the report are kept back.
    assert 90_000 < int(option.removeprefix("--deadline=")) <= 95_000


def test_no_program_and_a_nul_are_refused() -> None:
    with pytest.raises(UsageError, match="no program"):
        run_command(HANDLE, AgentRun(words=()), seconds=1)
    with pytest.raises(UsageError, match="NUL"):
        run_command(HANDLE, AgentRun(words=("a\0b",)), seconds=1)


def test_hashes_are_read_with_sizes_and_errors() -> None:
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    found = read_hashes(f"{digest} 3 /a b\n- 2 /none\n", ["/a b", "/none"])
    assert found == {"/a b": RemoteHash(sha256=digest, size=3), "/none": RemoteHash(errno=2)}
    assert (found["/a b"].error, found["/none"].error) == ("", "No such file or directory")


@pytest.mark.parametrize("text", ["", "ab 1 /a\n", "ab 1 /b\nab 1 /a\n", "ab x /a\nab 1 /b\n", "Killed\n"])
def test_an_answer_that_does_not_fit_the_question_is_an_error(text: str) -> None:
    with pytest.raises(RunError, match="did not answer for 2 file"):
        read_hashes(text, ["/a", "/b"])


def test_many_files_are_hashed_in_calls_that_fit_a_command_line() -> None:
    def answer(script: str) -> bytes:
        paths = shlex.split(script)[3:]
        return "".join(f"{'0' * 64} 1 {path}\n" for path in paths).encode()

    board = ScriptedBoard(answer=answer)
    paths = {f"/data/local/tmp/{'x' * 100}/{number}": 1 for number in range(1000)}
    found = hash_files(board, HANDLE, paths, deadline=Deadline.after(60, "a test"))
    assert list(found) == list(paths)
    assert len(board.scripts) == 3  # about 120 kB of names
    assert all(len(script) <= 50_000 for script in board.scripts)


def test_a_path_with_a_newline_is_not_asked_for() -> None:
    with pytest.raises(UsageError, match="newline"):
        hash_files(ScriptedBoard(answer=lambda _: b""), HANDLE, {"/a\nb": 1}, deadline=Deadline.after(5, "a test"))
