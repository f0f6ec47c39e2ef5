"""How measurements look to people: never a number of an emulated board without that word beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bench.stats import LEAST_FOR_INTERVAL
from bench.words import EMULATED
from core.files import human_bytes

if TYPE_CHECKING:
    from bench.compare import Comparison
    from bench.parts import PartsOutcome
    from bench.request import BenchOutcome
    from core.console import Console

COLUMNS = ["MODEL", "THREADS", "SETTINGS", "TEST", "MEDIAN", "95 % INTERVAL", "P5", "P95", "CV", "N", "UNIT"]


def show_bench(console: Console, outcome: BenchOutcome) -> None:
    """The end of a bench: its table, and what speaks against it."""
    content = outcome.content
    emulated = content["board"]["emulated"]
    if content["computed_by"]:
        console.info(f"computed by: {content['computed_by']}")
    console.info(
        f"{'speeds' if content['instrument'] == 'llama' else 'times'} ({EMULATED if emulated else 'measured on the board'}):"
    )
    console.table(
        COLUMNS, [_row(result, emulated, f"{result['test']} {result['tokens'] or ''}") for result in content["results"]]
    )
    if completion := content.get("completion"):
        _show_completions(console, completion, emulated)
    for flag in content["flags"]:
        where = f"{flag['configuration']}: " if flag["configuration"] else ""
        console.warn(f"NOT VALID ({flag['name']}): {where}{flag['sentence']}")
    verdict = "no flag was raised" if content["valid"] else "NOT VALID"
    console.info(f"verdict: {verdict}; ended by: {content['ended_because']}")
    console.info(f"samples: {outcome.record / content['series']['file']}")
    console.info(f"record: {outcome.record}")
    console.info(f"next: ohforge report {outcome.record.name}")


def show_parts(console: Console, outcome: PartsOutcome) -> None:
    """The medians of each board, one below the other: no number is made of two boards."""
    kind = outcome.content["board_kind"] or {}
    emulated = bool(kind.get("emulated"))
    for part in outcome.content["parts"]:
        title = f"board {part['board']} ({EMULATED if emulated else 'measured on the board'})"
        if part["state"] != "done":
            console.warn(f"{title}: {part['error']['message'] if part['error'] else 'not measured'}")
            continue
        console.info(f"{title}: {'no flag was raised' if part['valid'] else 'NOT VALID'}; record: {part['record']}")
        rows = [_row(metric, emulated, metric.get("test", metric.get("metric"))) for metric in part["metrics"].values()]
        console.table(COLUMNS, rows)
        for flag in part["flags"]:
            console.warn(f"NOT VALID ({flag['name']}): {flag['sentence']}")
    console.info(f"record: {outcome.record}")


def _show_completions(console: Console, completion: Mapping[str, Any], emulated: bool) -> None:
    title = f"completions by llama-server, {completion['prompt_tokens']} tokens read and {completion['tokens']} written"
    console.info(f"{title} ({EMULATED if emulated else 'measured on the board'}):")
    headings = ["METRIC" if name == "TEST" else name for name in COLUMNS]
    console.table(headings, [_row(result, emulated, result["metric"]) for result in completion["results"]])


def _row(result: Mapping[str, Any], emulated: bool, name: str) -> list[str]:
    def shown(value: float) -> str:
        return human_bytes(value) if result["unit"] == "bytes" else f"{value:.4g}"

    known = f"{shown(result['low'])} to {shown(result['high'])}" if result["low"] is not None else ""
    return [
        result["model"],
        str(result["threads"]),
        _settings(result.get("settings", {})),
        name.rstrip(),
        shown(result["median"]),
        known or ("too few" if result["n"] < LEAST_FOR_INTERVAL else "-"),
        shown(result["p5"]),
        shown(result["p95"]),
        f"{result['cv']:.1%}" if result["cv"] is not None else "-",
        str(result["n"]),
        # Bytes say their unit themselves.
        f"{'' if result['unit'] == 'bytes' else result['unit']}{' (emulated)' if emulated else ''}".strip(),
    ]


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "-"


def show_benches(console: Console, benches: Iterable[Mapping[str, Any]]) -> None:
    """All benches, one a line."""
    rows = [
        [
            bench["id"],
            bench["state"],
            {True: "valid", False: f"NOT VALID: {', '.join(bench['flags'])}", None: "not judged"}[bench["valid"]],
            f"{bench['board']}{' (emulated)' if bench['emulated'] else ''}",
            ", ".join(bench["models"]),
            ", ".join(f"{test} {best:.4g} {bench['units'][test]}" for test, best in bench["best"].items()) or "-",
        ]
        for bench in benches
    ]
    console.table(["RECORD", "STATE", "VERDICT", "BOARD", "MODELS", "BEST"], rows)


def show_comparison(console: Console, comparison: Comparison) -> None:
    """The changes, after what makes them doubtful."""
    for unlike in comparison.differs:
        console.warn(f"NOT COMPARABLE, shown because of --anyway: {unlike.sentence}")
    if comparison.emulated:
        console.info(EMULATED)
    rows = [
        [
            entry.model,
            str(entry.threads),
            _settings(entry.settings),
            entry.test,
            f"{entry.a:.4g}",
            f"{entry.b:.4g}",
            f"{entry.change:+.1%}",
            f"{entry.low:+.1%} to {entry.high:+.1%}" if entry.low is not None else "too few",
            ("faster" if entry.is_faster else "slower") if entry.is_clear else "no clear difference",
        ]
        for entry in comparison.differences
    ]
    console.table(["MODEL", "THREADS", "SETTINGS", "TEST", "A", "B", "CHANGE", "95 % INTERVAL", "B IS"], rows)
