"""The wrapper that brings an exit status back, run by a real shell, and the reading of its markers."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.board import script
from deploy.board.script import (
    KEEP_OUTPUT,
    KEEP_PREAMBLE,
    MarkerReader,
    Stage,
    new_token,
    quote,
    stop_command,
    wrap_command,
    wrap_file,
)
from tests.support.waiting import wait_until

SHELL = shutil.which("mksh") or "/bin/sh"
TOKEN = "OHF00112233aabbccdd"


def run_wrapped(command: str, folder: str = "/", token: str = "") -> MarkerReader:
    """Runs the wrapped command as the daemon would: blanks cut off, by ``sh -c``, both streams in one pipe."""
    token = token or new_token()
    done = subprocess.run(
        [SHELL, "-c", wrap_command(command, token, folder).strip()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        timeout=30,
        check=False,
    )
    reader = MarkerReader(token)
    reader.feed(done.stdout)
    reader.finish()
    return reader


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("true", "0"),
        ("exit 3", "3"),
        ("exit 255", "255"),
        ("false; exit", "1"),
        ("kill -SEGV $$", "139"),
        ("kill -KILL $$", "137"),
        ("kill -TERM $$", "143"),
        ("no-such-program-here", "127"),
        ("/etc/passwd", "126"),
    ],
)
def test_the_status_of_a_command_comes_back(command: str, status: str) -> None:
    reader = run_wrapped(command)
    assert (reader.stage, reader.status) == (Stage.ENDED, status)


@pytest.mark.parametrize("output", ["", "abc", "abc\n", "\n", "\n\n", "a\nb", "  ", "x\r\n", "OHF:X:0\n"])
def test_the_output_comes_back_byte_for_byte(output: str) -> None:
    assert run_wrapped(f"printf %s {quote(output)}").output == output.encode()


def test_quotes_dollars_and_letters_of_all_scripts_survive() -> None:
    text = """it's "$HOME" `id` \\ 模型 ; | &"""
    assert run_wrapped(f"printf %s {quote(text)}").output.decode() == text


def test_a_command_that_reads_its_input_gets_end_of_file() -> None:
    reader = run_wrapped("cat; echo done")
    assert (reader.output, reader.status) == (b"done\n", "0")


def test_a_missing_folder_is_told_apart_from_every_status() -> None:
    reader = run_wrapped("echo ran", folder="/no/such/folder")
    assert (reader.status, reader.output) == ("C", b"")


def test_the_folder_may_have_blanks_and_quotes(tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    folder.mkdir()
    assert run_wrapped("pwd", folder=str(folder)).output.decode().strip() == str(folder)


def test_an_echo_of_the_script_is_no_marker() -> None:
    reader = run_wrapped("cat /proc/$PPID/cmdline; exit 4")
    assert reader.status == "4"
    assert b"X:$_st" in reader.output


def test_a_command_that_knows_the_token_cannot_say_how_it_ended() -> None:
    reader = run_wrapped(f"echo {TOKEN}:X:0; echo {TOKEN}:P:1:{TOKEN}; exit 4", token=TOKEN)
    assert (reader.status, reader.output) == ("4", f"{TOKEN}:X:0\n{TOKEN}:P:1:{TOKEN}\n".encode())


def test_a_script_that_says_its_start_itself_comes_with_its_first_output() -> None:
    script = 'echo "$_started\nready"; cat; exit 3'
    words = [SHELL, "-c", wrap_command(script, TOKEN, says_start=True).strip()]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        first = os.read(process.stdout.fileno(), 1000)
        reader = MarkerReader(TOKEN)
        reader.feed(first)
        assert (reader.stage, reader.pid, reader.output) == (Stage.RUNNING, process.pid, b"ready\n")
        process.stdin.close()
        reader.feed(process.stdout.read())
    assert (reader.status, reader.output) == ("3", b"ready\n")


def test_the_secret_of_the_end_can_be_read_nowhere() -> None:
    read_all = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ; set"
    done = subprocess.run(
        [SHELL, "-c", wrap_command(read_all, TOKEN)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    first, rest = done.stdout.split(b"\n", 1)
    marker, _, pid, secret = first.split(b":")
    assert (marker, pid.isdigit(), len(secret)) == (TOKEN.encode(), True, 36)
    assert TOKEN.encode() in rest
    assert rest.count(secret) == 1
    assert re.fullmatch(rb"[^:]*:X:\d+\n", rest[rest.index(secret) :])


def test_a_kernel_without_random_numbers_leaves_it_at_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "RANDOM", "/nowhere")
    reader = run_wrapped("echo out; exit 4")
    assert (reader.status, reader.output, reader.preamble) == ("4", b"out\n", b"")


def test_a_pushed_script_runs_only_when_it_is_what_was_sent(tmp_path: Path) -> None:
    pushed = tmp_path / "script.sh"
    pushed.write_text("echo ran\n")
    wrong = "0" * 32
    done = subprocess.run([SHELL, "-c", wrap_file(str(pushed), wrong, TOKEN)], capture_output=True, check=False)
    assert b":X:S\n" in done.stdout
    assert b"ran" not in done.stdout
    assert not pushed.exists()


@pytest.mark.parametrize(
    "command",
    ["sleep 100; echo on", 'trap "" TERM; sleep 100 & sleep 100; sleep 100'],
)
@pytest.mark.parametrize("ended_by", ["stop script", "SIGTERM to the shell only"])
def test_nothing_of_a_command_runs_on_after_it_was_stopped(command: str, ended_by: str) -> None:
    token = new_token()
    process = subprocess.Popen(
        [SHELL, "-c", wrap_command(command, token)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        reader = MarkerReader(token)
        while reader.pid is None:
            reader.feed(os.read(process.stdout.fileno(), 4096))
        if ended_by == "stop script":
            stopping = subprocess.Popen([SHELL, "-c", stop_command(reader.pid, token)], stdout=subprocess.PIPE)
            process.wait(30)
            answer, _ = stopping.communicate(timeout=30)
            assert answer == b"dead\n"
            assert running_in_group(reader.pid) == []
        else:
            os.kill(process.pid, signal.SIGTERM)
        process.wait(30)
        group = reader.pid
        wait_until("the end of all", lambda: running_in_group(group) == [])


def running_in_group(group: int) -> list[str]:
    """Command lines of the processes of a group that are no zombies, from /proc itself."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, number = stat.read_text().rpartition(") ")[2].split()[:3]
            if int(number) == group and state != "Z":
                found.append((stat.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_a_number_that_now_belongs_to_another_program_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "100"], start_new_session=True) as other:
        # Until a program has begun, its number looks like that of one that has ended.
        wait_until("its command line", Path(f"/proc/{other.pid}/cmdline").read_bytes)
        done = subprocess.run([SHELL, "-c", stop_command(other.pid, TOKEN)], capture_output=True, check=False)
        assert done.stdout == b"dead\n"
        assert other.poll() is None
        other.kill()


# the reader ----------------------------------------------------------------------------------------


def read_in_pieces(raw: bytes, cuts: list[int]) -> tuple[MarkerReader, bytes]:
    shown = bytearray()
    reader = MarkerReader(TOKEN, shown.extend)
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    for begin, end in itertools.pairwise(edges):
        reader.feed(raw[begin:end])
    reader.finish()
    return reader, bytes(shown)


@given(
    output=st.one_of(st.binary(max_size=200), st.text("\nOHF0123:PX\r", max_size=60).map(str.encode)),
    cuts=st.lists(st.integers(0, 400), max_size=8),
    status=st.integers(0, 255),
    line_end=st.sampled_from([b"\n", b"\r\n"]),
)
def test_markers_are_found_wherever_the_chunks_are_cut(
    output: bytes, cuts: list[int], status: int, line_end: bytes
) -> None:
    token = TOKEN.encode()
    raw = token + b":P:77" + line_end + output + token + b":X:%d" % status + line_end
    reader, shown = read_in_pieces(raw, cuts)
    assert (reader.stage, reader.pid, reader.status) == (Stage.ENDED, 77, str(status))
    assert reader.output == shown == output


@given(output=st.binary(max_size=100), kept=st.integers(0, 21), cuts=st.lists(st.integers(0, 150), max_size=5))
def test_without_the_last_marker_everything_is_handed_on_and_nothing_is_proven(
    output: bytes, kept: int, cuts: list[int]
) -> None:
    token = TOKEN.encode()
    part = (token + b":X:0")[:kept]
    reader, shown = read_in_pieces(token + b":P:1\n" + output + part, cuts)
    assert reader.stage is Stage.RUNNING
    assert (reader.status, shown) == ("", output + part)


@pytest.mark.parametrize("text", [b"Once upon", b"a line\n", b"\n\n"])
def test_text_is_shown_as_soon_as_it_comes(text: bytes) -> None:
    shown = bytearray()
    reader = MarkerReader(TOKEN, shown.extend)
    reader.feed(f"{TOKEN}:P:1\n".encode() + text)
    assert shown == text


def test_what_hdc_says_before_the_command_is_kept_apart() -> None:
    warning = b"[W][2026-01-31 12:00:00] slow\n"
    reader, shown = read_in_pieces(warning + f"{TOKEN}:P:1\nhi{TOKEN}:X:0\n".encode(), [3, 30])
    assert shown == b"hi"
    assert reader.preamble.startswith(b"[W]")


def test_a_flood_does_not_fill_the_memory() -> None:
    reader = MarkerReader(TOKEN)
    reader.feed(f"{TOKEN}:P:1\n".encode())
    for number in range(40):
        reader.feed(bytes([number]) * (1024 * 1024))
    reader.feed(f"{TOKEN}:X:0\n".encode())
    assert reader.truncated
    assert KEEP_OUTPUT <= len(reader.output) <= 2 * KEEP_OUTPUT + 1024 * 1024
    assert set(reader.output[-1024 * 1024 :]) == {39}


def test_a_flood_without_any_marker_does_not_fill_the_memory() -> None:
    reader = MarkerReader(TOKEN)
    for _ in range(100):
        reader.feed(b"x" * 65536)
    reader.finish()
    assert len(reader.preamble) <= KEEP_PREAMBLE
    assert reader.stage is Stage.NOT_STARTED


def test_the_wrapper_ends_in_a_blank_so_that_hdc_quotes_it() -> None:
    text = wrap_command("id", TOKEN)
    assert text.endswith(" ")
    assert not re.match(r'[-"\s]', text)
