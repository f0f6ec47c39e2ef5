"""Text from outside as names of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import HostileArchive
from core.names import checked_name, file_name_of


@pytest.mark.parametrize("text", ["..", "../x", "/etc/passwd", "a/b", "a\0b", "x" * 5000, "\udcff", "", "é", "\x1b[2J"])
def test_any_text_has_a_file_name_that_can_be_written_in_its_folder(tmp_path: Path, text: str) -> None:
    (tmp_path / file_name_of(text)).write_text("here")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["here"]
    with pytest.raises(HostileArchive):
        checked_name(text, "the version")


def test_two_texts_that_look_alike_have_two_file_names() -> None:
    assert len({file_name_of(text) for text in ("a:1", "a/1", "a_1", "a-1")}) == 4
