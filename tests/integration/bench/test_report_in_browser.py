"""Reports in a real Chromium: no error, no request, no line wider than a telephone, and tables that sort."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.report.build import ReportRequest, make_report
from core.session import Session
from tests.shared.bench_records import add_completions, foreseen, write_bench_record
from tests.support.browser import Visit, find_chromium, visit

CHROMIUM = find_chromium()
LOOK = """
  const table = page.querySelector("table.sortable");
  const column = place => [...table.tBodies[0].rows].map(row => row.cells[place].textContent);
  const press = place => table.tHead.rows[0].cells[place].querySelector("button").click();
  const medians = [];
  for (let turn = 0; turn < 2; turn++) { press(2); medians.push(column(2).map(Number)); }
  press(0);
  const wide = [...page.querySelectorAll("body *")].filter(
    each => !each.closest(".wide, svg") && each.getBoundingClientRect().right > view.innerWidth + 0.5);
  const clipped = [...page.querySelectorAll("svg text")].filter(each => {
    const [inner, outer] = [each.getBoundingClientRect(), each.closest("svg").getBoundingClientRect()];
    return inner.left < outer.left - 1 || inner.right > outer.right + 1;
  });
  return {
    width: view.innerWidth, whole: page.scrollingElement.scrollWidth, wide: wide.map(each => each.outerHTML.slice(0, 80)),
    clipped: clipped.map(each => each.textContent), medians, names: column(0),
    sorted: table.tHead.rows[0].cells[0].getAttribute("aria-sort"), back: view.getComputedStyle(page.body).backgroundColor,
    ink: view.getComputedStyle(page.querySelector("svg text")).fill, drawings: page.querySelectorAll("svg").length,
    letters: Math.min(...[...page.querySelectorAll("svg text")].map(each => each.getBoundingClientRect().height)),
  };
"""
NOISY = """<!DOCTYPE html><title>noisy</title><link rel="icon" href="data:,"><body><p style="width:900px">wide</p>
<img src="http://elsewhere.example/a.png"><script>undefinedFunction();</script>"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; `make test` installs one by apt")


def look(page: str, folder: Path, script: str = LOOK, *, dark: bool = False) -> Visit:
    assert CHROMIUM is not None
    return visit(CHROMIUM, page, script, folder, dark=dark)


def test_a_report_on_a_telephone_asks_for_nothing_has_no_error_and_fits(session: Session, tmp_path: Path) -> None:
    models = ("Meta-Llama-3.1-8B-Instruct-Q4_K_M", "</script><script>alert(1)//" + "x" * 200)
    record = write_bench_record(
        tmp_path / "runs", models=models, emulated=True, serial="emulated-dayu200", fit=foreseen(*models)
    )
    content = json.loads((record / "record.json").read_text())
    (record / "record.json").write_text(json.dumps({**content, "completion": add_completions(record)}))
    made = make_report(session, ReportRequest(records=(record,), output=str(tmp_path / "report.html")))
    page = made.path.read_text(encoding="utf-8")
    light = look(page, tmp_path / "light")
    assert (light.console, light.asked) == ([], [])
    seen = light.seen
    assert (seen["width"], seen["whole"], seen["wide"], seen["clipped"]) == (360, 360, [], [])
    up, down = seen["medians"]
    assert (up, down) == (sorted(up), sorted(up, reverse=True))
    assert len(set(up)) == 12
    assert (seen["names"], seen["sorted"]) == (sorted(seen["names"], key=str.lower), "ascending")
    assert seen["drawings"] == 8
    assert seen["letters"] >= 9
    dark = look(page, tmp_path / "dark", dark=True)
    assert (dark.console, dark.asked) == ([], [])
    assert (seen["back"], seen["ink"]) == ("rgb(245, 246, 248)", "rgb(22, 25, 29)")
    assert (dark.seen["back"], dark.seen["ink"]) == ("rgb(16, 19, 23)", "rgb(232, 235, 239)")


def test_an_error_a_request_and_a_page_that_is_too_wide_are_seen(tmp_path: Path) -> None:
    """That the test above can fail."""
    noisy = look(NOISY, tmp_path / "noisy", "return page.scrollingElement.scrollWidth")
    assert noisy.seen > 900
    assert noisy.asked == ["http://elsewhere.example/a.png"]
    assert len(noisy.console) >= 1
    assert any("undefinedFunction" in line for line in noisy.console)
