"""bench.eval.record: answers are kept as they come, whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from bench.eval import record
from bench.eval.record import AnswersFile, find_eval, read_answers
from core.errors import InvalidData, NotEnoughSpace, UsageError
from core.session import Session


def ids(folder: Path) -> list[str]:
    return [line["id"] for line in read_answers(folder)]


def test_an_answer_that_was_half_written_is_none_and_makes_room_for_the_next(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_bytes(b'{"id": "a"}\n{"id": "b", "text": "hal')
    assert ids(tmp_path) == ["a"]
    answers = AnswersFile(file)
    answers.add({"id": "c", "text": "八 \ud800"})
    answers.close()
    assert ids(tmp_path) == ["a", "c"]


def test_a_long_half_line_is_taken_away_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_bytes(b'{"id": "a"}\n' + b"x" * 200_000)
    AnswersFile(file).close()
    assert file.read_bytes() == b'{"id": "a"}\n'
    file.write_bytes(b"x" * 200_000)
    AnswersFile(file).close()
    assert file.read_bytes() == b""


def test_a_full_disk_leaves_the_answers_before_and_no_part_of_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = AnswersFile(tmp_path / "answers.jsonl")
    answers.add({"id": "a"})

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(record, "flush_to_disk", full)
        with pytest.raises(NotEnoughSpace, match="All answers but the last are kept"):
            answers.add({"id": "b"})
    answers.add({"id": "c"})
    answers.close()
    assert ids(tmp_path) == ["a", "c"]


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_bytes(b'{"id": "a"}\n{"id": \n')
    with pytest.raises(InvalidData, match="line 2 is no JSON"):
        ids(tmp_path)
    (tmp_path / "answers.jsonl").write_bytes(b"[1]\n")
    with pytest.raises(InvalidData, match="line 1 is no answer"):
        ids(tmp_path)


def test_latest_is_the_newest_evaluation_and_no_bench(session: Session, tmp_path: Path) -> None:
    runs = session.settings.runs
    with pytest.raises(UsageError, match="no record of an evaluation"):
        find_eval(session, "latest")
    for name, kind in (("20260101T000000Z-a", "eval"), ("20260102T000000Z-b", "eval"), ("20260103T000000Z-c", "bench")):
        (runs / name).mkdir(parents=True)
        (runs / name / "record.json").write_text(f'{{"kind": "{kind}"}}')
    assert find_eval(session, "latest").name == "20260102T000000Z-b"
    assert find_eval(session, "20260101T000000Z-a").name == "20260101T000000Z-a"
