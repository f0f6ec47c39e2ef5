"""``shell``: what arrives on the board, what comes back, and when it ends."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import time

import pytest

from tests.support.emulated import Hdc
from tests.support.waiting import wait_until


def test_the_exit_status_is_never_carried(hdc: Hdc) -> None:
    assert hdc("-t", hdc.key, "shell", "exit 3").status == 0


def test_both_streams_of_the_board_come_on_one(hdc: Hdc) -> None:
    answer = hdc("-t", hdc.key, "shell", "echo out; echo err >&2; echo out2")
    assert (answer.stdout, answer.stderr) == (b"out\nerr\nout2\n", b"")


def test_no_carriage_return_is_added_to_output(hdc: Hdc) -> None:
    assert hdc.shell("printf 'a\\nb'") == b"a\nb"


def test_one_word_with_a_blank_arrives_intact(hdc: Hdc) -> None:
    script = """printf '%s|' "a b" 'c"d' "$HOME_NOT_SET" '$x' süß; echo
echo second line"""
    assert hdc.shell(script) == 'a b|c"d||$x|süß|\nsecond line\n'.encode()


def test_several_words_lose_their_quoting(hdc: Hdc) -> None:
    output = hdc.board("shell", "echo", "one", "two  three", "four")
    assert output == b"one two  three four\n"
    assert hdc.board("shell", "echo", "a;echo", "b") == b"a\nb\n"


def test_one_outer_pair_of_quotes_is_removed(hdc: Hdc) -> None:
    assert hdc.board("shell", '"echo', 'hi"') == b"hi\n"


def test_a_script_of_61437_bytes_runs_and_a_longer_one_is_nothing(hdc: Hdc) -> None:
    def script(size: int) -> str:
        start = "echo ran; : "
        return start + "x" * (size - len(start))

    assert hdc.board("shell", script(61_437)) == b"ran\n"
    assert hdc.board("shell", script(61_438)) == b""


def test_a_long_word_without_a_blank_runs(hdc: Hdc) -> None:
    assert hdc.board("shell", "echo${IFS}ran;:${IFS}" + "x" * 70_000) == b"ran\n"


def test_commands_start_in_the_root_without_a_terminal(hdc: Hdc) -> None:
    assert hdc.shell("pwd; umask; echo $COLUMNS; tty") in (
        b"/\n0022\n80\nnot a tty\n",
        b"/\n022\n80\nnot a tty\n",
    )


def test_output_comes_as_it_is_written(hdc: Hdc, folder: str) -> None:
    with hdc.start("shell", f"echo first; until [ -e {folder}/go ]; do sleep 0.1; done; echo second") as process:
        assert process.stdout is not None
        assert os.read(process.stdout.fileno(), 100) == b"first\n"
        hdc.shell(f"touch {folder}/go")
        assert process.communicate(timeout=30)[0] == b"second\n"


def test_binary_output_is_not_changed(hdc: Hdc) -> None:
    block = bytes(range(256))
    octal = "".join(f"\\{byte:03o}" for byte in block)
    assert hdc.shell(f"printf '{octal}'") == block


def test_much_output_comes_whole(hdc: Hdc) -> None:
    output = hdc.shell("seq 1 400000", seconds=120)
    expected = "".join(f"{number}\n" for number in range(1, 400_001)).encode()
    assert hashlib.sha256(output).hexdigest() == hashlib.sha256(expected).hexdigest()


def test_a_reader_of_standard_input_finds_no_end(hdc: Hdc) -> None:
    process = hdc.start("shell", "cat ")
    try:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        time.sleep(1.5)
        assert process.poll() is None
        assert process.stdout.read() in (None, b"")
    finally:
        process.kill()
        process.communicate()


def test_a_reader_of_standard_input_eats_the_output_of_its_neighbours(hdc: Hdc, folder: str) -> None:
    # Standard input is the read end of the output pipe, so two readers share what is written.
    write = f"n=0; until [ -s {folder}/eaten ]; do n=$((n + 1)); echo $n; done"
    script = f"exec 3<&0; cat <&3 >{folder}/eaten 2>/dev/null & {write}; kill $!; echo $n >{folder}/n"
    output = hdc.shell(script, seconds=120)
    assert output.count(b"\n") < int(hdc.shell(f"cat {folder}/n"))


def test_a_reader_of_nothing_gets_the_end_at_once(hdc: Hdc) -> None:
    assert hdc.shell("cat </dev/null; echo after") == b"after\n"


def test_a_command_ends_when_nobody_can_write_any_more(hdc: Hdc, folder: str) -> None:
    assert hdc.shell(f"(sleep 3; touch {folder}/over) & echo left") == b"left\n"
    assert hdc.shell(f"ls {folder}") == b"over\n"


def test_a_program_in_the_background_that_cannot_write_is_not_waited_for(hdc: Hdc) -> None:
    with hdc.start("shell", "sleep 200 </dev/null >/dev/null 2>&1 & echo $!") as process:
        number = process.communicate(timeout=120)[0].strip()
    assert number.isdigit()
    hdc.shell(f"kill {number.decode()}")


def test_what_leads_a_session_of_its_own_goes_on(hdc: Hdc, folder: str) -> None:
    assert hdc.shell(f"setsid sh -c 'sleep 1; echo done' </dev/null >{folder}/log 2>&1 & echo left") == b"left\n"
    wait_until("the end of what leads its own session", lambda: hdc.shell(f"cat {folder}/log") == b"done\n")


def test_a_missing_command_is_named_by_the_shell(hdc: Hdc) -> None:
    assert re.search(rb"frobnicate: (inaccessible or )?not found\n", hdc.shell("frobnicate"))


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("true", "0"),
        ('sh -c "exit 3"', "3"),
        ("frobnicate", "127"),
        ("/dev/null", "126"),
        ('sh -c "kill -9 \\$\\$"', "137"),
        ('sh -c "kill -11 \\$\\$"', "139"),
        ('sh -c "kill -15 \\$\\$"', "143"),
        ('sh -c "exit 256"', "0"),
    ],
)
def test_the_usual_wrapper_brings_the_status_back(hdc: Hdc, command: str, status: str) -> None:
    script = f"sh -c '{command}' </dev/null & wait $!; r=$?; echo; echo MARK:$r"
    assert hdc.shell(script).decode(errors="replace").splitlines()[-1] == f"MARK:{status}"


def test_the_shell_leads_its_own_session_and_group(hdc: Hdc) -> None:
    fields = hdc.shell("cut -d ' ' -f 1,5,6 /proc/$$/stat").split()
    assert len(set(fields)) == 1


def test_the_group_of_a_command_can_be_killed_through_another(hdc: Hdc) -> None:
    with hdc.start("shell", "echo $$; sleep 600; echo never") as process:
        assert process.stdout is not None
        leader = int(process.stdout.readline())
        hdc.shell(f"kill -TERM -- -{leader}")
        rest = process.communicate(timeout=120)[0]
    assert b"never" not in rest
    wait_until("the end of the leader", lambda: hdc.shell(f"kill -0 {leader} 2>/dev/null || echo gone") == b"gone\n")


def test_a_killed_client_ends_a_single_command(hdc: Hdc) -> None:
    with hdc.start("shell", "echo $$; exec sleep 600") as process:
        assert process.stdout is not None
        number = int(process.stdout.readline())
        process.kill()
    wait_until("the end of the command", lambda: hdc.shell(f"kill -0 {number} 2>/dev/null || echo gone") == b"gone\n")


def test_a_killed_client_does_not_end_what_writes_for_ever(hdc: Hdc) -> None:
    # The writer itself holds the read end of its output, so nothing tells it that nobody reads any more.
    with hdc.start("shell", "echo $$; yes; echo never") as process:
        assert process.stdout is not None
        leader = int(process.stdout.readline())
        wait_until("the start of yes", lambda: hdc.shell(f"pgrep -P {leader} -x yes"))
        process.kill()
    time.sleep(1.0)
    assert hdc.shell(f"kill -0 {leader} && echo alive") == b"alive\n"
    hdc.shell(f"kill -KILL -- -{leader}")


def test_a_killed_client_does_not_end_what_the_shell_waits_for(hdc: Hdc) -> None:
    # Only sh gets SIGTERM, which it puts off until its child ends.
    with hdc.start("shell", "echo $$; sleep 600; echo never") as process:
        assert process.stdout is not None
        leader = int(process.stdout.readline())
        # Before it sleeps, the signal would end it.
        wait_until("the start of sleep", lambda: hdc.shell(f"pgrep -P {leader} -x sleep"))
        process.kill()
    time.sleep(1.0)
    assert hdc.shell(f"kill -0 {leader} && echo alive") == b"alive\n"
    hdc.shell(f"kill -KILL -- -{leader}")


def test_only_a_signal_gives_the_client_another_status(hdc: Hdc) -> None:
    with hdc.start("shell", "sleep 600 ") as process:
        time.sleep(1.0)
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=120) == -signal.SIGKILL
    with hdc.start("shell", "sleep 600 ") as process:
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == -signal.SIGINT


def test_without_a_terminal_the_interactive_shell_prompts_and_hangs(hdc: Hdc) -> None:
    process = hdc.start("shell")
    try:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        output = b""

        def prompts() -> bool:
            nonlocal output
            assert process.stdout is not None
            output += process.stdout.read() or b""
            return b"# " in output or b"$ " in output

        wait_until("the prompt", prompts)
        assert re.match(rb"\[W\]\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] Not support stdio TTY mode\n", output)
        time.sleep(1.0)
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_thirty_clients_at_once_are_served(hdc: Hdc) -> None:
    running = [hdc.start("shell", f"echo {number} ") for number in range(30)]
    answers = [process.communicate(timeout=60)[0] for process in running]
    assert answers == [f"{number}\n".encode() for number in range(30)]
