"""bench.eval: questions, where they come from, and the chat template's check."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bench.eval import data_sets
from bench.eval.data_sets import fetch_data, find_data, list_data, read_data_sets
from bench.eval.items import choose_items, read_items
from bench.eval.prompts import PROMPTS, read_prompt, told_tokens, write_prompt
from core.errors import IntegrityError, InvalidData, NoSourceLeft, UnknownName, UsageError
from core.session import Session
from tests.shared.loopback import Loopback
from tests.support.public_data import public_data


def test_the_thirty_questions_of_ours_have_answers_whose_steps_hold(session: Session) -> None:
    data = find_data(session, "example")
    lines = [json.loads(line) for line in data.path.read_text().splitlines()]
    assert len(lines) == len({line["question"] for line in lines}) == 30
    for line, item in zip(lines, read_items(data.path, "example"), strict=True):
        *steps, gold = line["answer"].splitlines()
        for step in steps:
            expression, _, result = step.partition(" = ")
            assert set(expression) <= set("0123456789+-*/() "), expression
            assert eval(expression) == float(result)
        assert gold == f"#### {steps[-1].partition(' = ')[2]}" == f"#### {item.gold}"


@pytest.mark.parametrize(
    ("name", "file", "count", "first"),
    [("gsm8k", "gsm8k/test.jsonl", 1319, "18"), ("mgsm-zh", "mgsm/mgsm_zh.tsv", 250, "18")],
)
def test_the_public_sets_are_read_whole(session: Session, name: str, file: str, count: int, first: str) -> None:
    path = public_data(file)
    items = read_items(path, name)
    assert (len(items), items[0].gold, items[0].id) == (count, first, f"{name}-0")
    [entry] = [entry for entry in read_data_sets() if entry.name == name]
    found = find_data(session, str(path))
    assert (entry.items, entry.sha256, entry.size) == (count, found.sha256, path.stat().st_size)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Loopback]:
    """A server of questions, and a list that names three sources of one set there."""
    content = b'{"question": "What is 2 + 2?", "answer": "#### 4"}\n'
    import hashlib

    with Loopback() as server:
        listed = {
            "name": "tiny",
            "title": "one question",
            "file": "tiny.jsonl",
            "sha256": hashlib.sha256(content).hexdigest(),
            "size": len(content),
            "items": 1,
            "licence": "CC0-1.0",
            "origin": "nobody",
            "sources": [f"{server.url}/gone", f"{server.url}/other", f"{server.url}/right"],
        }
        server.serve("/other", content.replace(b"4", b"5"))
        server.serve("/right", content)
        file = tmp_path / "data_sets.yaml"
        file.write_text(yaml.safe_dump({"data_sets": [listed]}))
        schema = data_sets.DATA.with_name("data_sets.schema.json").read_text()
        (tmp_path / "data_sets.schema.json").write_text(schema)
        monkeypatch.setattr(data_sets, "DATA", file)
        monkeypatch.setattr(data_sets.read_data_sets, "__defaults__", (file,))
        yield server


def test_sources_are_tried_in_order_and_the_hash_decides(
    session: Session, served: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    data = fetch_data(session, "tiny")
    assert read_items(data.path, "tiny")[0].gold == "4"
    assert [seen.path for seen in served.seen] == ["/gone", "/other", "/right"]
    said = capsys.readouterr().out
    assert "licence CC0-1.0" in said
    assert "/gone is passed over" in said and "/other is passed over" in said
    fetch_data(session, "tiny")
    assert len(served.seen) == 3
    assert list_data(session)[0]["path"] == str(data.path)


def test_a_set_that_no_source_has_is_told_with_what_each_said(session: Session, served: Loopback) -> None:
    del served.files["/right"]
    with pytest.raises((NoSourceLeft, IntegrityError), match=r"(?s)/gone.*/other.*/right"):
        fetch_data(session, "tiny")


def test_what_is_neither_a_file_nor_a_set_is_told(session: Session) -> None:
    with pytest.raises(UnknownName, match="did you mean 'gsm8k'"):
        find_data(session, "gsm8")
    with pytest.raises(UsageError, match="no file of questions"):
        find_data(session, "nowhere.jsonl")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b'{"question": "How many?", "answer": 3}\n{"question": ', "line 2: it is no JSON"),
        ("a.jsonl", b'\n{"answer": 3}\n', "line 2: it has no text under 'question'"),
        ("a.jsonl", b'{"question": "How many?", "answer": "some"}\n', "line 1: its answer is no number: 'some'"),
        ("a.jsonl", b'{"question": "How many?"}\n', "line 1: it has no number or text under 'answer'"),
        ("a.jsonl", b'{"question": "\xff?", "answer": 3}\n', "line 1 is no UTF-8"),
        ("a.tsv", b"How many?\t3\nHow many more? 4\n", "line 2: it is no question and answer"),
        ("a.tsv", b"\n\n", "has no question in it"),
        ("a.jsonl", b"x" * 2_000_000, "line 1 has more than 1048576 bytes"),
    ],
)
def test_a_broken_line_is_named_before_anything_is_asked(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidData) as refused:
        read_items(tmp_path / name, "a")
    assert said in refused.value.message


def test_numbers_stand_as_such_or_behind_the_last_hashes(tmp_path: Path) -> None:
    lines = [
        '{"question": "a", "answer": 3}',
        '{"question": "b", "gold": "1,000"}',
        '{"question": "c", "answer": "x #### 2\\n#### -7"}',
    ]
    (tmp_path / "a.jsonl").write_text("\ufeff" + "\n\n".join(lines) + "\n")
    assert [item.gold for item in read_items(tmp_path / "a.jsonl", "a")] == ["3", "1,000", "-7"]


def test_a_smaller_choice_is_the_beginning_of_a_larger_one(session: Session) -> None:
    items = read_items(find_data(session, "example").path, "example")
    all_of_them = choose_items(items, limit=0, seed=3)
    assert sorted(item.id for item in all_of_them) == sorted(item.id for item in items)
    assert choose_items(items, limit=7, seed=3) == all_of_them[:7]
    assert choose_items(items, limit=7, seed=4) != all_of_them[:7]
    with pytest.raises(UsageError):
        choose_items(items, limit=-1, seed=3)


@pytest.mark.parametrize("name", PROMPTS)
def test_each_wording_has_the_question_once_and_asks_for_a_box(name: str) -> None:
    said = write_prompt(read_prompt(name), "Why {{ 7 }} <b>?", tokens=32)
    assert said.count("Why {{ 7 }} <b>?") == 1
    assert "\\boxed{}" in said
    assert ("32" in said) == (name == "budget")


def test_a_told_budget_is_a_share_of_the_enforced_one() -> None:
    assert [told_tokens(budget, 0.5) for budget in (1, 3, 64)] == [1, 1, 32]
