"""A place whose board hangs at its exporter's host, which is another computer than this one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("labgrid", reason="labgrid is not installed: make test-setup")

from commands.board import held_board
from core.deadline import Deadline
from core.session import Session
from deploy.hdc.choose import choose_board
from deploy.hdc.version import describe_link
from tests.support.board_runs import SERIAL
from tests.support.lab import loopback_lab
from tests.support.lab_host import know_host, lab_host
from tests.support.sshd import SSHD


@pytest.mark.skipif(SSHD is None, reason="no sshd is installed (Debian package openssh-server)")
def test_the_exporters_host_is_the_one_on_which_hdc_runs(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "host").mkdir()
    boards = {"shelf": {"host": "lab1", "serial": SERIAL, "profile": "dayu200"}}
    with loopback_lab(tmp_path / "lab", boards) as lab, lab_host(tmp_path / "host") as host:
        know_host(tmp_path / "home", host.sshd, "lab1")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("OHFORGE_HDC", "/nowhere/hdc")
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        session = session.with_settings(lab=lab.address)
        board = choose_board(session, "lab:shelf")
        assert board.serial == f"ssh://lab1/{SERIAL}"
        board.host.close()
        with held_board(session, "lab:shelf", "a test", 0.0) as held:
            said = held.shell("echo there", deadline=Deadline.after(120, "the board"))
            assert said.text == "there\n"
            assert lab.holder("shelf") != ""
            link = describe_link(session, held)
            assert (link["via"], link["lab"]) == ("ssh://lab1", {"place": "shelf", "coordinator": lab.address})
            held.host.close()
        assert lab.holder("shelf") == ""
