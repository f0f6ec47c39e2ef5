"""A model that is served on this computer, with a script in place of llama-server."""

from __future__ import annotations

import os
import shutil
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.errors import DeadlineExpired, RunError
from core.session import Session
from deploy.launch.model_server import ServeOptions
from deploy.launch.serve_host import HostServer
from deploy.run.options import RunOptions
from tests.support.served import write_server

OPTIONS = ServeOptions()
TOYBOX = shutil.which("toybox")
pytestmark = pytest.mark.skipif(TOYBOX is None, reason="no toybox is installed, by which the script listens")


@contextmanager
def served(session: Session, folder: Path, options: ServeOptions = OPTIONS, **script: str) -> Iterator[HostServer]:
    program = write_server(folder, nc=f"{TOYBOX} nc", **script)
    program.chmod(0o755)
    with HostServer(session, program, ("-m", "x"), folder, options) as server:
        port, began = server.wait_until_listening(options, 1)
        server.wait_until_ready(port, began, options)
        yield server


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # The script keeps a file beside it.


def test_it_answers_within_the_block_and_is_gone_after_it(session: Session, tmp_path: Path) -> None:
    with served(session, tmp_path) as server:
        with urllib.request.urlopen(f"{server.url}/health", timeout=60) as answer:
            assert answer.read() == b'{"status":"ok"}'
        server.check()
        assert server.use() is not None and server.alive()
    assert server.use() is None and not server.alive()
    assert server.log.read_text().startswith("words: -m x\n")


def test_one_that_ends_before_it_is_ready_is_an_error_with_its_last_words(session: Session, tmp_path: Path) -> None:
    with (
        pytest.raises(RunError, match=r"ended with status 3.(.|\n)*no model here"),
        served(session, tmp_path, before="echo no model here >&2; exit 3"),
    ):
        pytest.fail("it is not ready")


def test_one_that_is_killed_says_so_when_it_is_asked_why(session: Session, tmp_path: Path) -> None:
    with served(session, tmp_path, before="echo $$ >number") as server:
        leader = int((tmp_path / "number").read_text())
        assert os.getpgid(leader) == leader != os.getpgrp()
        os.killpg(leader, signal.SIGKILL)
        with pytest.raises(RunError, match="ended with status -9"):
            server.check()


def test_the_time_of_a_server_is_limited_and_that_is_said(session: Session, tmp_path: Path) -> None:
    options = ServeOptions(run=RunOptions(timeout=0.2))
    with (
        pytest.raises(DeadlineExpired, match=r"on this computer after 0\.2 s"),
        served(session, tmp_path, options, before="sleep 600"),
    ):
        pytest.fail("it is not ready")
