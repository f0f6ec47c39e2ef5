"""Forwarded ports of the emulated board, by the stand-in for hdc."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import BoardError, ForwardLost
from core.session import PROJECT, Session
from deploy.emulator.board.boards import create_board, stop_board
from deploy.forward import forward as forward_module
from deploy.forward.forward import forward_port, list_forwards
from deploy.hdc.board import HdcBoard
from deploy.hdc.servers import find_free_port
from tests.support.board_runs import SERIAL, soon, use_boards
from tests.support.waiting import wait_until

PORT = 7021
SAYS_HI = f"setsid nc -s 127.0.0.1 -p {PORT} -L echo hi >/dev/null 2>&1 </dev/null &"


@pytest.fixture
def hdc_board(home: Path, board: HdcBoard) -> Iterator[HdcBoard]:
    """The emulated board, on which a port says hi."""
    board.shell(SAYS_HI, deadline=soon())
    wait_until("the port", lambda: f":{PORT} " in board.shell("netstat -lnt", deadline=soon()).text)
    yield board
    board.shell("pkill nc", deadline=soon())


@pytest.fixture(autouse=True)
def own_boards(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_boards(home, tmp_path, monkeypatch)


def heard(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        return connection.recv(100)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(10)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_two_ports_at_once_reach_the_board_and_end_with_their_blocks(session: Session, hdc_board: HdcBoard) -> None:
    with forward_port(session, hdc_board, PORT) as first:
        with forward_port(session, hdc_board, PORT) as second:
            assert (heard(first.local), heard(second.local)) == (b"hi\n", b"hi\n")
        assert [rule.here for rule in list_forwards(session, hdc_board.hdc)] == [f"tcp:{first.local}"]
        assert heard(first.local) == b"hi\n"
    assert list_forwards(session, hdc_board.hdc) == []
    wait_until("the end of the listening", lambda: not is_open(first.local))


def test_a_port_that_somebody_takes_before_hdc_does_is_passed_over(
    session: Session, hdc_board: HdcBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        ports = iter([taken])
        monkeypatch.setattr(forward_module, "find_free_port", lambda: next(ports, None) or find_free_port())
        with forward_port(session, hdc_board, PORT) as forward:
            assert forward.local != taken
            assert heard(forward.local) == b"hi\n"
        monkeypatch.setattr(forward_module, "find_free_port", lambda: taken)
        with pytest.raises(BoardError, match="5 that were free had been taken"), forward_port(session, hdc_board, PORT):
            pass
    assert list_forwards(session, hdc_board.hdc) == []


def test_a_forwarding_that_somebody_else_ends_is_lost(session: Session, hdc_board: HdcBoard) -> None:
    with forward_port(session, hdc_board, PORT) as forward:
        forward.check()
        words = ("fport", "rm", f"tcp:{forward.local}", f"tcp:{PORT}")
        hdc_board.hdc.call(session, words, deadline=Deadline.after(60, "its end"))
        with pytest.raises(ForwardLost, match="no longer forwarded"):
            forward.check()


def test_a_forwarding_ends_with_the_board(session: Session, home: Path, board: HdcBoard) -> None:
    mortal = create_board(SERIAL, home=home)
    board.shell("true", deadline=soon())
    with forward_port(session, board, PORT) as forward:
        stop_board(mortal)

        def is_lost() -> bool:
            try:
                forward.check()
            except ForwardLost:
                return True
            return False

        wait_until("the loss", is_lost)


CHILD = """
import sys, time
from core.session import Session
from deploy.forward.forward import forward_port
from deploy.hdc import choose
choose._hdc_of_sdk = lambda session: None
session = Session()
board = choose.choose_board(session, "dayu200")
with forward_port(session, board, int(sys.argv[1])) as forward:
    print("port", forward.local, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_forwarding_outlives_its_process(session: Session, hdc_board: HdcBoard, number: signal.Signals) -> None:
    words = [sys.executable, "-c", CHILD, str(PORT)]
    with subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            port = int(next(line for line in child.stdout if line.startswith("port")).split()[1])
            assert heard(port) == b"hi\n"
            child.send_signal(number)
            child.wait(timeout=120)
        finally:
            child.kill()
    wait_until("its end", lambda: not list_forwards(session, hdc_board.hdc))
