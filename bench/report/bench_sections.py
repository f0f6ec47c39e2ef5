"""The sections of a page about one bench."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.report.charts import draw_course, draw_samples, draw_threads
from bench.report.completions import completion_blocks
from bench.report.document import (
    BAD,
    GOOD,
    NOTE,
    Block,
    Cell,
    Command,
    Facts,
    Figure,
    Figures,
    Notice,
    Section,
    Table,
    number,
)
from bench.report.flag_words import words_of
from bench.report.measured import Measured
from bench.report.memory import memory_blocks
from bench.words import EMULATED
from core.files import human_bytes
from deploy.hdc.version import tell_link

STATES = {
    "running": "it is still running, or ohforge was killed",
    "interrupted": "it was interrupted",
    "lost": "the link to the board was lost",
    "failed": "it failed",
    "timeout": "its time was over",
}
OF_INSTRUMENTS: Mapping[str, Mapping[str, str]] = {
    "llama": {"--prompt": "n_prompt", "--generate": "n_gen"},
    "mslite": {"--loops": "loops", "--warm-up": "warm_up"},
}
"""Flags that only the one or the other measuring program has, and what the plan calls them."""


def bench_section(measured: Measured, name: str) -> Section:
    """All that is told of one bench. `name` makes its drawings' names differ from others'."""
    steady = [*(draw_samples(measured, test, f"{name}s{place}") for place, test in enumerate(measured.tests))]
    parts = [
        Section(title="Verdict", blocks=[*verdict_blocks(measured), *_best(measured)]),
        Section(title="Speeds", blocks=[*speed_blocks(measured), *_by_threads(measured, name)]),
        Section(title="Completions", blocks=list(completion_blocks(measured, name))),
        Section(
            title="How steady it was", blocks=[block for block in (draw_course(measured, f"{name}c"), *steady) if block]
        ),
        Section(title="Memory", blocks=memory_blocks(measured, name)),
        Section(title="Environment", blocks=[Facts(rows=list(_environment(measured)))]),
        Section(title="Measure it again", blocks=list(_again(measured))),
    ]
    return Section(
        title=f"{measured.models} on {measured.board}",
        blocks=[],
        parts=[part for part in parts if part.blocks],
    )


# verdict -----------------------------------------------------------------------------------------


def verdict_blocks(measured: Measured) -> Iterator[Block]:
    """Whether the numbers hold, and what speaks against them."""
    content = measured.content
    if measured.emulated:
        yield Notice(tone=BAD, title="EMULATED", lines=[f"{EMULATED.partition(': ')[2].capitalize()}."])
    if content["valid"]:
        yield Notice(tone=GOOD, title="Valid: nothing speaks against these numbers")
    elif content["valid"] is None:
        why = STATES.get(content["state"], "it did not come to its end")
        lines = [content["error"]["message"]] if content["error"] else []
        yield Notice(tone=BAD, title=f"Not judged: {why}", lines=lines)
    else:
        yield Notice(tone=BAD, title="NOT VALID", lines=["These numbers do not hold, for what follows."])
    for name, flags in _by_name(content["flags"]).items():
        words = words_of(name)
        lines = [
            f"{flag['configuration']}: {flag['sentence']}." if flag["configuration"] else f"{flag['sentence']}."
            for flag in flags
        ]
        yield Notice(
            tone=BAD, title=f"{words.title} ({name})", lines=[*_first(lines), *([words.advice] if words.advice else [])]
        )
    remarks = [*content["notes"], *measured.faults]
    if remarks:
        yield Notice(tone=NOTE, title="To be known", lines=[f"{remark[:1].upper()}{remark[1:]}." for remark in remarks])


def _by_name(flags: Sequence[Mapping[str, str]]) -> dict[str, list[Mapping[str, str]]]:
    found: dict[str, list[Mapping[str, str]]] = {}
    for flag in flags:
        found.setdefault(flag["name"], []).append(flag)
    return found


def _first(lines: Sequence[str], most: int = 6) -> list[str]:
    more = [f"And {len(lines) - most} more like these; the table marks them."] if len(lines) > most else []
    return [*lines[:most], *more]


def _best(measured: Measured) -> Iterator[Block]:
    figures = []
    for test in measured.tests:
        results = measured.results_of(test)
        pick = max if results[0]["unit"] == "tokens/s" else min
        sound = [result for result in results if not measured.is_flagged(result)] or results
        best = pick(sound, key=lambda result: result["median"])
        known = (
            f"95 %: {number(best['low'])} to {number(best['high'])}"
            if best["low"] is not None
            else "too few for an interval"
        )
        emulated = " EMULATED" if measured.emulated else ""
        doubtful = "; NOT VALID" if measured.is_flagged(best) else _doubt(measured.content["valid"])
        figures.append(
            Figure(
                name=f"Best {test}",
                value=f"{number(best['median'], best['unit'])}{emulated}",
                note=f"{measured.short(best)}; {known}; n = {best['n']}{doubtful}",
            )
        )
    if figures:
        yield Figures(figures=figures)


def _doubt(valid: bool | None) -> str:
    return {True: "", False: "; the bench as a whole is NOT VALID", None: "; the bench was not judged"}[valid]


# speeds ------------------------------------------------------------------------------------------


def speed_blocks(measured: Measured) -> Iterator[Block]:
    """The table of all results."""
    if measured.results:
        yield _speed_table(measured)


def _by_threads(measured: Measured, name: str) -> Iterator[Block]:
    for place, test in enumerate(measured.tests):
        if chart := draw_threads(measured, test, f"{name}t{place}"):
            yield chart


def _speed_table(measured: Measured) -> Table:
    rows = []
    for result in measured.results:
        flagged = measured.is_flagged(result)
        known = result["low"] is not None
        unit = f"{result['unit']}{' EMULATED' if measured.emulated else ''}"
        tokens = f" {result['tokens']}" if result["tokens"] else ""
        rows.append(
            [
                Cell(text=result["configuration"]),
                Cell(text=f"{result['test']}{tokens}"),
                _number(result["median"]),
                Cell(
                    text=f"{number(result['low'])} to {number(result['high'])}" if known else "too few",
                    value=result["low"],
                ),
                _number(result["p5"]),
                _number(result["p95"]),
                Cell(text=f"{result['cv']:.1%}" if result["cv"] is not None else "-", value=result["cv"]),
                Cell(text=str(result["n"]), value=result["n"]),
                Cell(text=unit),
                Cell(text="not valid" if flagged else "no flag", tone=BAD if flagged else None),
            ]
        )
    return Table(
        caption=f"Every configuration; the samples are in {measured.content['series']['file']} of the record.",
        columns=["Configuration", "Test", "Median", "95 % interval", "p5", "p95", "CV", "n", "Unit", "Verdict"],
        rows=rows,
        numeric=frozenset({2, 3, 4, 5, 6, 7}),
    )


def _number(value: float) -> Cell:
    return Cell(text=number(value), value=value)


# environment -------------------------------------------------------------------------------------


def _environment(measured: Measured) -> Iterator[tuple[str, str]]:
    content = measured.content
    board, facts = content["board"], content["board"]["facts"] or {}
    yield "Board", measured.board
    yield "Profile", board["profile"]
    parameters = facts.get("parameters") or {}
    system = parameters.get("const.ohos.fullname") or parameters.get("const.product.software.version")
    api = parameters.get("const.ohos.apiversion")
    if system:
        yield "System", f"{system}{f', API {api}' if api else ''}"
    if facts:
        yield "Kernel", f"{facts['kernel']} ({facts['machine']})"
        yield (
            "CPU",
            f"{facts.get('cores') or 'not known how many'} cores; {' '.join(facts.get('cpu_features') or ['features not known'])}",
        )
        yield "Memory", human_bytes(facts["memory_bytes"])
    yield from _conditions(content["conditions"])
    yield "Engine", content["engine"]
    if program := content["program"]:
        yield "Program", f"{program['name']}, sha256 {program['sha256']}"
        if artifact := program.get("artifact"):
            yield (
                "Built as",
                f"{artifact['arch']}, {artifact['cpu']}, toolchain {artifact['toolchain']}, key {artifact['key']}",
            )
    for model in content["models"]:
        yield "Model", f"{model['name']} ({model['kind']}), {human_bytes(model['size'])}, sha256 {model['sha256']}"
    if link := content["link"]:
        yield "Link", tell_link(link)
    if engine := content["run_engine"]:
        yield "Run by", f"{engine['name']}: {engine['reason']}"
    yield "Times (host)", f"{content['times']['started']} to {content['times']['ended'] or '…'}"
    yield "Rounds", f"{content['rounds']}; ended by: {content['ended_because'] or 'no end of its own'}"
    yield "ohforge", content["ohforge"]
    yield "Record", str(measured.folder)


def _conditions(conditions: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    before, after = conditions["before"], conditions["after"]
    if before is None:
        return
    late = {policy["name"]: policy for policy in (after or {}).get("policies", ())}
    for policy in before["policies"]:
        end = late.get(policy["name"])
        yield (
            f"Clock {policy['name']}",
            "; ".join(
                [
                    f"governor {policy['governor'] or 'not known'}",
                    f"at {_megahertz(policy['current_hz'])} before, {_megahertz((end or {}).get('current_hz'))} after",
                    f"may choose {_megahertz(policy.get('lowest_hz'))} to {_megahertz(policy['highest_hz'])}",
                ]
            ),
        )
    for name, degrees in before["temperatures"].items():
        end = (after or {}).get("temperatures", {}).get(name)
        yield f"Temperature {name}", f"{number(degrees, '°C')} before, {number(end, '°C')} after"
    if before["load"]:
        yield "Load before", " ".join(f"{load:g}" for load in before["load"])
    if before["available_bytes"] is not None:
        yield "Memory available", f"{human_bytes(before['available_bytes'])} before"
    if before["swap_bytes"] is not None:
        yield "Swap", human_bytes(before["swap_bytes"])


def _megahertz(hertz: int | None) -> str:
    return f"{hertz / 1e6:.0f} MHz" if hertz is not None else "not known"


# again -------------------------------------------------------------------------------------------


def _again(measured: Measured) -> Iterator[Block]:
    content = measured.content
    if content["valid"] is None and content["request"] is not None:
        line = shlex.join(["ohforge", f"bench.{content['instrument']}", "--resume", content["id"]])
        yield Command(line=line, note="This goes on with it where it was cut off; what follows begins anew.")
    hashes = ", ".join(f"{model['name']}: sha256 {model['sha256'][:12]}…" for model in content["models"])
    yield Command(line=repeat_command(content), note=f"The models are those of these hashes ({hashes}).")


def repeat_command(content: Mapping[str, Any]) -> str:
    """The command line that asks for the same bench."""
    plan, artifact = content["plan"], (content["program"] or {}).get("artifact") or {}
    times, instrument = plan["repetitions"], content.get("instrument", "llama")
    said: dict[str, Any] = {
        "--board": content["board"]["serial"],
        "--arch": artifact.get("arch"),
        "--cpu": artifact.get("cpu"),
        "--toolchain": artifact.get("toolchain"),
        "--threads": None if plan.get("sweep") else ",".join(map(str, plan["threads"])),
        **{f"--{name}": ",".join(map(str, values)) for name, values in (plan.get("axes") or {}).items() if values},
        **{flag: plan.get(key) for flag, key in OF_INSTRUMENTS[instrument].items()},
        "--completions": plan.get("completions") or None,
        "--repetitions": f"{100 * times['within']:g}%" if times["within"] is not None else times["most"],
        "--seed": plan["seed"],
        "--start-below": plan.get("start_below"),
        "--at-most": f"{plan['at_most']:.0f}s",
    }
    words = [word for flag, value in said.items() if value is not None for word in (flag, str(value))]
    pin = ["--pin"] if (content.get("pin") or {}).get("asked") else []
    models = [model["name"] for model in content["models"]]
    return shlex.join(["ohforge", f"bench.{instrument}", *models, *words, *pin])
