"""What is said before a coordinator is asked."""

from __future__ import annotations

import importlib.util
import re

import pytest

from core.errors import ConfigurationError, HostToolMissing
from core.session import Session
from deploy.hdc.choose import choose_board
from deploy.lab.choose import coordinator_of, list_places


def test_a_labs_board_needs_a_coordinator(session: Session) -> None:
    with pytest.raises(ConfigurationError, match=r"lab:bench is a board of a lab, but no coordinator is named"):
        choose_board(session, "lab:bench")
    assert list_places(session) == []


@pytest.mark.parametrize("address", ["lab1:port", "lab1:0", "lab1:65536", "http://lab1:20408", ":20408", "lab 1"])
def test_an_address_that_cannot_be_one_is_an_error_of_the_settings(session: Session, address: str) -> None:
    for ask in (list_places, lambda asked: choose_board(asked, "lab:bench")):
        with pytest.raises(ConfigurationError, match=re.escape(f"'{address}' is no address of a coordinator")):
            ask(session.with_settings(lab=address))


@pytest.mark.parametrize("address", ["lab1", "lab1.example:20408", "[::1]:20408", "10.0.0.2:65535"])
def test_host_and_port_are_an_address(session: Session, address: str) -> None:
    assert coordinator_of(session.with_settings(lab=address)) == address


def test_without_labgrid_the_list_warns_and_a_labs_board_is_an_error(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("LG_COORDINATOR", "lab1:20408")
    with pytest.raises(HostToolMissing, match="labgrid is not installed") as missing:
        choose_board(session, "lab:bench")
    assert "pip install 'labgrid>=25.0'" in missing.value.remedy
    assert list_places(session) == []
    assert "labgrid is not installed" in capsys.readouterr().err
