"""The pieces of a split model travel together, side by side."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from core.session import Session
from deploy.launch import launch
from deploy.launch.launch import ready_model
from deploy.launch.request import LaunchRequest
from native.models.models import find_model
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.local_board import LocalBoard


def test_all_pieces_are_sent_and_the_first_is_named(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_tiny_gguf(tmp_path / "tiny.gguf", tensors_in_piece=8)
    monkeypatch.setattr(launch, "choose_build", lambda *_: SimpleNamespace())
    request = LaunchRequest(model=str(first))
    run = ready_model(session, LocalBoard(tmp_path / "board"), find_model(session, str(first)), request, tmp_path).run
    names = [f"tiny-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    assert [file.name for file in run.files] == names
    assert [file.local for file in run.files] == [tmp_path / name for name in names]
    assert all(file.sha256 for file in run.files)
    assert run.arguments[:2] == ("-m", names[0])
