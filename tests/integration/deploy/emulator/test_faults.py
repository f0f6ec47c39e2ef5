"""Each fault by name: what a caller of the stand-in then sees, which is what callers of the real hdc have seen."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.emulator.board.boards import create_board, start_board
from deploy.emulator.board.faults import FaultFile
from deploy.emulator.stand_in import cli
from deploy.emulator.stand_in.state import Server
from tests.support.emulated import Answer, Hdc, emulated_home, free_port
from tests.support.tiny_elf import write_arm64
from tests.support.waiting import wait_until

TMP = "/data/local/tmp"
BLOCK = 418_611


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with emulated_home(tmp_path_factory.mktemp("faults")) as environment:
        create_board("emulated-dayu200", home=Path(environment["OHFORGE_EMULATOR_HOME"]))
        yield environment


@pytest.fixture
def hdc(home: dict[str, str], tmp_path: Path) -> Hdc:
    """The stand-in with a server of its own for each test."""
    return Hdc(environment={**home, "TMPDIR": str(tmp_path)})


@pytest.fixture
def faults(home: dict[str, str]) -> Iterator[FaultFile]:
    file = FaultFile(folder=Path(home["OHFORGE_EMULATOR_HOME"]) / "emulated-dayu200")
    yield file
    file.clear()


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    path = tmp_path / "payload"
    path.write_bytes(os.urandom(BLOCK * 3 + 5))
    return path


def hangs(process: subprocess.Popen[bytes], seconds: float = 2.0, met: Callable[[], object] = lambda: True) -> bytes:
    """Asserts that a call does not end when it has `met` its fault, ends it, and returns what it had printed."""
    wait_until("the fault", lambda: process.poll() is not None or met())
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]
    raise AssertionError(process.communicate())


def listed(hdc: Hdc) -> list[str]:
    return hdc("list", "targets").stdout.decode().split("\n")


# links that break ----------------------------------------------------------------------------------


def test_a_cut_transfer_ends_in_silence_with_a_part_under_the_final_name(
    hdc: Hdc, faults: FaultFile, payload: Path
) -> None:
    faults.set("cut-transfer", at=BLOCK + 1, count=1)
    assert hdc("-t", hdc.key, "file", "send", str(payload), f"{TMP}/cut") == Answer(stdout=b"", stderr=b"", status=0)
    assert hdc.shell(f"stat -c %s {TMP}/cut") == f"{BLOCK}\n".encode()
    assert b"finish" in hdc.board("file", "send", str(payload), f"{TMP}/cut")


def test_a_cut_while_receiving_leaves_a_part_too(hdc: Hdc, faults: FaultFile, payload: Path, tmp_path: Path) -> None:
    hdc.board("file", "send", str(payload), f"{TMP}/whole")
    faults.set("cut-transfer", at=2 * BLOCK + 1, count=1)
    assert hdc.board("file", "recv", f"{TMP}/whole", str(tmp_path / "part")) == b""
    assert (tmp_path / "part").read_bytes() == payload.read_bytes()[: 2 * BLOCK]


def test_a_cut_output_stops_at_the_byte_and_the_status_is_0(hdc: Hdc, faults: FaultFile) -> None:
    faults.set("cut-output", at=10, count=1)
    answer = hdc("-t", hdc.key, "shell", "echo 0123456789abc; echo MARK")
    assert answer == Answer(stdout=b"0123456789", stderr=b"", status=0)


def test_a_cut_after_the_last_byte_loses_only_the_end(hdc: Hdc, faults: FaultFile) -> None:
    faults.set("cut-output", at=1_000_000, count=1)
    assert hdc.shell("echo all") == b"all\n"


def test_a_lost_marker_is_the_last_line(hdc: Hdc, faults: FaultFile) -> None:
    faults.set("no-marker", count=1)
    assert hdc.shell("echo one; sleep 0.2; echo two; echo MARK:0") == b"one\ntwo\n"
    assert hdc.shell("echo MARK:0") == b"MARK:0\n"


def test_a_restarted_daemon_ends_the_command_but_not_the_board(hdc: Hdc, faults: FaultFile) -> None:
    faults.set("restart", at=4, count=1)
    assert hdc.shell("echo 1234567; sleep 600") == b"1234"
    wait_until("what the command began", lambda: hdc.shell("ps -A -o ARGS | grep -c '^sleep 600'") == b"1\n")
    hdc.shell("pkill sleep")


# boards that do not answer -------------------------------------------------------------------------


def test_a_frozen_board_stays_listed_and_answers_nothing(hdc: Hdc, faults: FaultFile) -> None:
    faults.set("freeze")
    assert hdc.key.encode() in hdc("list", "targets").stdout
    assert hangs(hdc.start("shell", "echo hi ")) == b""
    faults.clear()
    assert hdc.shell("echo thawed") == b"thawed\n"


def test_an_output_that_freezes_goes_on_when_the_board_thaws(hdc: Hdc, faults: FaultFile) -> None:
    faults.set("freeze-output", at=3)
    with hdc.start("shell", "echo 1234567 ") as process:
        assert process.stdout is not None
        assert os.read(process.stdout.fileno(), 100) == b"123"
        time.sleep(0.5)
        assert process.poll() is None
        faults.clear()
        assert process.communicate(timeout=30)[0] == b"4567\n"


def test_a_board_frozen_in_a_transfer_blocks_all_boards_of_its_server_until_it_is_killed(
    hdc: Hdc, home: dict[str, str], faults: FaultFile, tmp_path: Path
) -> None:
    big = tmp_path / "big"
    big.write_bytes(bytes(BLOCK * 40))
    server = Server(port=int(hdc.environment["OHOS_HDC_SERVER_PORT"]), folder=tmp_path)
    other = Hdc(environment=hdc.environment, key="emulated-dayu200-arm64")
    assert other.shell("echo other") == b"other\n"
    (tmp_path / "own").mkdir()
    elsewhere = Hdc(environment={**home, "TMPDIR": str(tmp_path / "own")}, key=other.key)
    faults.set("freeze-transfer", at=BLOCK)
    assert hangs(hdc.start("file", "send", str(big), f"{TMP}/big"), met=lambda: server.read().stuck_on) == b""
    assert hangs(other.start("shell", "echo other ")) == b""
    assert hangs(other.start("tconn", "127.0.0.1:1", "-remove")) == b""
    assert elsewhere.shell("echo free") == b"free\n"
    assert hdc("kill").stdout == b""
    assert other.shell("echo other") == b"other\n"


def test_a_first_send_can_hang_and_the_second_go_through(hdc: Hdc, faults: FaultFile, payload: Path) -> None:
    faults.set("hang-send", count=1)
    assert hangs(hdc.start("file", "send", str(payload), f"{TMP}/x"), met=lambda: not faults.active()) == b""
    assert b"finish" in hdc.board("file", "send", str(payload), f"{TMP}/x")


def test_a_dropped_command_is_not_executed(hdc: Hdc, faults: FaultFile) -> None:
    faults.set("drop-command", count=1)
    assert hdc.shell(f"echo ran >{TMP}/ran; echo out") == b""
    assert hdc.shell(f"cat {TMP}/ran 2>/dev/null; echo second") == b"second\n"


def test_the_first_commands_of_a_new_server_are_lost(
    hdc: Hdc, faults: FaultFile, payload: Path, tmp_path: Path
) -> None:
    assert hdc.shell("echo hi") == b"hi\n"
    faults.set("empty-first", commands=2)
    hdc("kill")
    server = Server(port=int(hdc.environment["OHOS_HDC_SERVER_PORT"]), folder=tmp_path)
    assert hdc.board("shell", "echo lost ") == b""
    sending = hdc.start("file", "send", str(payload), f"{TMP}/x")
    assert hangs(sending, met=lambda: server.read().keys[hdc.key]["told"] == 2) == b""
    assert hdc.shell("echo found") == b"found\n"
    hdc("kill")
    assert hangs(hdc.start("file", "recv", f"{TMP}/none", str(payload.with_name("y")))) == b""


def test_a_slow_link_is_slow_and_right(hdc: Hdc, faults: FaultFile, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(50_000))
    faults.set("slow", rate=50_000)
    answer = hdc.board("file", "send", str(tmp_path / "x"), f"{TMP}/slow")
    took = re.search(rb"Size:50000, File count = 1, time:(\d+)ms", answer)
    assert took is not None
    assert int(took[1]) >= 1000


# disks that refuse ---------------------------------------------------------------------------------


def test_a_full_disk_is_told_in_whole_blocks(hdc: Hdc, faults: FaultFile, payload: Path) -> None:
    faults.set("full-disk", at=BLOCK + 100)
    size = payload.stat().st_size
    answer = hdc.board("file", "send", str(payload), f"{TMP}/full")
    assert answer == f"[Fail]Transfer Stop at:{BLOCK}/{size}(Bytes), Reason: no space left on device\r\n".encode()
    assert hdc.shell(f"stat -c %s {TMP}/full") == f"{BLOCK + 100}\n".encode()


def test_a_changed_byte_still_ends_in_finish(hdc: Hdc, faults: FaultFile, payload: Path, tmp_path: Path) -> None:
    faults.set("corrupt", at=BLOCK + 7, count=1)
    assert b"finish" in hdc.board("file", "send", str(payload), f"{TMP}/x")
    hdc.board("file", "recv", f"{TMP}/x", str(tmp_path / "back"))
    sent, got = payload.read_bytes(), (tmp_path / "back").read_bytes()
    assert [index for index in range(len(sent)) if sent[index] != got[index]] == [BLOCK + 7]
    assert len(sent) == len(got)


def test_a_read_only_disk_refuses_the_shell_and_the_daemon(hdc: Hdc, faults: FaultFile, payload: Path) -> None:
    faults.set("read-only")
    assert b"Read-only file system" in hdc.shell(f"touch {TMP}/new")
    answer = hdc.board("file", "send", str(payload), f"{TMP}/new")
    assert answer == f"[Fail]Error opening file: read-only file system, path:{TMP}/new\r\n".encode()
    faults.clear()
    assert hdc.shell(f"touch {TMP}/new && echo yes") == b"yes\n"


@pytest.mark.parametrize(("fault", "words"), [("permission", "permission denied"), ("busy", "text file is busy")])
def test_a_file_that_cannot_be_opened_says_why(
    hdc: Hdc, faults: FaultFile, payload: Path, fault: str, words: str
) -> None:
    hdc.board("file", "send", str(payload), f"{TMP}/there")
    faults.set(fault, count=1)
    answer = hdc.board("file", "send", str(payload), f"{TMP}/there")
    assert answer == f"[Fail]Error opening file: {words}, path:{TMP}/there\r\n".encode()
    assert b"finish" in hdc.board("file", "send", str(payload), f"{TMP}/there")


# boards that may not be used -----------------------------------------------------------------------


def test_an_offline_board_is_left_out_of_the_list_and_refused(hdc: Hdc, faults: FaultFile) -> None:
    faults.set("offline")
    assert hdc.key not in listed(hdc)
    assert f"{hdc.key}\t\tUSB\tOffline\tunknown...\thdc\n".encode() in hdc("list", "targets", "-v").stdout
    assert hdc.board("shell", "echo hi ") == b"[Fail][E001005] Device not found or connected\r\n"


def test_an_unanswered_dialog_is_told_in_four_lines(hdc: Hdc, faults: FaultFile) -> None:
    faults.set("unauthorised")
    assert f"{hdc.key}\tUnauthorized\n".encode() in hdc("list", "targets").stdout
    assert hdc.board("shell", "echo hi ") == (
        b"[Fail][E000002]:The device unauthorized.\r\n"
        b"This server's public key is not set.\r\n"
        b"Please check for a confirmation dialog on your device.\r\n"
        b"Otherwise try 'hdc kill' if that seems wrong.\r\n"
    )


def test_a_dialog_that_is_answered_late_opens_the_board(hdc: Hdc, faults: FaultFile) -> None:
    faults.set("unauthorised")
    assert b"E000002" in hdc.board("shell", "echo hi ")
    faults.set("unauthorised", seconds=1)
    hdc.board("wait")
    assert hdc.shell("echo hi") == b"hi\n"


def test_a_refused_computer_is_told_so(hdc: Hdc, faults: FaultFile) -> None:
    faults.set("refused")
    assert hdc.board("file", "send", "pyproject.toml", f"{TMP}/x") == (
        b"[Fail][E000003]:The device unauthorized.\r\n"
        b"The user denied the access for the device.\r\n"
        b"Please execute 'hdc kill' and redo your command,\r\n"
        b"then check for a confirmation dialog on your device.\r\n"
    )


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            "starting",
            b"[Fail][E000004]:The communication channel is being established.\r\n"
            b"Please wait for several seconds and try again.\r\n",
        ),
        ("broken-link", b"[Fail][E002106] Failed to communicate with daemon\r\n"),
    ],
)
def test_a_passing_fault_passes(hdc: Hdc, faults: FaultFile, fault: str, words: bytes) -> None:
    faults.set(fault, count=2)
    assert hdc.board("shell", "echo hi ") == words
    assert hdc.board("shell", "echo hi ") == words
    assert hdc.shell("echo hi") == b"hi\n"


def test_a_board_can_be_missing_from_the_list_and_answer(hdc: Hdc, faults: FaultFile) -> None:
    faults.set("unlisted", count=1)
    assert hdc.key not in listed(hdc)
    assert hdc.shell("echo hi") == b"hi\n"
    assert hdc.key in listed(hdc)


def test_a_second_board_must_be_told_from_the_first(tmp_path: Path) -> None:
    with emulated_home(tmp_path) as environment:
        hdc = Hdc(environment=environment)
        other = Hdc(environment=environment, key="emulated-another-dayu200")
        assert hdc("shell", "echo only ").stdout == b"only\n"
        faults = FaultFile(folder=Path(environment["OHFORGE_EMULATOR_HOME"]) / hdc.key)
        faults.set("second-board")
        assert hdc("list", "targets").stdout == f"{other.key}\n{hdc.key}\n".encode()
        assert hdc("shell", "echo only ").stdout == (
            b"[Fail]ExecuteCommand need connect-key? please confirm a device by help info\r\n"
        )
        # It is a board of its own, not another name of the first.
        hdc.shell(f"echo first >{TMP}/which")
        assert b"No such file" in other.shell(f"cat {TMP}/which")
        assert hdc.shell(f"cat {TMP}/which") == b"first\n"
        faults.clear()
        assert hdc("list", "targets").stdout == f"{hdc.key}\n".encode()
        assert other.board("shell", "id ") == b"[Fail]Not match target founded, check connect-key please\r\n"


def test_a_line_of_the_clients_log_can_stand_before_the_answer(hdc: Hdc, faults: FaultFile) -> None:
    faults.set("log-lines", count=1)
    assert re.fullmatch(rb"\[I\]\[[-0-9: ]{19}\] [a-z ]+\nhi\n", hdc.shell("echo hi"))


# servers that are not there ------------------------------------------------------------------------


def test_a_server_that_cannot_be_started_is_told_on_standard_error(hdc: Hdc, faults: FaultFile) -> None:
    faults.set("server-down", seconds=0.5, count=1)
    assert hdc("list", "targets") == Answer(stdout=b"", stderr=b"Connect server failed\n", status=0)
    assert hdc.key.encode() in hdc("list", "targets").stdout


def test_a_taken_port_has_no_server_and_another_has(hdc: Hdc, faults: FaultFile, tmp_path: Path) -> None:
    port = free_port()
    faults.set("port-taken", port=port, seconds=0.5)
    taken = Hdc(environment={**hdc.environment, "OHOS_HDC_SERVER_PORT": str(port)})
    for _ in range(2):
        assert taken("list", "targets") == Answer(stdout=b"", stderr=b"Connect server failed\n", status=0)
    assert hdc.key.encode() in hdc("list", "targets").stdout


def test_another_port_of_the_same_temporary_folder_fails_after_12_seconds(
    hdc: Hdc, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert hdc.key.encode() in hdc("list", "targets").stdout
    other = Hdc(environment={**hdc.environment, "OHOS_HDC_SERVER_PORT": str(free_port())})
    slept: list[float] = []
    for name, value in other.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cli.time, "sleep", slept.append)
    assert cli.main(["list", "targets"]) == 0
    assert tuple(capfdbinary.readouterr()) == (b"", b"Connect server failed\n")
    assert slept == [12.0]
    other("kill")
    assert hdc.key.encode() in other("list", "targets").stdout


def test_without_leave_to_start_one_there_is_no_server(hdc: Hdc) -> None:
    answer = hdc("-p", "list", "targets")
    assert answer == Answer(stdout=b"", stderr=b"Connect server failed\n", status=0)


# programs ------------------------------------------------------------------------------------------


def put(home: dict[str, str], program: str = "tool") -> str:
    """A program for the board, which prints a line and ends with status 3."""
    board = create_board("emulated-dayu200", home=Path(home["OHFORGE_EMULATOR_HOME"]))
    start_board(board)  # Its disk has its folders from then on.
    write_arm64(board.disk / "local/tmp" / program, b"own output\n", status=3)
    return f"{TMP}/{program}"


def test_a_program_floods_its_output_with_bytes_that_are_no_text(
    hdc: Hdc, home: dict[str, str], faults: FaultFile
) -> None:
    tool = put(home)
    faults.set("flood", bytes=300_000, count=1)
    assert hdc.shell(f"{tool}; echo =$?") == b"\xff\xfe" + bytes(299_998) + b"own output\n=3\n"
    assert hdc.shell(f"{tool}; echo =$?") == b"own output\n=3\n"


def test_a_program_that_reads_its_input_never_ends_unless_it_is_closed(
    hdc: Hdc, home: dict[str, str], faults: FaultFile
) -> None:
    tool = put(home)
    faults.set("reads-stdin")
    assert hangs(hdc.start("shell", f"{tool}; echo =$?")) == b""
    assert hdc.shell(f"{tool} </dev/null; echo =$?") == b"own output\n=3\n"
    hdc.shell("pkill -KILL cat")


def test_a_program_leaves_an_orphan_that_only_sigkill_ends(hdc: Hdc, home: dict[str, str], faults: FaultFile) -> None:
    tool = put(home)
    faults.set("orphan", count=1)
    # The command does not end, because the orphan holds its output open.
    with hdc.start("shell", f"echo $$; {tool}; echo =$?") as process:
        assert process.stdout is not None
        leader, *rest = (process.stdout.readline() for _ in range(3))
        assert rest == [b"own output\n", b"=3\n"]
        assert hangs(process) == b""
    group = leader.strip().decode()
    assert hdc.shell(f"kill -TERM -- -{group}; sleep 0.5; pgrep -x sleep | wc -l") == b"1\n"
    hdc.shell(f"kill -KILL -- -{group}")
    wait_until("the end of the orphan", lambda: hdc.shell("pgrep -x sleep | wc -l") == b"0\n")


def test_what_runs_programs_for_ohforge_has_none_of_their_faults(
    hdc: Hdc, home: dict[str, str], faults: FaultFile
) -> None:
    faults.set("flood", bytes=100)
    assert hdc.shell(f"{put(home, 'ohforge-agent-arm64')}; echo =$?") == b"own output\n=3\n"


def test_faults_of_programs_can_come_later_and_together(hdc: Hdc, home: dict[str, str], faults: FaultFile) -> None:
    tool = put(home)
    faults.set("flood", bytes=10, skip=1)
    faults.set("crash-log")
    assert hdc.shell(tool) == b"own output\n"
    assert hdc.shell(tool) == b"\xff\xfe" + bytes(8) + b"own output\n"
