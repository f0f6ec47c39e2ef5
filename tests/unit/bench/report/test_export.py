"""Benches for other programs: the fields of llama-bench as it prints them itself, and every sample as CSV."""

from __future__ import annotations

import csv
import json
import shutil
import statistics
from pathlib import Path

import pytest

from bench.report.export import LLAMA_BENCH_FIELDS, export_bench
from core.errors import UnknownName, UsageError
from core.session import PROJECT
from tests.shared.bench_records import write_bench_record
from tests.support.command_line import invoke

PRINTED = [json.loads(line) for line in (PROJECT / "tests/data/llama_bench.jsonl").read_text().splitlines()]
"""By the pinned llama-bench itself: prefill of 16 tokens, decode of 4."""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def printed(tmp_path: Path) -> Path:
    """A bench whose runs have printed what the real llama-bench prints."""
    record = write_bench_record(tmp_path / "runs", threads=(2,), rounds=2)
    content, lines = json.loads((record / "record.json").read_text()), []
    for line in (record / "samples.jsonl").read_text().splitlines():
        sample = json.loads(line)
        place, tokens = (0, 16) if sample["test"] == "prefill" else (1, 4)
        seconds = PRINTED[place]["samples_ns"][0] / 1e9 * (1 + 0.1 * sample["round"])
        lines.append({**sample, "tokens": tokens, "seconds": seconds, "tokens_per_second": tokens / seconds})
        run = record / "runs" / sample["run"]
        run.mkdir(parents=True)
        (run / "stdout.log").write_text("load: warming up\n" + "".join(json.dumps(each) + "\n" for each in PRINTED))
    for result, tokens in zip(content["results"], (16, 4), strict=True):
        result["tokens"] = tokens
    (record / "record.json").write_text(json.dumps(content))
    (record / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return record


def test_llama_benchs_fields_are_those_that_it_prints_in_their_order() -> None:
    assert [list(each) for each in PRINTED] == [list(LLAMA_BENCH_FIELDS)] * 2


def test_all_repetitions_of_a_test_become_one_object_with_what_llama_bench_said_of_itself(printed: Path) -> None:
    made = export_bench(printed, "llama-bench")
    assert (made.path.name, made.emulated) == (f"{printed.name}.json", False)
    prefill, decode = json.loads(made.path.read_text())
    computed = {"avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns", "samples_ts"}
    for said, own in ((prefill, PRINTED[0]), (decode, PRINTED[1])):
        assert {key: said[key] for key in own if key not in computed} == {
            key: own[key] for key in own if key not in computed
        }
    # 12518902343 ns, 10 and 20 % slower in the two repetitions that count
    times = [13770792577, 15022682812]
    assert prefill["samples_ns"] == times
    assert prefill["avg_ns"] == pytest.approx(sum(times) / 2, abs=1)
    assert prefill["stddev_ns"] == pytest.approx((times[1] - times[0]) / 2**0.5, abs=1)
    assert prefill["samples_ts"] == pytest.approx([16e9 / time for time in times])
    assert (decode["n_prompt"], decode["n_gen"], prefill["n_prompt"], prefill["n_gen"]) == (0, 4, 16, 0)
    assert (decode["emulated"], decode["valid"], decode["ohforge_record"]) == (False, True, printed.name)


def test_what_only_the_run_itself_said_is_null_where_its_output_is_gone(printed: Path) -> None:
    shutil.rmtree(printed / "runs")
    said, _ = json.loads(export_bench(printed, "llama-bench").path.read_text())
    assert (said["n_threads"], said["n_prompt"], said["model_filename"]) == (2, 16, "smollm2")
    assert (said["cpu_info"], said["n_batch"], said["type_k"]) == (None, None, None)
    assert list(said)[: len(LLAMA_BENCH_FIELDS)] == list(LLAMA_BENCH_FIELDS)


def test_a_run_that_leads_out_of_the_record_is_not_followed(printed: Path, tmp_path: Path) -> None:
    (tmp_path / "stdout.log").write_text(json.dumps({**PRINTED[0], "cpu_info": "out"}) + "\n")
    text = (printed / "samples.jsonl").read_text()
    lines = [{**json.loads(line), "run": f"../../../{tmp_path.name}"} for line in text.splitlines()]
    (printed / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    said, _ = json.loads(export_bench(printed, "llama-bench").path.read_text())
    assert said["cpu_info"] is None


@pytest.mark.parametrize(("form", "ending"), [("csv", "csv"), ("md", "md"), ("llama-bench", "json")])
def test_every_export_of_an_emulated_board_says_so_in_its_name_and_in_every_row(
    tmp_path: Path, form: str, ending: str
) -> None:
    record = write_bench_record(tmp_path / "runs", threads=(2,), rounds=2, emulated=True, serial="my-board")
    made = export_bench(record, form)
    assert made.path.name == f"{record.name}-emulated.{ending}"
    text = made.path.read_text()
    match form:
        case "csv":
            assert {row["emulated"] for row in csv.DictReader(text.splitlines())} == {"true"}
        case "md":
            rows = [line for line in text.splitlines() if line.startswith("| smollm2")]
            assert len(rows) == 2
            assert all("tokens/s EMULATED" in row for row in rows)
        case _:
            tests = json.loads(text)
            assert [(test["emulated"], test["cpu_info"]) for test in tests] == [
                (True, "EMULATED by qemu on this computer")
            ] * 2


def test_a_table_of_samples_has_every_one_of_them_and_nothing_that_a_spreadsheet_would_compute(tmp_path: Path) -> None:
    flag = {"name": "drift", "sentence": "slower", "configuration": ""}
    record = write_bench_record(
        tmp_path / "runs", models=('=cmd|" /c calc"!A1, "x"\n',), threads=(1, 2), rounds=3, valid=False, flags=[flag]
    )
    made = export_bench(record, "csv", "out/samples.csv")
    rows = list(csv.DictReader(made.path.read_text().splitlines()))
    lines = [json.loads(line) for line in (record / "samples.jsonl").read_text().splitlines()]
    assert len(rows) == len(lines) == 16
    assert [float(row["seconds"]) for row in rows] == [line["seconds"] for line in lines]
    assert statistics.median(float(row["tokens_per_second"]) for row in rows if row["test"] == "decode") > 0
    assert {row["model"] for row in rows} == {'\'=cmd|" /c calc"!A1, "x" '}
    assert {(row["valid"], row["flags"], row["record"]) for row in rows} == {("false", "drift", record.name)}
    assert json.loads(rows[0]["cpu_hz"]) == lines[0]["cpu_hz"]


def test_an_export_replaces_nothing_and_a_format_that_is_none_is_refused(tmp_path: Path) -> None:
    record = write_bench_record(tmp_path / "runs", threads=(1,), rounds=1)
    first = export_bench(record, "csv")
    with pytest.raises(UsageError, match="replace nothing"):
        export_bench(record, "csv")
    assert export_bench(record, "csv", force=True).size == first.size
    with pytest.raises(UnknownName, match="sql"):
        export_bench(record, "sql")
    with pytest.raises(UsageError, match="Nothing in this record"):
        export_bench(write_bench_record(tmp_path / "none", threads=(), rounds=0), "llama-bench")


def test_the_commands_answer_in_json_and_name_their_files(tmp_path: Path) -> None:
    record = write_bench_record(tmp_path / "runs", threads=(1,), rounds=0, emulated=True)
    said = invoke("report", record, "--output", tmp_path / "page.html")
    assert (said.status, said.answer["emulated"], said.answer["format"]) == (0, True, "html")
    assert Path(said.answer["report"]) == tmp_path / "page.html"
    assert said.answer["bytes"] == (tmp_path / "page.html").stat().st_size
    said = invoke("bench.export", record, "--format", "csv", "--output", tmp_path / "a.csv")
    assert (said.status, said.answer["export"]) == (0, str(tmp_path / "a.csv"))
    said = invoke("report")
    assert (said.status, said.answer["error"]["category"]) == (64, "usage")
