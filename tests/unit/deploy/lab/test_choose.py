"""What is said before a coordinator is asked."""

from __future__ import annotations

import importlib.util

import pytest

from core.errors import ConfigurationError, HostToolMissing
from core.session import Session
from deploy.hdc.choose import choose_board
from deploy.lab.choose import list_places


def test_a_labs_board_needs_a_coordinator(session: Session) -> None:
    with pytest.raises(ConfigurationError, match=r"lab:bench is a board of a lab, but no coordinator is named"):
        choose_board(session, "lab:bench")
    assert list_places(session) == []


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
