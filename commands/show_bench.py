"""How measurements look to people: never a number of an emulated board without that word beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bench.words import EMULATED

if TYPE_CHECKING:
    from bench.compare import Comparison
    from bench.request import BenchOutcome
    from core.console import Console

COLUMNS = ["MODEL", "THREADS", "TEST", "MEDIAN", "95 % INTERVAL", "P5", "P95", "CV", "N", "UNIT"]


def show_bench(console: Console, outcome: BenchOutcome) -> None:
    """The end of a bench: its table, and what speaks against it."""
    content = outcome.content
    emulated = content["board"]["emulated"]
    console.info(f"speeds ({EMULATED if emulated else 'measured on the board'}):")
    console.table(COLUMNS, [_row(result, emulated) for result in content["results"]])
    for flag in content["flags"]:
        where = f"{flag['configuration']}: " if flag["configuration"] else ""
        console.warn(f"NOT VALID ({flag['name']}): {where}{flag['sentence']}")
    verdict = "no flag was raised" if content["valid"] else "NOT VALID"
    console.info(f"verdict: {verdict}; ended by: {content['ended_because']}")
    console.info(f"samples: {outcome.record / content['series']['file']}")
    console.info(f"record: {outcome.record}")


def _row(result: Mapping[str, Any], emulated: bool) -> list[str]:
    known = result["low"] is not None
    return [
        result["model"],
        str(result["threads"]),
        f"{result['test']} {result['tokens']}",
        f"{result['median']:.4g}",
        f"{result['low']:.4g} to {result['high']:.4g}" if known else "too few",
        f"{result['p5']:.4g}",
        f"{result['p95']:.4g}",
        f"{result['cv']:.1%}" if result["cv"] is not None else "-",
        str(result["n"]),
        f"{result['unit']}{' (emulated)' if emulated else ''}",
    ]


def show_benches(console: Console, benches: Iterable[Mapping[str, Any]]) -> None:
    """All benches, one a line."""
    rows = [
        [
            bench["id"],
            bench["state"],
            {True: "valid", False: f"NOT VALID: {', '.join(bench['flags'])}", None: "not judged"}[bench["valid"]],
            f"{bench['board']}{' (emulated)' if bench['emulated'] else ''}",
            ", ".join(bench["models"]),
            ", ".join(f"{test} {speed:.4g} tokens/s" for test, speed in bench["best"].items()) or "-",
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
            entry.test,
            f"{entry.a:.4g}",
            f"{entry.b:.4g}",
            f"{entry.change:+.1%}",
            f"{entry.low:+.1%} to {entry.high:+.1%}" if entry.low is not None else "too few",
            ("faster" if entry.change > 0 else "slower") if entry.is_clear else "no clear difference",
        ]
        for entry in comparison.differences
    ]
    console.table(["MODEL", "THREADS", "TEST", "A", "B", "CHANGE", "95 % INTERVAL", "B IS"], rows)
