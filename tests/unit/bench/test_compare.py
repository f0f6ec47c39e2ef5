"""Two records against each other, lists of them, and whether one was changed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.compare import compare_benches
from bench.llama import measure_llama
from bench.record import find_record, list_benches, read_bench, verify_record
from commands.program import OhforgeProgram
from core.errors import InvalidData, RecordChanged, UnlikeRecords, UsageError
from core.session import Session
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.bench_board import bench_of, use_bench, write_bench
from tests.support.local_board import LocalBoard


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the one bench that all tests here start from."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def measured(session: Session, tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bench of one model with one thread: prefill 100, decode 10 tokens/s."""
    if not list(kept.iterdir()):
        use_bench(monkeypatch, write_bench(tmp_path), LocalBoard(tmp_path / "board"))
        outcome = measure_llama(session, bench_of(write_tiny_gguf(tmp_path / "tiny.gguf"), threads=(1,)))
        outcome.record.rename(kept / outcome.record.name)
        session.settings.runs.rmdir()
    shutil.copytree(kept, session.settings.runs)
    (record,) = session.settings.runs.iterdir()
    return record


def altered(record: Path, name: str, *, faster: float = 1.0, **changes: Any) -> Path:
    """A copy of a record with other values in ``record.json``, and samples so many times as fast."""
    copy = record.parent / name
    shutil.copytree(record, copy)
    content = json.loads((copy / "record.json").read_text())
    for key, value in changes.items():
        part, _, rest = key.partition("__")
        if rest:
            content[part][rest] = value
        else:
            content[part] = value
    (copy / "record.json").write_text(json.dumps(content))
    lines = [json.loads(line) for line in (copy / "samples.jsonl").read_text().splitlines()]
    faster_lines = [{**line, "tokens_per_second": line["tokens_per_second"] * faster} for line in lines]
    (copy / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in faster_lines))
    return copy


def test_a_change_is_told_with_its_interval(measured: Path) -> None:
    found = compare_benches(measured, altered(measured, "faster", faster=1.25)).as_json()
    assert (found["comparable"], found["differs"]) == (True, [])
    rows = {row["test"]: row for row in found["differences"]}
    assert (rows["decode"]["a"], rows["decode"]["b"], rows["decode"]["change"]) == (10.0, 12.5, pytest.approx(0.25))
    assert (rows["decode"]["low"], rows["decode"]["high"], rows["decode"]["clear"]) == (
        *(pytest.approx(0.25), pytest.approx(0.25), True),
    )


def test_a_bench_against_itself_has_no_clear_difference(measured: Path) -> None:
    assert [entry.is_clear for entry in compare_benches(measured, measured).differences] == [False, False]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"plan__n_gen": 64}, "generated tokens"),
        ({"plan__n_prompt": 64}, "prompt tokens"),
        ({"board__emulated": True}, "emulated"),
        ({"board__profile": "dayu200"}, "board"),
        ({"engine": "llama 1.0"}, "engine"),
        ({"instrument": "mslite"}, "instrument"),
        ({"computed_by": "MindSpore Lite"}, "computed by"),
        ({"plan__loops": 10}, "loops"),
        ({"valid": False}, "valid"),
        ({"state": "interrupted", "valid": None}, "state"),
    ],
)
def test_unlike_conditions_are_refused_by_name_and_shown_only_when_that_is_asked_for(
    measured: Path, changes: dict[str, Any], key: str
) -> None:
    other = altered(measured, "other", **changes)
    with pytest.raises(UnlikeRecords, match=f"{key}: ") as caught:
        compare_benches(measured, other)
    assert caught.value.details["comparable"] is False
    answer = compare_benches(measured, other, anyway=True).as_json()
    assert answer["comparable"] is False and key in [entry["key"] for entry in answer["differs"]]
    assert len(answer["differences"]) == 2


def test_two_benches_that_are_both_not_valid_are_not_alike(measured: Path) -> None:
    first, second = (altered(measured, name, valid=False) for name in ("first", "second"))
    with pytest.raises(UnlikeRecords, match="valid: no in both"):
        compare_benches(first, second)


def test_a_slower_clock_is_an_unlike_condition(measured: Path) -> None:
    before = read_bench(measured)["conditions"]["before"]
    slower = [{**before["policies"][0], "highest_hz": 1_104_000_000}]
    other = altered(measured, "slower", conditions={"before": {**before, "policies": slower}, "after": None})
    with pytest.raises(UnlikeRecords, match=r"clocks: .*1800000000.* against .*1104000000"):
        compare_benches(measured, other)


def test_every_piece_of_a_split_model_is_compared(measured: Path) -> None:
    (model,) = read_bench(measured)["models"]
    first, second = (
        altered(measured, name, models=[{**model, "pieces": ["1" * 64, digit * 64]}])
        for name, digit in (("first", "2"), ("second", "3"))
    )
    with pytest.raises(UnlikeRecords, match=r"models: .*11111111…', '22222222….* against .*'33333333…'"):
        compare_benches(first, second)
    assert compare_benches(first, first).as_json()["comparable"] is True


def test_clocks_that_were_pinned_are_unlike_those_that_were_not(measured: Path) -> None:
    pin = {"asked": True, "held": True, "why": "", "policies": []}
    with pytest.raises(UnlikeRecords, match=r"pinned clocks: not known against \[\]"):
        compare_benches(measured, altered(measured, "pinned", pin=pin))


def test_a_record_of_before_the_later_keys_is_read_and_compared(measured: Path) -> None:
    older = altered(measured, "older")
    content = json.loads((older / "record.json").read_text())
    later = ("instrument", "tests", "request", "sweep", "parts", "cpu_seconds", "computed_by", "devices", "pin")
    (older / "record.json").write_text(json.dumps({key: value for key, value in content.items() if key not in later}))
    assert compare_benches(measured, older).as_json()["comparable"] is True


def test_samples_that_were_cut_off_at_the_end_of_a_line_are_missed(measured: Path) -> None:
    shorter = altered(measured, "shorter")
    lines = (shorter / "samples.jsonl").read_text().splitlines(keepends=True)
    (shorter / "samples.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(InvalidData, match=f"has {len(lines) - 1} samples, and its record speaks of {len(lines)}"):
        compare_benches(measured, shorter, anyway=True)


def test_records_of_another_version_kind_or_form_are_refused_in_any_case(measured: Path) -> None:
    for changes, sentence in (
        ({"schema": 2}, "version 2 of the form"),
        ({"kind": "source-build"}, "not the record of a bench"),
        ({"rounds": "many"}, "not of its form"),
    ):
        other = altered(measured, f"other-{next(iter(changes))}", **changes)
        with pytest.raises(InvalidData, match=sentence):
            compare_benches(measured, other, anyway=True)
    (measured / "record.json").write_text('{"kind": "bench"')
    with pytest.raises(InvalidData, match="is no JSON"):
        read_bench(measured)


def test_benches_are_listed_oldest_first_and_what_is_none_is_left_out(session: Session, measured: Path) -> None:
    altered(measured, "20200101T000000Z-bench-llama-old-0000", id="20200101T000000Z-bench-llama-old-0000", valid=False)
    (measured.parent / "20210101T000000Z-llama-x-0000").mkdir()
    (measured.parent / "20210101T000000Z-llama-x-0000/record.json").write_text("{}")
    found = list_benches(session.settings.runs)
    assert [(entry["id"][:4], entry["valid"]) for entry in found] == [("2020", False), (measured.name[:4], True)]
    assert found[1]["best"] == {"prefill": 100.0, "decode": 10.0}


def test_a_record_is_found_by_its_name_by_its_path_and_as_the_latest(session: Session, measured: Path) -> None:
    assert {find_record(session, name) for name in (measured.name, str(measured), "latest")} == {measured}
    with pytest.raises(UsageError, match="There is no record 'nosuch'"):
        find_record(session, "nosuch")


def test_a_record_that_nobody_touched_is_unchanged_and_sha256sum_agrees(measured: Path) -> None:
    check = verify_record(measured)
    files = [path for path in measured.rglob("*") if path.is_file()]
    assert check.files == len(files) - 1
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=measured, check=True)


def test_every_kind_of_change_to_a_record_is_told(measured: Path) -> None:
    content = (measured / "record.json").read_text()
    (measured / "record.json").write_text(content.replace('"valid": true', '"valid": null'))
    (measured / "samples.jsonl").unlink()
    (measured / "runs/added.txt").write_text("x")
    with pytest.raises(RecordChanged) as caught:
        verify_record(measured)
    details = caught.value.details
    assert (details["changed"], details["missing"], details["added"]) == (
        *(["record.json"], ["samples.jsonl"], ["runs/added.txt"]),
    )
    assert caught.value.exit_status == 67


def test_a_record_without_hashes_is_not_called_unchanged(measured: Path) -> None:
    (measured / "SHA256SUMS").unlink()
    with pytest.raises(UsageError, match="has no SHA256SUMS"):
        verify_record(measured)


def test_the_commands_answer_in_json_and_by_their_status(
    measured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(words: str) -> tuple[int, dict[str, Any]]:
        status = 0
        try:
            OhforgeProgram().run(f"ohforge {words} --json")
        except SystemExit as end:
            status = int(end.code or 0)
        return status, json.loads(capsys.readouterr().out)

    monkeypatch.chdir(measured.parent.parent)
    altered(measured, "other", plan__n_gen=64)
    capsys.readouterr()
    status, answer = said("bench.list")
    assert (status, [entry["id"] for entry in answer["benches"]]) == (0, [measured.name] * 2)
    assert said("bench.verify latest")[1]["error"]["details"]["changed"] == ["record.json"]
    status, answer = said(f"bench.verify {measured.name}")
    assert (status, answer["ok"], answer["record"]) == (0, True, str(measured))
    status, answer = said(f"bench.compare {measured.name} other")
    assert (status, answer["error"]["details"]["differs"][0]["key"]) == (64, "generated tokens")
    status, answer = said(f"bench.compare {measured.name} other --anyway")
    assert (status, answer["ok"], answer["comparable"], len(answer["differences"])) == (0, True, False, 2)
