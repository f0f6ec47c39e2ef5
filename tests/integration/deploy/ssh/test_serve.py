"""A model that is served on a board over SSH."""

from __future__ import annotations

import shutil
import urllib.request
from pathlib import Path

import pytest

from core.errors import ForwardLost, LostConnection
from core.session import Session
from deploy.launch.model_server import ServeOptions
from deploy.launch.serve import serve_on_board
from deploy.ssh.board import SshBoard
from native.models.models import find_model
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.served import run_of_server, write_server
from tests.support.sshd import LoopbackSshd
from tests.support.waiting import wait_until


def test_a_model_is_served_through_the_boards_connection_and_ends_with_it(
    session: Session, board: SshBoard, sshd: LoopbackSshd, tmp_path: Path
) -> None:
    toybox = shutil.which("toybox")
    if toybox is None:
        pytest.skip("no toybox is installed, by which the board's server listens")
    model = find_model(session, str(write_tiny_gguf(tmp_path / "tiny.gguf")))
    run = run_of_server(write_server(tmp_path, nc=f"{toybox} nc"))
    with serve_on_board(session, board, model, ServeOptions(), run=run) as server:
        assert urllib.request.urlopen(f"{server.url}/health", timeout=60).status == 200
        server.check()
        assert server.use() is not None
        sshd.cut()
        with pytest.raises((ForwardLost, LostConnection)):
            wait_until("the loss", lambda: server.check())
    assert not server.alive()
    wait_until("the end of the server", lambda: server.use() is None)
