"""Grading one answer against taking the last number of its text by one pattern, and 10 times as long a hostile text."""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import yaml

from bench.eval.grading import grade

PUBLIC = ROOT.parent / "shared" / "data" / "gsm8k" / "example_model_solutions.jsonl"
CASES = ROOT / "tests" / "data" / "grading_cases.yaml"
NUMBER = re.compile(r"-?[$0-9.,]{2,}|-?[0-9]+")
ROUNDS = 7
LENGTH = 20_000
HOSTILE = {
    "nested braces": lambda n: "\\boxed{" + "{" * n + "7" + "}" * n + "}",
    "a power tower": lambda n: "\\boxed{" + "9^{" * n + "9" + "}" * n + "}",
    "phrases": lambda n: "the answer is 1 2 " * n,
    "accents": lambda n: "答案是 7" + "\u0301\u0316" * n,
}


def texts() -> tuple[str, list[str]]:
    """Published answers of models where they are beside the project, else our own cases."""
    if PUBLIC.is_file():
        lines = [json.loads(line) for line in PUBLIC.read_text(encoding="utf-8").splitlines()]
        return PUBLIC.name, [value["solution"] for line in lines for value in line.values() if isinstance(value, dict)]
    return CASES.name, [case["text"] for case in yaml.safe_load(CASES.read_text(encoding="utf-8"))] * 40


def last_number(text: str) -> str:
    found = NUMBER.findall(text)
    return found[-1] if found else ""


def microseconds(judge: Callable[[str], object], answers: list[str]) -> float:
    started = time.process_time()
    for text in answers:
        judge(text)
    return (time.process_time() - started) / len(answers) * 1e6


def main() -> None:
    name, answers = texts()
    gold = Fraction(18)
    pairs = [
        (microseconds(last_number, answers), microseconds(lambda text: grade(text, gold), answers))
        for _ in range(ROUNDS)
    ]
    baseline, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{len(answers)} answers of {name}, median of {ROUNDS} interleaved rounds, processor time for one")
    print(f"  the last number by one pattern (baseline)  {baseline:6.1f} µs")
    print(f"  eval.grade's rules                         {ours:6.1f} µs")
    print(f"  ratio                                      {ours / baseline:6.1f}")
    for kind, make in HOSTILE.items():
        short, long = (
            min(microseconds(lambda text: grade(text, gold), [make(length)]) for _ in range(3))
            for length in (LENGTH, 10 * LENGTH)
        )
        print(f"  {kind:<14} {long / 1000:8.1f} ms for {len(make(10 * LENGTH)):,} characters")
        print(f"    ratio to a tenth of it {long / short:6.1f}  (goal: 10, as for all that takes time in proportion)")


if __name__ == "__main__":
    main()
