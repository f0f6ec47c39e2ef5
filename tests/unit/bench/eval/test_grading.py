"""What is taken for an answer, by which rule, and whether it is right."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
import yaml

from bench.eval.grading import EMPTY, NO_ANSWER, TRUNCATED, grade, read_gold, tally
from core.session import PROJECT
from tests.support.public_data import public_data

CASES = yaml.safe_load((PROJECT / "tests/data/grading_cases.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"][:40] or "nothing")
def test_every_case_is_judged_as_by_hand(case: dict[str, Any]) -> None:
    gold = read_gold(case["gold"])
    assert gold is not None
    verdict = grade(case["text"], gold, case.get("cut"))
    right = case.get("right", "value" in case)
    assert verdict.extracted == case.get("value")
    assert verdict.lenient == right
    assert verdict.strict == (right and case.get("strict", True))


def solutions() -> Iterator[tuple[str, Fraction, bool]]:
    """Text, right answer and label of the answers of four models that were published with the data set."""
    for line in public_data("gsm8k/example_model_solutions.jsonl").read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        gold = Fraction(re.findall(r"^A: (.*)$", item["ground_truth"], re.MULTILINE)[-1].replace(",", ""))
        for value in item.values():
            if isinstance(value, dict):
                yield value["solution"], gold, value["is_correct"]


def test_all_published_answers_of_models_are_judged_as_their_labels_say() -> None:
    judged = [(grade(text, gold).lenient, label) for text, gold, label in solutions()]
    assert len(judged) == 5276
    assert [place for place, (lenient, label) in enumerate(judged) if lenient != label] == []


def test_the_right_answers_of_the_data_sets_are_right_in_a_box_and_behind_a_phrase() -> None:
    lines = public_data("gsm8k/test.jsonl").read_text(encoding="utf-8").splitlines()
    answers = [json.loads(line)["answer"] for line in lines]
    chinese = public_data("mgsm/mgsm_zh.tsv").read_text(encoding="utf-8").splitlines()
    golds = [*(answer.rpartition("#### ")[2] for answer in answers), *(line.split("\t")[1] for line in chinese)]
    assert len(golds) == 1319 + 250
    for gold in golds:
        value = Fraction(gold.replace(",", ""))
        assert grade(rf"\boxed{{{gold}}}", value).strict
        assert grade(f"所以答案是{gold}个。", value).strict
        assert not grade(rf"\boxed{{{gold}}}", value + 1).lenient
    assert all(grade(answer, Fraction(answer.rpartition("#### ")[2].replace(",", ""))).strict for answer in answers)


def test_no_answer_cut_and_empty_are_told_apart_and_counted() -> None:
    texts = [("Nobody knows.", False), ("Nobody kn", True), ("", False), ("  ", True), (r"\boxed{}", True)]
    verdicts = [grade(text, Fraction(1), cut) for text, cut in texts]
    assert [verdict.status for verdict in verdicts] == [NO_ANSWER, TRUNCATED, EMPTY, TRUNCATED, TRUNCATED]
    counts = tally([*verdicts, grade("It is 1", Fraction(1)), grade(r"\boxed{2}", Fraction(1))])
    assert (counts.n, counts.strict, counts.lenient) == (7, 0, 1)
    assert counts.statuses == {"right": 1, "wrong": 1, "no answer": 1, "truncated": 3, "empty": 1}
    assert counts.rules == {"none": 4, "box": 2, "last number": 1}
    assert (counts.truncated, counts.no_strict_answer, counts.boxed) == (3, 6, 2)


def test_the_first_box_and_the_last_are_judged_apart() -> None:
    verdict = grade(r"Guess: \boxed{30}. Checked: \boxed{41}, no, \boxed{42}.", Fraction(30))
    assert (verdict.boxes, verdict.first_box, verdict.extracted) == (3, "30", "42")
    assert (verdict.first_box_right, verdict.last_box_right, verdict.lenient) == (True, False, False)


def test_what_is_no_number_is_no_right_answer_either() -> None:
    wrong: list[object] = ["x", "", "3 or 4", True, None, [3], float("inf"), float("nan")]
    assert [read_gold(gold) for gold in wrong] == [None] * len(wrong)
    assert read_gold("Six rows of 7.\n#### 1,260") == 1260
    assert (read_gold(0.1), read_gold(-3), read_gold(1e22)) == (Fraction(1, 10), -3, 10**22)


LONG = 100_000
HOSTILE = {
    "nested braces": "\\boxed{" + "{" * LONG + "7" + "}" * LONG + "}",
    "nested boxes": "\\boxed{" * LONG + "7" + "}" * LONG,
    "open boxes": "\\boxed{" * LONG,
    "open boxes far from their braces": ("\\boxed" + " " * 300) * 1000,
    "closing braces": "}" * LONG + "\\boxed{7}",
    "powers": "\\boxed{" + "9^{" * LONG + "9" + "}" * LONG + "}",
    "a long number": "\\boxed{" + "9" * LONG + "}",
    "groups of digits": "\\boxed{" + "1,000" * LONG + "}",
    "blanks between digits": "The answer is " + "1 " * LONG,
    "slashes": "1/" * LONG,
    "fractions": "\\boxed{" + "\\frac{1}" * LONG + "}",
    "nested fractions": "\\boxed{" + "\\frac{" * LONG + "1" + "}{2}" * LONG + "}",
    "fractions far from their braces": "Answer: " + ("\\frac" + " " * 300) * 1000,
    "phrases": "answer is " * LONG,
    "phrases with numbers": "answer is 1 2 " * LONG,
    "lines of phrases": "A:\n" * LONG,
    "lines of hashes": "####\n" * LONG,
    "marks of Markdown": "*_`" * LONG + "7",
    "bullets": "- " * LONG,
    "calculators": "<<1" * LONG,
    "accents": "Answer: 7" + "\u0301\u0316" * LONG,
    "words for steps": "step " * LONG + "7",
    "currency": "\\$" * LONG + "7" + "$" * LONG,
    "texts in texts": "\\boxed{" + "\\text{" * LONG + "7" + "}" * LONG + "}",
    "backslashes": "\\" * LONG + "boxed{7}",
    "dots": "The answer is 7" + "." * LONG,
    "line ends": "7" + "\n" * LONG,
    "one long line": "7 x" * LONG,
    "full-width": "答案：" + "７，" * LONG,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_text_that_is_made_to_take_for_ever_does_not(kind: str) -> None:
    began = time.process_time()  # Not of the clock: a busy computer gives a test little of its time.
    assert grade(HOSTILE[kind], Fraction(7), truncated=False).extracted in (None, "7", "1")
    assert time.process_time() - began < 30
