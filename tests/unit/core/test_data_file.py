"""YAML files and their schemas: what is wrong is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.data_file import read_data, wrong_entry
from core.errors import InvalidData

TEXT = """\
# boards
boards:
  - name: a
    cores: 4
  -
    name: b
    cores: 8
3: number
"""
SCHEMA = {
    "type": "object",
    "required": ["boards"],
    "properties": {
        "boards": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "cores"],
                "additionalProperties": False,
                "properties": {
                    "name": {"enum": ["a", "b"]},
                    "cores": {"type": "integer"},
                    "pattern": {"type": "string", "format": "regex"},
                },
            },
        }
    },
}


def write(folder: Path, text: str | bytes) -> Path:
    file = folder / "data.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def test_what_fits_its_schema_is_read_as_it_stands(tmp_path: Path) -> None:
    wanted = {"boards": [{"name": "a", "cores": 4}, {"name": "b", "cores": 8}], 3: "number"}
    assert read_data(write(tmp_path, TEXT), SCHEMA) == wanted
    assert read_data(write(tmp_path, "- 1\n")) == [1]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("cores: 8", "cores: eight", ", line 7: boards[1].cores: 'eight' is not of type 'integer'"),
        ("name: b", "name: bb", ", line 6: boards[1].name is 'bb'; did you mean 'b'?"),
        ("cores: 4", "core: 4\n    cores: 4", ", line 3: boards[0] has the unknown key 'core'; did you mean 'cores'?"),
        ("    cores: 8\n", "", ", line 6: boards[1] lacks cores."),
        ("cores: 4", "cores: 4\n    pattern: '('", ", line 5: boards[0].pattern: '(' is not a 'regex'"),
        ("boards:", "board:", ", line 2: the file lacks boards."),
        ("name: a", "name: [a", " is not YAML: line 4: "),
        ("# boards", "a: *nowhere", " is not YAML: line 1: "),
    ],
)
def test_what_is_wrong_is_named_with_its_file_line_and_entry(tmp_path: Path, old: str, new: str, said: str) -> None:
    file = write(tmp_path, TEXT.replace(old, new, 1))
    with pytest.raises(InvalidData) as caught:
        read_data(file, SCHEMA)
    assert caught.value.message.startswith(f"{file}{said}")


@pytest.mark.parametrize(
    ("content", "said"), [(b"\xff\xfe\x00", "is not YAML"), (b"", "the file: None is not of type")]
)
def test_a_file_that_is_empty_or_no_text_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(InvalidData, match=said):
        read_data(write(tmp_path, content), SCHEMA)


def test_the_line_of_an_entry_that_is_not_there_is_that_of_what_is_around_it(tmp_path: Path) -> None:
    file = write(tmp_path, TEXT)
    assert wrong_entry(file, ("boards", 1, "colour"), "red.").message == f"{file}, line 6: red."
    assert wrong_entry(file, (3,), "odd.").message == f"{file}, line 8: odd."


def test_names_for_other_entries_cannot_make_the_search_for_a_line_endless(tmp_path: Path) -> None:
    layers = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    with pytest.raises(InvalidData, match="line 1: the file lacks boards"):
        read_data(write(tmp_path, f"a0: &a0 [x]\n{layers}"), SCHEMA)
