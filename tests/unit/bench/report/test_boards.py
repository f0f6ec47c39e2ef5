"""Pages about records of several boards: a row for each of them, of what it did and what it left."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from bench.report.build import ReportRequest, find_shown, make_report
from core.session import Session
from tests.shared.parts_record import LOST, write_parts_record
from tests.support.pages import read_page, rows_of


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_benches_of_several_boards_stand_in_a_row_each_and_below_it_each_by_itself(session: Session) -> None:
    record = write_parts_record(session.settings.runs)
    made = make_report(session, ReportRequest(records=(find_shown(session, "latest"),)))
    page = read_page(made.path.read_text(encoding="utf-8"))
    headings, *rows = rows_of(page, "The boards")
    shown = {row[0]: dict(zip(headings, row, strict=True)) for row in rows}
    assert [row["State"] for row in shown.values()] == ["done", "done", "failed"]
    assert [row["Serial"] for row in shown.values()] == ["serial-1", "serial-2", "not known"]
    for board in ("lab-1", "lab-2"):
        (file,) = (record / "parts" / board).glob("*/samples.jsonl")
        samples = [sample for sample in map(json.loads, file.read_text().splitlines()) if sample["round"]]
        speeds: dict[int, list[float]] = {}
        for sample in samples:
            if sample["test"] == "decode":
                speeds.setdefault(sample["threads"], []).append(sample["tokens_per_second"])
        best = max(map(statistics.median, speeds.values()))
        assert int(shown[board]["Samples"]) == len(samples)
        assert float(shown[board]["Best decode"].split()[0]) == pytest.approx(best, rel=1e-3)
        assert made.boards[record.name][0 if board == "lab-1" else 1]["best"]["decode"]["median"] == pytest.approx(best)
    assert (shown["lab-3"]["Samples"], shown["lab-3"]["Best decode"]) == ("0", "-")
    assert f"lab-3: {LOST}" in page.text
    assert [each.text for each in page.all("h2")][1:] == [
        f"smollm2 on HiHope DAYU200 (RK3568), 32-bit system, serial-{number}" for number in (1, 2)
    ]
    assert "EMULATED" not in page.text


def test_benches_of_several_emulated_boards_say_so_in_every_number(session: Session) -> None:
    made = make_report(session, ReportRequest(records=(write_parts_record(session.settings.runs, emulated=True),)))
    assert made.path.name == "report-emulated.html"
    headings, *rows = rows_of(read_page(made.path.read_text(encoding="utf-8")), "The boards")
    assert all(row[headings.index("Best decode")].endswith("EMULATED") for row in rows[:2])
