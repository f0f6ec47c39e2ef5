"""The sections of a study's page that put models, and settings of their servers, side by side; and what a token takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bench.eval.intervals import Share
from bench.eval.record import ANSWER, read_answers
from bench.record import read_bench
from bench.regime import regime_of_bench
from bench.report.document import Block, Cell, Chart, Section, Table, Text, number
from bench.series import DECODE
from bench.stats import Summary
from bench.study.drawing import draw_times, share_text
from bench.study.evidence import Answered, Evidence, boxed
from bench.study.times import TokenTimes, token_times
from core.files import human_bytes


def models_section(evidence: Evidence) -> Section:
    """Each model in a row: its size, how often its whole answers are right, and what a token takes."""
    parts = [
        Section(title=title, blocks=[_models_table(evidence, some)]) for title, some in evidence.by_conditions().items()
    ]
    return Section(title="The models side by side", blocks=[], parts=parts)


def _models_table(evidence: Evidence, some: Sequence[Answered]) -> Table:
    rows, sources = [], list[str]()
    for each in some:
        row, size = each.rows[-1], each.contents[0]["model"]["size"]
        strict, lenient = row["accuracy"]["strict"], row["accuracy"]["lenient"]
        timed = evidence.timed(each)
        times = [
            f"{number(found.seconds_per_token)} {found.place}{' (EMULATED)' if found.emulated else ''}"
            for found in timed
        ]
        sources += [found.source for found in timed]
        rows.append(
            [
                Cell(text=each.model),
                Cell(text=human_bytes(size) if size else "not known", value=size),
                Cell(text=each.place),
                Cell(text=str(row["n"]), value=row["n"]),
                *(Cell(text=share_text(Share(**share)), value=share["value"]) for share in (strict, lenient)),
                *(_part(count, row["n"]) for count in (row["truncated"], row["n"] - boxed(row))),
                Cell(text="; ".join(times) or "not known"),
            ]
        )
    limits = sorted({each.rows[-1]["budget"] for each in some})
    told = f" Times: {'; '.join(dict.fromkeys(sources))}." if sources else ""
    return Table(
        caption=f"Answers of up to {', '.join(map(number, limits))} tokens, the widest limit of each, with 95 % intervals.{told}",
        columns=["model", "file", "answers from", "n", "strict", "lenient", "cut", "no box", "seconds of a token"],
        rows=rows,
        numeric=frozenset({1, *range(3, 8)}),
    )


def _part(count: int, n: int) -> Cell:
    return Cell(text=f"{count} ({count / n:.0%})" if n else "0", value=count)


def latency_section(evidence: Evidence) -> Section:
    """What the first token and every further one took, as measured; boards' own benches beside it."""
    return Section(title="Per-token latency", blocks=list(_latency_blocks(evidence)))


def _latency_blocks(evidence: Evidence) -> Iterator[Block]:
    rows = [*_answered_rows(evidence), *_bench_rows(evidence)]
    if not rows:
        yield Text(text="Nothing that was measured tells the times of single tokens.")
        return
    for place, (title, some) in enumerate(evidence.by_conditions().items()):
        yield from _drawing(title, some, f"l{place}")
    yield Table(
        caption="Seconds: medians with 95 % intervals, of answers over answers and of benches over repetitions.",
        columns=["model", "where", "from", "first token", "further token", "single: 5 to 95 %", "CV", "n"],
        rows=rows,
        numeric=frozenset(range(3, 8)),
    )


def _answered_rows(evidence: Evidence) -> Iterator[list[Cell]]:
    for each in evidence.answered:
        if (times := token_times(each)) is not None:
            yield [
                Cell(text=each.model),
                Cell(text=each.place),
                Cell(text=f"{each.label}; prompt {each.prompt}"),
                _median(times.first),
                _median(times.token),
                Cell(text=f"{number(times.single.p5)} to {number(times.single.p95)}", value=times.single.p95),
                Cell(text=number(times.single.cv), value=times.single.cv),
                Cell(text=f"{times.first.n} answers", value=times.first.n),
            ]


def _bench_rows(evidence: Evidence) -> Iterator[list[Cell]]:
    for (model, board), folder in evidence.benches.items():
        content = read_bench(folder)
        mark = "EMULATED, " if content["board"]["emulated"] else ""
        for row in content["results"]:
            if row["test"] != DECODE:
                continue
            ends = [f"{1 / row[end]:.3g}" for end in ("high", "low") if row[end]]
            interval = f" ({' to '.join(ends)})" if len(ends) > 1 else ""
            yield [
                Cell(text=model),
                Cell(text=board),
                Cell(text=f"{mark}bench, {row['configuration']}, {regime_of_bench(folder, row['configuration'])}"),
                Cell(text=""),
                Cell(text=f"{1 / row['median']:.3g}{interval}", value=1 / row["median"]),
                Cell(text=""),
                Cell(text=number(row["cv"]), value=row["cv"]),
                Cell(text=f"{row['n']} repetitions", value=row["n"]),
            ]


def _drawing(title: str, some: Sequence[Answered], name: str) -> Iterator[Chart]:
    found = [(each, times) for each in some if (times := token_times(each)) is not None and times.positions]
    if not found:
        return
    several = len({each.place for each, _ in found}) > 1
    labels = list(dict.fromkeys(each.label for each, _ in found))
    counts = ", ".join(dict.fromkeys(str(times.first.n) for _, times in found))
    yield draw_times(
        [(f"{each.model}, {each.place}" if several else each.model, times.positions) for each, times in found],
        name,
        f"What a token takes, by where it stands. {title}",
        f"{'; '.join(labels)}; n = {counts} answers",
        emulated=any(each.emulated for each, _ in found),
    )


def settings_section(evidence: Evidence) -> Section | None:
    """What each setting of the servers changed beside the first one; None when there is one only."""
    groups: dict[tuple[str, str, str], list[Answered]] = {}
    for each in evidence.answered:
        groups.setdefault((each.model, each.place, each.prompt), []).append(each)
    several = {key: some for key, some in groups.items() if len(some) > 1}
    if not several:
        return None
    parts = [
        Section(title=f"{model}, {place}, prompt {prompt}", blocks=[_settings_table(some)])
        for (model, place, prompt), some in several.items()
    ]
    lead = "Each setting is a run of its own on the same questions. Nothing of it is put together with other settings."
    return Section(title="Settings of the servers", blocks=[Text(text=lead)], parts=parts)


def _settings_table(some: Sequence[Answered]) -> Table:
    first = _texts(some[0])
    rows = [_settings_row(each, first) for each in some]
    source = some[0].label.partition(";")[0]
    return Table(
        caption=f"{source[:1].upper()}{source[1:]}. Answers that are the same are so letter by letter as under the first "
        "setting; seconds are medians over answers, with 95 % intervals.",
        columns=[
            *("server", "n", "right, lenient", "same answers", "first token, s", "further token, s"),
            *("prompt from cache", "guesses taken", "most memory", "read"),
        ],
        rows=rows,
        numeric=frozenset(range(1, 10)),
        sortable=False,
    )


def _settings_row(each: Answered, first: Mapping[tuple[str, int], str]) -> list[Cell]:
    row, used, texts = each.rows[-1], each.contents[0].get("used") or {}, _texts(each)
    times: TokenTimes | None = token_times(each)
    common = texts.keys() & first.keys()
    same = sum(texts[key] == first[key] for key in common)
    lines = [line for folder in each.folders for line in read_answers(folder)]
    return [
        Cell(text=str(each.settings) or "as ever"),
        Cell(text=str(row["n"]), value=row["n"]),
        Cell(text=share_text(Share(**row["accuracy"]["lenient"])), value=row["accuracy"]["lenient"]["value"]),
        Cell(text=f"{same} of {len(common)}", value=same),
        _median(times.first) if times else Cell(text=""),
        _median(times.token) if times else Cell(text=""),
        _share(sum(line["cached"] or 0 for line in lines), sum(len(line["prompt_tokens"] or ()) for line in lines)),
        _share(_sum(lines, "draft_n_accepted"), _sum(lines, "draft_n")),
        *(_bytes(used.get(name)) for name in ("peak_bytes", "read_bytes")),
    ]


def _texts(each: Answered) -> dict[tuple[str, int], str]:
    return {
        (line["id"], line["limit"]): line["text"]
        for folder in each.folders
        for line in read_answers(folder)
        if line["purpose"] == ANSWER
    }


def _sum(lines: Iterable[Mapping[str, Any]], name: str) -> float:
    return sum(float(line["timings"].get(name, 0)) for line in lines)


def _share(part: float, whole: float) -> Cell:
    return Cell(text=f"{part / whole:.0%}", value=part / whole) if whole else Cell(text="")


def _bytes(count: int | None) -> Cell:
    return Cell(text=human_bytes(count), value=count) if count is not None else Cell(text="not known")


def _median(summary: Summary) -> Cell:
    interval = f" ({summary.low:.3g} to {summary.high:.3g})" if summary.low is not None else ""
    return Cell(text=f"{summary.median:.3g}{interval}", value=summary.median)
