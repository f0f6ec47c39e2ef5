"""From what a user asked for to what is run: which program, with which files."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import UnknownName, UsageError
from core.session import Session
from deploy.launch import launch
from deploy.launch.launch import find_product, run_program
from deploy.launch.request import LaunchRequest


def test_a_product_is_found_by_its_name_with_and_without_its_recipe() -> None:
    for text in ("llama-bench", "llama/llama-bench"):
        recipe, product = find_product(text)
        assert (recipe.name, product) == ("llama", "llama-bench")


@pytest.mark.parametrize(
    ("text", "nearest"), [("llama-bensch", "llama-bench"), ("llama/bench", "llama-bench"), ("lama/x", "llama")]
)
def test_an_unknown_program_is_told_with_the_nearest(text: str, nearest: str) -> None:
    with pytest.raises(UnknownName, match=nearest):
        find_product(text)


@pytest.mark.parametrize(
    "program", ["./missing", "/no/such/program", "missing.bin", "../missing", "build/x/arm64-1/out/x"]
)
def test_a_path_that_is_not_there_is_told_as_a_path(session: Session, program: str) -> None:
    with pytest.raises(UsageError, match="There is no file"):
        run_program(session, LaunchRequest(program=program))


def test_what_is_no_program_is_refused_before_a_board_is_looked_for(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "choose_board", lambda *_: pytest.fail("a board was looked for"))
    text = tmp_path / "model.gguf"
    text.write_bytes(b"GGUF")
    with pytest.raises(UsageError, match="neither an ELF program nor a script"):
        run_program(session, LaunchRequest(program=str(text)))
