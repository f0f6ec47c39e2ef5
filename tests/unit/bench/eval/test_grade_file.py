"""Files of answers: each line is graded or named, and none keeps the others from it."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from bench.eval import grade_file as module
from bench.eval.grade_file import grade_file
from core.errors import UsageError
from tests.support.command_line import said_by


def write_lines(path: Path, *lines: object) -> Path:
    """Each line as it is when it is bytes, else as JSON."""
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"".join(text + b"\n" for text in texts))
    return path


def item(text: str, gold: object = 42, **more: Any) -> dict[str, Any]:
    return {"text": text, "gold": gold, **more}


def test_every_kind_of_broken_line_is_named_with_its_number_and_the_others_are_graded(tmp_path: Path) -> None:
    faults = {
        b"nonsense": "it is no JSON: Expecting value, column 1",
        b'{"text": "\xff", "gold": 1}': "it is no UTF-8",
        b"[" * 100_000: "it is no JSON",
        b"[]": "[] is not of type 'object'",
        b'{"gold": 1}': "it lacks text",
        b'{"text": "1"}': "it lacks gold",
        b'{"text": 1, "gold": 1}': "text: 1 is not of type 'string'",
        b'{"text": "1", "gold": true}': "its 'gold' is no number: 'True'",
        b'{"text": "1", "gold": "a"}': "its 'gold' is no number: 'a'",
        b'{"text": "1", "gold": Infinity}': "its 'gold' is no number: 'inf'",
        b'{"text": "1", "gold": 1e999999999}': "its 'gold' is no number: 'inf'",
        b'{"text": "1", "gold": ' + b"9" * 10_000 + b"}": "it is no JSON",
        b'{"text": "1", "gold": 1, "truncated": "yes"}': "truncated: 'yes' is not of type 'boolean', 'null'",
    }
    path = write_lines(tmp_path / "a.jsonl", item("It is 42"), *faults, b"", b"  ", item("It is 41"))
    graded = list(grade_file(path))
    assert [line.fault for line in graded[1:-1]] == list(faults.values())
    assert [line.line for line in graded] == [*range(1, len(faults) + 2), len(faults) + 4]
    assert [line.verdict and line.verdict.status for line in graded if line.verdict] == ["right", "wrong"]


def test_a_line_without_end_is_passed_over_without_being_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 1 << 20)
    path = write_lines(tmp_path / "a.jsonl", b"x" * (5 << 20), item("It is 42"))
    first, second = grade_file(path)
    assert (first.fault, second.line) == ("it has more than 1 MiB", 2)
    assert second.verdict is not None
    assert second.verdict.lenient


def test_lines_are_graded_as_they_are_read(tmp_path: Path) -> None:
    first = list(islice(grade_file(write_lines(tmp_path / "a.jsonl", item("It is 42"), b"{")), 1))
    assert [line.fault for line in first] == [""]


def test_a_byte_order_mark_and_the_line_ends_of_windows_are_no_faults(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        b'\xef\xbb\xbf{"text": "A: 1", "gold": 1}\r\n\r\n{"text": "A: 1\\r\\n", "gold": "1"}'
    )
    assert [line.verdict and line.verdict.strict for line in grade_file(tmp_path / "a.jsonl")] == [True, True]


def test_what_is_no_file_is_a_usage_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(UsageError, match=r"cannot be read: (Is a directory|No such file)"):
            list(grade_file(path))


def test_the_command_answers_one_verdict_a_line(tmp_path: Path) -> None:
    texts = [item("\\boxed{42}", id="q1"), item("It is 42"), item("It is 4", truncated=True), item("")]
    status, out, _ = said_by(["eval.grade", str(write_lines(tmp_path / "a.jsonl", *texts)), "--json"])
    verdicts = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [(v["line"], v["strict"], v["lenient"], v["extracted"], v["status"]) for v in verdicts] == [
        (1, True, True, "42", "right"),
        (2, False, True, "42", "right"),
        (3, False, False, None, "truncated"),
        (4, False, False, None, "empty"),
    ]
    assert verdicts[0]["id"] == "q1"


def test_people_see_shares_and_are_told_of_broken_lines(tmp_path: Path) -> None:
    lines = [item("\\boxed{42}"), item("It is 42"), b"{", item("It is 41")]
    status, out, errors = said_by(["eval.grade", str(write_lines(tmp_path / "a.jsonl", *lines))])
    assert status == 65
    assert "line 3 is not graded" in errors
    # Wilson's formula, worked out for 2 of 3.
    assert "lenient    2 of 3  66.7%  20.8% to 93.9%" in out
    status, out, _ = said_by(["eval.grade", str(write_lines(tmp_path / "a.jsonl", *lines)), "--json"])
    assert [json.loads(line)["status"] for line in out.splitlines()] == ["right", "right", "broken", "wrong"]
