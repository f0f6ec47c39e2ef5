"""The sections of a study's page about answers: how many are right, under which limits, and who is ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.eval.curves import Curve, token_curve
from bench.eval.intervals import Share
from bench.report.document import BAD, NOTE, Block, Cell, Chart, Notice, Section, Table, Text, number
from bench.study.drawing import Line, draw_lines, share_line, share_text
from bench.study.evidence import Answered, Evidence, Timed, boxed, time_grid
from bench.study.versus import Equal, OneRatio, Versus

POINTS = 16
"""Of a line against tokens, where whole answers can be cut anywhere."""

MOST_ROWS = 16
"""Of a table of differences; of more limits every second or third is shown."""


def accuracy_section(evidence: Evidence) -> Section:
    """Accuracy against tokens and against seconds, and what became of the answers."""
    parts = []
    for place, (title, some) in enumerate(evidence.by_conditions().items()):
        blocks: list[Block] = [*_warnings(some), *_drawings(evidence, some, f"a{place}"), _table(some)]
        parts.append(Section(title=title, blocks=blocks))
    return Section(title="Right answers", blocks=[], parts=parts)


def _warnings(some: Sequence[Answered]) -> Iterator[Notice]:
    for each in some:
        for content in each.contents:
            lines = [flag["sentence"] for flag in content["flags"]]
            if content["valid"] is False:
                yield Notice(tone=BAD, title=f"{each.model}, {each.place}: not valid", lines=lines)
            if content["notes"]:
                yield Notice(tone=NOTE, title=f"{each.model}, {each.place}", lines=content["notes"])


def _drawings(evidence: Evidence, some: Sequence[Answered], name: str) -> Iterator[Chart]:
    several = len({each.place for each in some}) > 1
    titles = [f"{each.model}, {each.place}" if several else each.model for each in some]
    n = "; ".join(dict.fromkeys(f"n = {each.rows[-1]['n']}" for each in some))
    answered_by = "; ".join(dict.fromkeys(each.label for each in some))
    lines = [Line.of(title, _fine_curve(each)) for title, each in zip(titles, some, strict=True)]
    yield draw_lines(
        *(lines, f"{name}t", "Right answers against tokens", "tokens that an answer may have", "Right, lenient"),
        f"{answered_by[:1].upper()}{answered_by[1:]}; {n}",
        emulated=False,
    )
    timed = [found for each in some for found in evidence.timed(each)]
    for number_, place in enumerate(_places(timed)):
        there = [each for each in timed if _shared(each) == place]
        grid = time_grid(there)
        source = "; ".join(dict.fromkeys(each.source for each in there))
        yield draw_lines(
            [Line.of(each.model, each.curve(grid)) for each in there],
            *(f"{name}s{number_}", f"Right answers against time: {place}", "seconds from the question on"),
            "Right, lenient",
            f"{source[:1].upper()}{source[1:]}; n = {len(there[0].answers)}",
            emulated=any(each.emulated for each in there),
        )
    lines = []
    for title, each in zip(titles, some, strict=True):
        at = [min(row["budget"], each.longest) for row in each.rows]
        cut = [(row["truncated"], row["n"]) for row in each.rows]
        no_box = [(row["n"] - boxed(row), row["n"]) for row in each.rows]
        lines += [share_line(f"{title}: cut", at, cut), share_line(f"{title}: without a box", at, no_box)]
    yield draw_lines(
        *(lines, f"{name}c", "Answers that were cut, and without a box", "tokens that an answer may have"),
        *("Of all answers", f"By the rules of the grader; {answered_by}; {n}"),
        emulated=False,
    )


def _places(timed: Sequence[Timed]) -> list[str]:
    return list(dict.fromkeys(map(_shared, timed)))


def _shared(each: Timed) -> str:
    """What a drawing is about: a board, this computer, or all servers together, which have a model each."""
    return "the servers" if "://" in each.place else each.place


def _fine_curve(each: Answered) -> Curve:
    """At more limits than were asked for, where answers can be cut anywhere."""
    last = int(each.rows[-1]["budget"])
    if not each.timed:
        return each.token_curve(last)
    longest = min(last, each.longest)
    budgets = sorted({*(max(1, round(longest * step / POINTS)) for step in range(1, POINTS + 1)), longest})
    return token_curve(each.model, each.timed, budgets, each.label)


def _table(some: Sequence[Answered]) -> Table:
    rows = []
    for each in some:
        for row in each.rows:
            told = f" (told {row['told']})" if row["told"] is not None else ""
            strict, lenient = row["accuracy"]["strict"], row["accuracy"]["lenient"]
            rows.append(
                [
                    Cell(text=each.model),
                    Cell(text=each.place),
                    Cell(text=f"{row['budget']}{told}", value=row["budget"]),
                    Cell(text=str(row["n"]), value=row["n"]),
                    Cell(text=share_text(Share(**strict)), value=strict["value"]),
                    Cell(text=share_text(Share(**lenient)), value=lenient["value"]),
                    Cell(text=str(row["truncated"]), value=row["truncated"]),
                    Cell(text=str(row["n"] - boxed(row)), value=row["n"] - boxed(row)),
                    *(Cell(text=str(row[key]), value=row[key]) for key in ("no_answer", "first_box")),
                    Cell(text=row["source"]),
                ]
            )
    names = ["model", "answers from", "tokens", "n", "strict", "lenient", "cut", "no box", "no answer"]
    names += ["first box right", "how"]
    return Table(
        caption="Right answers with their 95 % intervals, and what became of the others.",
        columns=names,
        rows=rows,
        numeric=frozenset(range(2, 10)),
    )


def comparison_with(versus: Versus) -> Section:
    """The planned comparison."""
    with_settings = f", servers with {versus.settings}" if str(versus.settings) else ""
    title = f"{versus.first} against {versus.second}{with_settings}"
    if versus.in_tokens is None:
        return Section(title=title, blocks=[Notice(tone=NOTE, title=f"Not compared: {versus.lacks}")])
    parts = [
        Section(title="In equal tokens", blocks=list(_equal_blocks(versus, versus.in_tokens, "vt"))),
        *(
            Section(title=f"In equal time: {equal.place}", blocks=list(_equal_blocks(versus, equal, f"vs{place}")))
            for place, equal in enumerate(versus.in_time)
        ),
        *(
            Section(title=f"By one ratio, and by measured times: {each.place}", blocks=list(_ratio_blocks(each)))
            for each in versus.ratios
        ),
    ]
    return Section(title=title, blocks=list(_planned(versus)), parts=parts)


def _planned(versus: Versus) -> Iterator[Block]:
    if versus.planned is None:
        yield Text(text=f"There are no answers under the planned {number(versus.budget)} tokens to compare.")
        return
    test = versus.planned
    yield Text(
        text=f"The comparison that was planned, prompt {versus.prompt}, {number(versus.budget)} tokens: only {versus.first} "
        f"is right {test.first_only} times, only {versus.second} {test.second_only} times; McNemar's exact test p = "
        f"{test.exact:.3g}, mid-p {test.mid_p:.3g}. All else here is looked at, not tested."
    )


def _equal_blocks(versus: Versus, equal: Equal, name: str) -> Iterator[Block]:
    crossing, pair = equal.crossing, equal.pair
    sentence = crossing.sentence(equal.unit)
    yield Text(
        text=f"{sentence[:1].upper()}{sentence[1:]} (95 %, paired bootstrap over {len(pair.first.items)} questions)."
    )
    source = "; ".join(dict.fromkeys((pair.first.source, pair.second.source)))
    yield draw_lines(
        [Line.of(versus.first, pair.first), Line.of(versus.second, pair.second)],
        name,
        f"{versus.first} and {versus.second} in equal {'tokens' if not equal.place else 'time'}",
        equal.unit,
        "Right, lenient",
        f"{source[:1].upper()}{source[1:]}; n = {len(pair.first.items)}",
        emulated=equal.emulated,
        crossing=(crossing.at, sentence) if crossing.at is not None else None,
    )
    step = 1 + len(pair.first.budgets) // MOST_ROWS
    shown = list(zip(pair.first.budgets, equal.differences, strict=True))[::-step][::-1]
    rows = [
        [Cell(text=number(budget), value=budget), Cell(text=_points(difference), value=difference.value)]
        for budget, difference in shown
    ]
    yield Table(
        caption=f"What {versus.second} has right more than {versus.first}, in points, with 95 % intervals.",
        columns=[equal.unit, "difference"],
        rows=rows,
        numeric=frozenset({0, 1}),
    )


def _ratio_blocks(each: OneRatio) -> Iterator[Block]:
    quick, slow = each.quick, each.slow
    mark = "EMULATED: times of qemu. " if each.emulated else ""
    yield Text(
        text=f"{mark}A token takes {number(quick.seconds_per_token, 's')} with {quick.model} and "
        f"{number(slow.seconds_per_token, 's')} with {slow.model}: a ratio of {each.ratio:.3g}. By that ratio alone, "
        f"{each.crossing.sentence(f'tokens of {quick.model}')}. Measured times have the prefill as well, of "
        f"{quick.prompt_tokens} tokens in the median, so that the same wait gives other counts of tokens."
    )
    rows = [
        [
            *(Cell(text=number(value), value=value) for value in (row.quick_tokens, row.by_ratio, row.by_time)),
            Cell(text=number(row.seconds, "s"), value=row.seconds),
            *(
                Cell(text=share_text(share), value=share.value)
                for share in (row.quick, row.slow_by_ratio, row.slow_by_time)
            ),
        ]
        for row in each.rows
    ]
    yield Table(
        caption=f"While {quick.model} gives so many tokens, {slow.model} gives these, by the one ratio and by measured times; "
        f"and how many answers are right then. {slow.source[:1].upper()}{slow.source[1:]}; n = {len(slow.answers)}.",
        columns=[
            f"tokens of {quick.model}",
            f"of {slow.model} by ratio",
            "by time",
            "time",
            f"{quick.model} right",
            f"{slow.model} right, by ratio",
            "by time",
        ],
        rows=rows,
        numeric=frozenset(range(7)),
    )


def _points(share: Share) -> str:
    return f"{100 * share.value:+.1f} ({100 * share.low:+.1f} to {100 * share.high:+.1f})"
