"""By what names the coordinator knows who has a place."""

from __future__ import annotations

import getpass
import os
import socket

import pytest

from deploy.lab.names import Holder, process_name, user_name


def test_a_user_is_known_as_labgrids_own_client_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_name() == f"{socket.gethostname()}/{getpass.getuser()}"
    monkeypatch.setenv("LG_USERNAME", "anna")
    monkeypatch.setenv("LG_HOSTNAME", "desk")
    assert user_name() == "desk/anna"


def test_this_process_is_read_from_its_name_and_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LG_USERNAME", "anna")
    holder = Holder.read(process_name())
    assert (holder.user, holder.host, holder.pid) == ("anna", socket.gethostname(), os.getpid())
    assert holder.describe() == f"anna (process {os.getpid()} on {socket.gethostname()})"
    assert not holder.is_dead()
    # labgrid's own client parts a name at its only slash.
    assert process_name().count("/") == 1


def test_only_a_process_of_this_computer_can_be_seen_to_be_dead() -> None:
    name = process_name()
    before, _, after = name.rpartition("-")
    assert Holder.read(f"{before}-1/{after.partition('/')[2]}").is_dead()
    assert not Holder.read(f"other{before}-1/anna").is_dead()
    assert not Holder.read("desk/anna").is_dead()
    assert Holder.read("desk/anna").describe() == "anna (on desk)"
