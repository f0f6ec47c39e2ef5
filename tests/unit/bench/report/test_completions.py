"""Completions on the page: every token where it arrived, and the board's temperature and clock at that time."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from bench.report.completions import completion_blocks
from bench.report.document import Block, Chart, Table
from bench.report.measured import read_measured
from bench.report.svg import drawing
from core.errors import InvalidData
from core.session import Session
from tests.shared.bench_records import add_completions, write_bench_record
from tests.support.pages import read_page


def blocks_of(session: Session, record: Path, **changes: int) -> list[Block]:
    measured = read_measured(record)
    content = {**measured.content, "completion": add_completions(record, **changes)}
    with drawing(session):
        return list(completion_blocks(dataclasses.replace(measured, content=content), "x"))


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return write_bench_record(tmp_path / "runs", threads=(4,), rounds=1, emulated=True)


def test_a_bench_without_completions_has_no_word_of_them(record: Path) -> None:
    assert list(completion_blocks(read_measured(record), "x")) == []


def test_tokens_temperature_and_clock_stand_on_one_axis_of_time(session: Session, record: Path) -> None:
    table, chart = blocks_of(session, record, slow_from=20)
    assert isinstance(table, Table)
    assert [[cell.text for cell in row[1:3]] for row in table.rows] == [
        ["until the first token", "1.5 s EMULATED"],
        ["most memory", "177.0 MB EMULATED"],
    ]
    assert isinstance(chart, Chart)
    assert chart.told.startswith(
        "Every token of smollm2. The first token came after 1.5 s; half of the others took 250 ms"
    )
    assert "the longest 500 ms" in chart.told
    # The request comes 4 s after the server's start; the last token 1.5 + 18 * 0.25 + 13 * 0.5 = 12.5 s after it. The board
    # is sampled each second, its hottest zone is at 40 °C and a degree more each second, its clock falls after 8 s.
    assert "Highest temperature, °C: 44 to 56" in chart.told
    assert "Clock, MHz: 1,416 to 1,992" in chart.told
    assert "3 completions with 4 threads, n = 93 tokens" in chart.caption
    (svg,) = read_page(chart.svg).all("svg")
    texts = [text.text for text in svg.all("text")]
    assert texts.count("EMULATED") == 1
    assert {"#1", "#32"} <= {text for text in texts if text.startswith("#")}
    assert "12.5" in texts


def test_without_samples_of_the_board_the_tokens_stand_alone(session: Session, record: Path) -> None:
    measured = read_measured(record)
    content = {**measured.content, "completion": add_completions(record)}
    for file in record.glob("runs/*/samples.jsonl"):
        file.unlink()
    with drawing(session):
        _, chart = completion_blocks(dataclasses.replace(measured, content=content), "x")
    assert isinstance(chart, Chart)
    assert "Clock" not in chart.told + chart.svg


@pytest.mark.parametrize(
    "changes", [{"arrivals": []}, {"token_seconds": [1, 1]}, {"arrivals": ["1", 2]}, {"run": 1}, {"load_seconds": None}]
)
def test_a_completion_that_is_none_is_named(session: Session, record: Path, changes: dict[str, object]) -> None:
    measured = read_measured(record)
    content = {**measured.content, "completion": add_completions(record, tokens=2)}
    file = record / "completions.jsonl"
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps({**json.loads(first), **changes}), *rest]) + "\n")
    with drawing(session), pytest.raises(InvalidData, match=r"completions\.jsonl, line 1, is no completion"):
        list(completion_blocks(dataclasses.replace(measured, content=content), "x"))
