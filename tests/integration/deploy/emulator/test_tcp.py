"""Boards of the stand-in that are reached over TCP, and what its server remembers of them."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.emulator.board.boards import create_board, is_running, read_board, stop_board
from tests.support.emulated import ROOT, Hdc, emulated_home, free_port
from tests.support.waiting import wait_until


@pytest.fixture
def tcp(tmp_path: Path) -> Iterator[Hdc]:
    """A board that is reached over TCP, and the only one of its home."""
    port = free_port()
    with emulated_home(tmp_path / "tcp") as environment:
        create_board("emulated-tcp", home=Path(environment["OHFORGE_EMULATOR_HOME"]), profile="dayu200", port=port)
        yield Hdc(environment=environment, key=f"127.0.0.1:{port}")


def board_of(hdc: Hdc) -> Path:
    return Path(hdc.environment["OHFORGE_EMULATOR_HOME"]) / "emulated-tcp"


def test_a_tcp_board_is_listed_once_it_is_connected(tcp: Hdc) -> None:
    assert tcp("list", "targets").stdout == b"[Empty]\r\n"
    assert tcp("list", "targets", "-v").stdout == b"[Empty]\r\thdc\n"
    assert tcp.board("shell", "id ") == b"[Fail]Not match target founded, check connect-key please\r\n"
    assert tcp("tconn", tcp.key).stdout == b"Connect OK\r\n"
    assert tcp("tconn", tcp.key).stdout == b"[Info]Target is connected, repeat operation\r\n"
    assert tcp("list", "targets", "-v").stdout == f"{tcp.key}\t\tTCP\tConnected\tlocalhost\thdc\n".encode()
    assert tcp.shell("echo hi") == b"hi\n"
    assert tcp("shell", "echo only ").stdout == b"only\n"


def test_a_removed_tcp_board_stays_known_as_offline_until_the_server_is_killed(tcp: Hdc) -> None:
    tcp("tconn", tcp.key)
    assert tcp("tconn", tcp.key, "-remove").stdout == b""
    assert tcp("tconn", tcp.key, "-remove").stdout == b"[Fail]No target available\r\n"
    assert tcp("list", "targets", "-v").stdout == f"{tcp.key}\t\tTCP\tOffline\tunknown...\thdc\n".encode()
    assert tcp("list", "targets").stdout == b"[Empty]\r\n"
    assert tcp.board("shell", "id ") == b"[Fail][E001005] Device not found or connected\r\n"
    tcp("kill")
    assert tcp("list", "targets", "-v").stdout == b"[Empty]\r\thdc\n"
    assert tcp("tconn", tcp.key).stdout == b"Connect OK\r\n"


def test_a_tcp_board_never_comes_back_by_itself(tcp: Hdc) -> None:
    tcp("tconn", tcp.key)
    assert tcp.board("smode") == b""
    offline = f"{tcp.key}\t\tTCP\tOffline".encode()
    wait_until("the start of the new daemon", lambda: offline in tcp("list", "targets", "-v").stdout)
    assert tcp.board("shell", "id ") == b"[Fail][E001005] Device not found or connected\r\n"
    assert tcp("tconn", tcp.key).stdout == b"Connect OK\r\n"
    assert tcp.shell("echo back") == b"back\n"


def test_a_stopped_tcp_board_is_offline_and_starts_with_tconn(tcp: Hdc) -> None:
    tcp("tconn", tcp.key)
    board = read_board(board_of(tcp))
    stop_board(board)
    assert b"Offline" in tcp("list", "targets", "-v").stdout
    assert not is_running(board)
    assert tcp("tconn", tcp.key).stdout == b"Connect OK\r\n"


def test_an_authorised_tcp_board_loses_the_first_command_after_tconn(tcp: Hdc) -> None:
    board = board_of(tcp)
    create_board(board.name, home=board.parent, secure=True)
    # Both in one process that waits for longer, because the board needs less time than two calls may take.
    script = (
        "from deploy.emulator.stand_in import cli, on_board\n"
        "on_board.SWALLOW_SECONDS = 600.0\n"
        f"cli.main(['tconn', '{tcp.key}']); cli.main(['-t', '{tcp.key}', 'shell', 'echo lost '])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **tcp.environment}, cwd=ROOT, capture_output=True, check=True
    )
    assert done.stdout == b"Connect OK\r\n"
    time.sleep(0.5)
    assert tcp.shell("echo found") == b"found\n"


def test_wait_returns_when_the_board_comes(tcp: Hdc) -> None:
    with tcp.start("wait") as process:
        time.sleep(1.0)
        assert process.poll() is None
        tcp("tconn", tcp.key)
        assert process.communicate(timeout=30) == (b"", b"")


def test_a_silent_peer_is_given_up_after_a_second(tcp: Hdc) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert tcp("tconn", f"127.0.0.1:{silent.getsockname()[1]}").stdout == b"[Fail]Connect failed\r\n"


def test_without_a_key_one_board_is_meant_and_two_are_too_many(tcp: Hdc) -> None:
    need_key = b"[Fail]ExecuteCommand need connect-key? please confirm a device by help info\r\n"
    assert tcp("shell", "id ").stdout == need_key
    assert tcp("any").stdout == b"[Fail]No target available\r\n"
    tcp("tconn", tcp.key)
    assert tcp("shell", "echo only ").stdout == b"only\n"
    create_board("emulated-usb", home=board_of(tcp).parent, profile="dayu200")
    assert tcp("list", "targets").stdout.decode().splitlines() == [tcp.key, "emulated-usb"]
    for words in (("shell", "id "), ("file", "send", "pyproject.toml", "/data/x"), ("fport", "tcp:1", "tcp:2")):
        assert tcp(*words).stdout == need_key
    # What is wrong with the words is told first.
    assert tcp("shell", "-c", "ls").stdout == b"[Fail][E003003] Unsupport shell option: -c\n"
    assert tcp("tmode", "x").stdout == b"[Fail]Error tmode command\n"


def test_a_killed_server_ends_what_runs_in_silence_and_forgets_tcp_boards(tcp: Hdc) -> None:
    tcp("tconn", tcp.key)
    with tcp.start("shell", "echo begun; sleep 600") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        tcp("kill")
        assert process.communicate(timeout=30) == (b"", b"")
        assert process.returncode == 0
    with tcp.start("wait") as process:
        # Each test has a temporary folder of its own, in which a server starts with the first call.
        wait_until("the start of the server", lambda: list(Path(tcp.environment["TMPDIR"]).glob("*.json")))
        tcp("kill")
        assert process.communicate(timeout=30) == (b"", b"")
    assert tcp.board("shell", "id ") == b"[Fail]Not match target founded, check connect-key please\r\n"


def test_only_a_terminal_is_told_that_the_server_was_killed(tcp: Hdc) -> None:
    assert tcp("list", "targets").stdout == b"[Empty]\r\n"
    ours, theirs = pty.openpty()
    environment = {**os.environ, **tcp.environment, "PYTHONPATH": str(ROOT)}
    subprocess.run([*tcp.argv, "kill"], stdout=theirs, env=environment, cwd=ROOT, check=True)
    os.close(theirs)
    assert os.read(ours, 100) == b"Kill server finish"
    os.close(ours)


def test_the_number_of_the_server_stands_in_its_file_while_there_is_a_process(tcp: Hdc, tmp_path: Path) -> None:
    port = free_port()
    hdc = Hdc(environment={**tcp.environment, "OHOS_HDC_SERVER_PORT": str(port)})
    file = Path(tcp.environment["TMPDIR"]) / ".HDCServer.pid"
    assert hdc("list", "targets").stdout == b"[Empty]\r\n"
    assert not file.exists()
    hdc("start")
    words = Path(f"/proc/{int(file.read_text())}/cmdline").read_bytes().split(b"\0")
    assert words[-4:-1] == [b"-m", b"-s", f"127.0.0.1:{port}".encode()]
    hdc("kill")
    assert not file.exists()


def test_a_server_that_is_started_again_is_another_process_whose_file_is_there(tcp: Hdc) -> None:
    file = Path(tcp.environment["TMPDIR"]) / ".HDCServer.pid"
    numbers = []
    for words in (("start",), ("kill", "-r"), ("start", "-r")):
        assert tcp(*words).stdout == b""
        numbers.append(int(file.read_text()))
    file.unlink()
    tcp("start", "-r")
    numbers.append(int(file.read_text()))
    assert len(set(numbers)) == 4


def test_a_pipe_is_told_of_the_killed_server_at_a_high_log_level(tcp: Hdc) -> None:
    for level, told in (("3", b""), ("4", b"\r\nKill server finish\n"), ("5", b"\r\nKill server finish\n")):
        assert tcp("start").stdout == b""
        assert tcp("-l", level, "kill").stdout == told


def test_ports_are_forwarded_from_the_address_that_the_server_was_given(tcp: Hdc) -> None:
    tcp("tconn", tcp.key)
    environment = {**os.environ, **tcp.environment, "PYTHONPATH": str(ROOT)}
    tcp("kill")
    line = [*tcp.argv, "-e", "127.0.0.2", "-m"]
    with subprocess.Popen(line, env=environment, cwd=ROOT, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert f"port: {tcp.environment['OHOS_HDC_SERVER_PORT']}\n".encode() in server.stdout.readline()
        pid = Path(tcp.environment["TMPDIR"]) / ".HDCServer.pid"
        wait_until("the start of the server", pid.exists)
        port = free_port()
        assert tcp("tconn", tcp.key).stdout == b"Connect OK\r\n"
        assert tcp.board("fport", f"tcp:{port}", "tcp:7013") == b"Forwardport result:OK\r\n"
        socket.create_connection(("127.0.0.2", port), timeout=10).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=10)
        tcp("kill")
        server.wait(timeout=30)


def test_a_locked_image_refuses_another_user_and_a_writable_system(tcp: Hdc) -> None:
    create_board("emulated-tcp", home=board_of(tcp).parent, locked=True)
    tcp("tconn", tcp.key)
    assert tcp.board("smode") == b"[Fail]Cannot set root run mode in undebuggable version.\r\n"
    assert tcp.board("target", "mount") == b"[Fail][E007100] Operate need running under debug mode\r\n"
