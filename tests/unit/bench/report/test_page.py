"""Pages about benches: that they say what the records say, mark what is emulated, and take nothing from anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import statistics
from pathlib import Path
from typing import Any

import pytest

from bench import llama
from bench.fit import BoardLimits, foreseen_json, judge
from bench.report import build
from bench.report.build import Report, ReportRequest, make_report
from bench.request import BenchRequest
from commands.program import OhforgeProgram
from core.errors import InvalidData, UnknownName, UsageError
from core.session import PROJECT, Session
from native.formats.gguf import read_gguf
from native.models.llama_memory import LlamaSettings
from tests.shared.bench_records import write_bench_record
from tests.shared.shape_gguf import write_shapes
from tests.support.pages import Element, read_page, rows_of
from tests.unit.native.models.test_llama_memory import Q2_K, llama_8b

SLOW = {
    "name": "drift",
    "configuration": "smollm2, 4 threads",
    "sentence": "decode became 12 % slower from the first third of the repetitions to the last",
}
STRANGE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\x00\u202e$\\frac{1}$|`_a_"


def report(session: Session, *records: Path, **changes: Any) -> Report:
    return make_report(session, ReportRequest(records=records, **changes))


def page_of(made: Report) -> Element:
    return read_page(made.path.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_numbers_of_the_page_are_those_of_the_record(session: Session, tmp_path: Path) -> None:
    record = write_bench_record(tmp_path / "runs", valid=False, flags=[SLOW], notes=["the clock is not fixed"])
    page = page_of(report(session, record))
    speeds: dict[tuple[int, str], list[float]] = {}
    for line in (record / "samples.jsonl").read_text().splitlines():
        sample = json.loads(line)
        if sample["round"]:
            speeds.setdefault((sample["threads"], sample["test"]), []).append(sample["tokens_per_second"])
    _, *rows = rows_of(page, "Every configuration")
    shown = {(int(row[0].split()[1]), row[1].split()[0]): (float(row[2]), row[7], row[9]) for row in rows}
    assert {key: round(statistics.median(values), 6) for key, values in speeds.items()} == {
        key: pytest.approx(value[0], rel=1e-3) for key, value in shown.items()
    }
    assert {value[1] for value in shown.values()} == {"10"}
    assert [key for key, value in shown.items() if value[2] == "not valid"] == [(4, "prefill"), (4, "decode")]
    notices = [each.text for each in page.all("div") if each.attributes.get("class", "").startswith("notice")]
    assert notices[0].startswith("NOT VALID")
    assert any(SLOW["sentence"] in notice and "fix its clock" in notice for notice in notices)
    assert "The clock is not fixed." in notices[-1]
    assert "EMULATED" not in page.text


def test_every_number_of_an_emulated_board_is_marked_and_the_files_are_called_so(
    session: Session, tmp_path: Path
) -> None:
    record = write_bench_record(tmp_path / "runs", emulated=True, serial="emulated-dayu200")
    made = report(session, record)
    page = page_of(made)
    assert made.path.name == "report-emulated.html"
    assert report(session, record, format="md").path.name == "report-emulated.md"
    (title,) = page.all("h1")
    assert title.text.startswith("EMULATED")
    drawings = list(page.all("svg"))
    assert len(drawings) == 5  # two by threads, two of all samples, one over time
    assert all([text.text for text in drawing.all("text")].count("EMULATED") == 1 for drawing in drawings)
    assert all(figure.text.count("EMULATED") >= 2 for figure in page.all("figure"))
    _, *rows = rows_of(page, "Every configuration")
    assert {row[8] for row in rows} == {"tokens/s EMULATED"}
    best = [each.text for each in page.all("b")]
    assert len(best) == 2
    assert all(text.endswith("EMULATED") for text in best)


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"kind": "ssh", "program": "paramiko", "version": "3.5"}, "paramiko 3.5"),
        ({"kind": "hdc", "program": "hdc", "version": "3.1.0e", "via": "ssh://lab1"}, "hdc 3.1.0e on ssh://lab1"),
        (
            {
                "kind": "hdc",
                "program": "hdc",
                "version": "3.1.0e",
                "via": "ssh://lab1",
                "lab": {"place": "shelf", "coordinator": "lab:20408"},
            },
            "hdc 3.1.0e on ssh://lab1; place shelf of the lab at lab:20408",
        ),
    ],
)
def test_a_page_says_by_which_host_and_from_which_lab_the_board_was_reached(
    session: Session, tmp_path: Path, link: dict[str, Any], words: str
) -> None:
    record = write_bench_record(tmp_path / "runs", rounds=1, threads=(1,), link=link)
    assert f"Link{words}" in page_of(report(session, record)).text.replace("Link ", "Link")


def test_a_page_names_nothing_that_lies_outside_of_it(session: Session, tmp_path: Path) -> None:
    records = [write_bench_record(tmp_path / "runs", short_id=f"000{n}", threads=(4,)) for n in (1, 2)]
    made = report(session, *records)
    page, text = page_of(made), made.path.read_text(encoding="utf-8")
    names = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert len(names) == len(set(names))
    targets = [
        value
        for element in page.all()
        for name, value in element.attributes.items()
        if name in ("src", "href", "xlink:href", "action", "srcset", "data", "poster")
    ]
    targets += re.findall(r"url\(['\"]?([^)]*)\)", text)
    assert {target for target in targets if not target.startswith("#")} == {"data:,"}
    assert {target[1:] for target in targets if target.startswith("#")} <= set(names)
    assert "@import" not in text
    (script,) = page.all("script")
    digest = base64.b64encode(hashlib.sha256("".join(map(str, script.content)).encode()).digest()).decode()
    (policy,) = (each.attributes["content"] for each in page.all("meta") if "Content-Security" in str(each.attributes))
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}';" in policy


def test_every_drawing_is_told_in_words_for_those_who_do_not_see_it(session: Session, tmp_path: Path) -> None:
    page = page_of(report(session, write_bench_record(tmp_path / "runs")))
    texts = {each.attributes["id"]: each.text for each in page.all() if "id" in each.attributes}
    drawings = list(page.all("svg"))
    told = [[texts[name] for name in each.attributes["aria-labelledby"].split()] for each in drawings]
    assert {each.attributes["role"] for each in drawings} == {"img"}
    assert [title for title, _ in told] == [
        "Prefill by threads",
        "Decode by threads",
        "Over time, with temperature and clock",
        "Prefill: all samples",
        "Decode: all samples",
    ]
    assert "4 threads: 10.3" in told[1][1]
    assert "Clock: 1,992 to 1,992 MHz" in told[2][1]


def test_what_a_board_does_not_tell_is_not_drawn_and_that_is_said(session: Session, tmp_path: Path) -> None:
    page = page_of(report(session, write_bench_record(tmp_path / "runs", hottest=None)))
    (figure,) = (figure for figure in page.all("figure") if figure.text.startswith("Over time"))
    assert "The board does not tell highest temperature and clock." in figure.text
    assert "MHz" not in figure.text


def test_the_command_on_the_page_asks_for_the_same_bench(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = write_bench_record(tmp_path / "runs", models=("a model.gguf", "b"), serial="a b;c")
    page = page_of(report(session, record))
    (code,) = page.all("code")
    asked: list[BenchRequest] = []

    def note(*given: object) -> list[object]:
        asked.extend(each for each in given if isinstance(each, BenchRequest))
        return []

    monkeypatch.setattr(llama, "would_measure", note)
    OhforgeProgram().run(["ohforge", "--dry", *shlex.split(code.text)[1:]])
    (request,) = asked
    said = json.loads((record / "record.json").read_text())["plan"]
    assert (request.models, request.board) == (("a model.gguf", "b"), "a b;c")
    assert (request.choice.arch, request.choice.cpu, request.choice.toolchain) == ("arm64", "cortex-a55", "zig")
    assert (list(request.threads), request.n_prompt, request.n_gen) == ([1, 2, 4], 128, 32)
    assert (request.repetitions.most, request.seed, request.at_most) == (10, said["seed"], said["at_most"])


def test_what_looks_like_a_script_is_shown_as_the_text_that_it_is(session: Session, tmp_path: Path) -> None:
    record = write_bench_record(tmp_path / "runs", models=(STRANGE, "_hidden" + "long " * 20000), serial=STRANGE)
    content = json.loads((record / "record.json").read_text())
    content["board"] |= {"title": STRANGE, "profile": STRANGE}
    content |= {"engine": STRANGE, "valid": False, "notes": [STRANGE], "ohforge": STRANGE + "\ud800"}
    content["flags"] = [{**SLOW, "sentence": STRANGE, "configuration": f"{STRANGE}, 4 threads"}]
    content["error"] = {"code": STRANGE, "category": STRANGE, "message": STRANGE, "remedy": STRANGE}
    content["conditions"]["before"]["temperatures"] = {STRANGE: 40.0}
    (record / "record.json").write_text(json.dumps(content))
    made = report(session, record)
    page, text = page_of(made), made.path.read_text(encoding="utf-8")
    assert len(list(page.all("script"))) == 1
    assert not list(page.all("img", "iframe", "object", "embed", "foreignobject"))
    assert not [name for each in page.all() for name in each.attributes if name.startswith("on")]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "</script><script>alert(1)</script><img src=x onerror=alert(1)>\ufffd[2J" in page.text
    assert made.size < 300_000
    markdown = report(session, record, format="md").path.read_text(encoding="utf-8")
    unescaped = re.sub(r"\\.", "", re.sub(r"```sh\n.*?\n```", "", markdown, flags=re.DOTALL))
    assert set(re.findall(r"<[^>]*>?", unescaped)) == {"<!-- ohforge report -->"}


def test_benches_under_unlike_conditions_stand_side_by_side_and_never_in_one_number(
    session: Session, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    first = write_bench_record(runs, short_id="0001", threads=(4,))
    like = write_bench_record(runs, short_id="0002", threads=(4,), speed=1.1)
    emulated = write_bench_record(runs, short_id="0003", threads=(4,), emulated=True, serial="emulated-dayu200")
    page = page_of(report(session, first, like, emulated))
    head, *rows = rows_of(page, "Medians")
    assert head[3:] == ["A", "B", "C EMULATED"]
    decode = next(row for row in rows if row[:2] == ["smollm2, 4 threads", "decode 32"])
    assert float(decode[4]) / float(decode[3]) == pytest.approx(1.1, rel=2e-3)
    changes = [each.attributes["aria-label"] for each in page.all("table") if "change" in each.attributes["aria-label"]]
    assert changes == ["B against A: change of the medians"]
    _, *changed = rows_of(page, "B against A")
    assert {row[3] for row in changed} == {"+10.0%"}
    assert "C against A: not compared, for they are not alike" in page.text
    assert "emulated: no against yes" in page.text


def test_a_model_that_is_read_from_storage_lies_on_its_line_as_the_study_measured_it(
    session: Session, tmp_path: Path
) -> None:
    model = write_shapes(tmp_path / "8b-q2.gguf", *llama_8b(Q2_K))
    name, seconds = "8b-q2", 18.18
    limits = BoardLimits(available=1342177280, memory_rate=6.2e9, storage_rate=161.6e6)
    said = foreseen_json(judge(read_gguf(model), limits, LlamaSettings()))
    fit = {**limits.as_json(), "models": [{"model": name, **said, "rate": "161.6 MB/s of the board's profile"}]}
    model.unlink()  # It takes no file but the record.
    record = write_bench_record(tmp_path / "runs", models=(name,), threads=(4,), fit=fit)
    content = json.loads((record / "record.json").read_text())
    content["results"][1] |= {"median": 1 / seconds, "low": 1 / 19.0, "high": 1 / 17.5}
    (record / "record.json").write_text(json.dumps(content))
    page = page_of(report(session, record))
    rows = {row[0]: row[1] for row in rows_of(page, "What each model takes")}
    assert rows["verdict"] == "storage-bound"
    assert rows["read for a token"] == "3.0 GB"  # 2,998,919,424 bytes: all weights but the table of tokens
    assert rows["forecast of a token"] == "at least 18.56 s, bound by storage: 161.6 MB/s of the board's profile"
    assert rows["measured: a token"] == "18.18 s (4 threads)"
    assert rows["measured: most memory"] == "177.0 MB"  # That of the samples.
    assert rows["measured: read from storage for a token"] == "not known"
    (drawing,) = (each for each in page.all("svg") if each.text.startswith("Decoding against"))
    # 2.998919424 GB in 18.18 s are 164.96 MB/s, of 161.6 that the profile has, and of 6200.
    assert "102 % of what storage allows" in drawing.text
    assert "2.66 % of what memory allows" in drawing.text


def test_of_a_record_without_what_was_foreseen_that_is_said(session: Session, tmp_path: Path) -> None:
    text = page_of(report(session, write_bench_record(tmp_path / "runs"))).text
    assert "What it takes of the memory is not in the record" in text


def test_a_bench_that_was_stopped_is_shown_as_far_as_it_came_and_is_not_judged(
    session: Session, tmp_path: Path
) -> None:
    error = {"code": "OHF7901", "category": "interrupted", "message": "Interrupted.", "remedy": ""}
    asked = {"models": ["smollm2.gguf"], "board": "dayu200", "choice": {}}
    cut = {"state": "interrupted", "valid": None, "ended_because": None, "error": error, "request": asked}
    record = write_bench_record(tmp_path / "runs", **cut)
    series = record / "samples.jsonl"
    series.write_bytes(series.read_bytes()[:-40])
    text = page_of(report(session, record)).text
    assert "Not judged: it was interrupted" in text
    assert f"ohforge bench.llama --resume {record.name}" in text
    assert "last line of samples.jsonl is cut short" in text
    assert "Only 65 of the 66 samples" in text
    assert "the bench was not judged" in text
    empty = write_bench_record(tmp_path / "empty", rounds=0, threads=(), state="running", valid=None)
    assert "Not judged: it is still running, or ohforge was killed" in page_of(report(session, empty)).text


CUT = '{"schema": 1, "kind": "bench", "id": "2026'
BAD_RECORDS = {
    "cut short": (CUT, None, "cut short"),
    "another version": ({"schema": 2}, None, "version 2"),
    "a run": ({"kind": None}, None, "single run"),
    "another kind": ({"kind": "grading"}, None, "of a 'grading'"),
    "no object": ("[]", None, "nothing that ohforge knows"),
    "not of the form": ({"board": {}}, None, "lacks"),
    "no number": ({"results": [{"median": float("nan")}]}, None, "."),
    "a sample of words": (None, '{"position": "one"}\n', "line 1, is no sample"),
    "a sample without end": (None, "[" * 100_000 + "\n", "line 1, is no sample"),
    "a sample of no time": (None, '{"seconds": 0, "tokens_per_second": 1e999}\n', "line 1, is no sample"),
}


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_a_record_that_cannot_be_shown_is_named_and_an_older_report_stays(
    session: Session, tmp_path: Path, name: str
) -> None:
    record = write_bench_record(tmp_path / "runs", rounds=1, threads=(1,))
    content, series, sentence = BAD_RECORDS[name]
    if isinstance(content, str):
        (record / "record.json").write_text(content)
    elif content is not None:
        whole = json.loads((record / "record.json").read_text())
        for key, value in content.items():
            if value is None:
                del whole[key]
            elif key == "results":
                whole[key] = [{**whole[key][0], **value[0]}]
            else:
                whole[key] = value
        (record / "record.json").write_text(json.dumps(whole))
    if series is not None:
        (record / "samples.jsonl").write_text(series)
    (tmp_path / "report.html").write_text("<meta name=generator content='ohforge report'>older")
    with pytest.raises(InvalidData, match=re.escape(sentence)):
        report(session, record)
    assert (tmp_path / "report.html").read_text().endswith("older")
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "report.html"}


def test_a_report_takes_the_place_of_a_report_and_of_nothing_else(session: Session, tmp_path: Path) -> None:
    record = write_bench_record(tmp_path / "runs", rounds=0, threads=())
    for name in ("report.html", "report.md"):
        first = report(session, record, output=name)
        assert report(session, record, output=name).size == first.size
        (tmp_path / name).write_text("my notes\n")
        with pytest.raises(UsageError, match="no report of ohforge"):
            report(session, record, output=name)
        assert (tmp_path / name).read_text() == "my notes\n"
        assert report(session, record, output=name, force=True).size == first.size
    with pytest.raises(UsageError, match="no file"):
        report(session, record, output=str(tmp_path), format="html", force=True)


def test_the_format_follows_from_the_ending_and_a_wrong_one_is_refused(session: Session, tmp_path: Path) -> None:
    record = write_bench_record(tmp_path / "runs", rounds=0, threads=())
    assert report(session, record, output="a.md").path.read_text().startswith("<!-- ohforge report -->")
    assert report(session, record, output="b", format="html").path.read_text().startswith("<!DOCTYPE html>")
    for wrong in ({"output": "c.pdf"}, {"format": "pdf"}):
        with pytest.raises(UnknownName):
            report(session, record, **wrong)
    for records in ((), (record, record), tuple(record / str(place) for place in range(27))):
        with pytest.raises(UsageError):
            report(session, *records)


@pytest.mark.parametrize("mode", ["light", "dark", "print"])
def test_letters_and_lines_stand_out_from_what_is_behind_them(mode: str) -> None:
    style = (PROJECT / "templates" / "report" / "page.css").read_text()
    sets = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part))
        for part in re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    ]
    colours = dict(zip(("light", "dark", "print"), sets, strict=True))[mode]

    def contrast(front: str, back: str) -> float:
        """As the Web Content Accessibility Guidelines 2.1 define it."""
        light, dark = sorted((luminance(colours[front]), luminance(colours[back])), reverse=True)
        return (light + 0.05) / (dark + 0.05)

    for front, back in (
        *((front, back) for front in ("ink", "muted", "alarm", "good") for back in ("back", "paper")),
        *(("alarm", "bad-back"), ("good", "good-back"), ("note", "note-back"), ("c1", "back")),
        *(("ink", "bad-back"), ("ink", "good-back"), ("ink", "note-back")),
    ):
        assert contrast(front, back) >= 4.5, (front, back)
    assert all(contrast(f"c{place}", "paper") >= 2.1 for place in range(1, 7))
    assert all(contrast(f"c{place}", "paper") >= 3 for place in (1, 2, 3))


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_new_kind_of_record_is_a_line_of_the_table_of_kinds(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = write_bench_record(tmp_path / "runs", rounds=1, threads=(1,), kind="grading")
    told = build.Section(title="Told by another kind")
    kind = build.Kind(read=lambda folder: read_as_bench(folder), sections=lambda *_: [told])

    def read_as_bench(folder: Path) -> build.Measured:
        content = json.loads((folder / "record.json").read_text())
        return build.Measured(folder=folder, content=content, points=(), faults=())

    monkeypatch.setattr(build, "KINDS", {**build.KINDS, "grading": kind})
    assert [each.text for each in page_of(report(session, record)).all("h2")] == ["Told by another kind"]
