"""math-verify as a second opinion: a process that may hang or die, and holds nothing up."""

from __future__ import annotations

import importlib.util
import json
from fractions import Fraction
from pathlib import Path

import pytest

from bench.eval.second_opinion import FAILED, LATE, RIGHT, WRONG, MathVerify, Question
from core.errors import HostToolMissing
from tests.support.command_line import said_by

IN_ITS_PLACE = """
import os, time

def parse(text, parsing_timeout):
    if "for ever" in text:
        time.sleep(3600)
    if "dies" in text:
        os._exit(9)
    if "raises" in text:
        raise RecursionError
    return text.strip("$").removeprefix("It is ").removesuffix(" miles")

def verify(gold, found, timeout_seconds):
    return gold == found
"""
PATIENT = 60.0


@pytest.fixture
def in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of that name which compares texts, and does what the text says."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "math_verify.py").write_text(IN_ITS_PLACE)
    monkeypatch.syspath_prepend(str(tmp_path / "library"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "library"))


def question(text: str, gold: Fraction | int = 7) -> Question:
    return Question(text=text, gold=Fraction(gold))


@pytest.mark.usefixtures("in_its_place")
def test_answers_that_break_it_off_have_no_opinion_and_the_next_ones_have() -> None:
    with MathVerify(PATIENT) as second:
        judged = [second.judge(question(text)) for text in ("It is 7", "It raises", "It dies", "It is 8", "It is 7")]
    assert judged == [RIGHT, FAILED, FAILED, WRONG, RIGHT]


@pytest.mark.usefixtures("in_its_place")
def test_an_answer_that_takes_for_ever_is_given_up() -> None:
    with MathVerify(0.2) as second:
        assert second.judge(question("It takes for ever")) == LATE


@pytest.mark.usefixtures("in_its_place")
def test_where_both_differ_is_listed(tmp_path: Path) -> None:
    texts = ["It is 7", "It is 7 miles an hour", "It is 8", "It raises"]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text, "gold": 7}) + "\n" for text in texts))
    status, out, text = said_by(["eval.grade", str(path), "--math-verify", "--json"])
    assert status == 0
    assert [json.loads(line)["math_verify"] for line in out.splitlines()] == [RIGHT, WRONG, WRONG, FAILED]
    assert "line 2: math-verify says wrong, these rules say right (7)" in text
    assert "math-verify: right 1, wrong 2, of another opinion 1, failed 1" in text
    assert [json.loads(line)["lenient"] for line in out.splitlines()] == [True, True, False, False]


def test_without_it_one_is_told_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(HostToolMissing, match="not installed") as raised:
        MathVerify()
    assert "pip install 'math-verify" in raised.value.remedy


@pytest.mark.skipif(not importlib.util.find_spec("math_verify"), reason="math-verify is not installed")
def test_the_real_one_judges_and_is_given_up_at_a_power_tower() -> None:
    with MathVerify(PATIENT) as second:
        assert second.judge(question(r"\boxed{\frac{1}{2}}", Fraction(1, 2))) == RIGHT
        assert second.judge(question(r"\boxed{8}")) == WRONG
    with MathVerify(0.5) as second:
        assert second.judge(question("\\boxed{9^{9^{9^{9}}}}", 9)) == LATE
