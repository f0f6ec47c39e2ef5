"""What a board told of one run of a program, beside what the program itself timed."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.run.record import SAMPLES, STDOUT_LOG
from deploy.run.result import RunOutcome


def output_of(outcome: RunOutcome) -> str:
    """Standard output by itself where it came apart: a line of the log may stand within one of it otherwise."""
    apart = outcome.record / STDOUT_LOG
    content = apart.read_bytes() if apart.is_file() else outcome.output
    return content.decode("utf-8", "replace")


def observed(outcome: RunOutcome) -> dict[str, Any]:
    """As fields of `bench.series.Sample`."""
    usage: Mapping[str, Any] = outcome.usage or {}
    clocks: dict[str, list[int]] = {}
    temperatures: list[float] = []
    for sample in _samples_in(outcome.record):
        temperatures += [degrees for degrees in sample["temperatures"].values() if degrees is not None]
        for name, hertz in sample["cpu_frequencies"].items():
            if hertz is not None:
                clocks.setdefault(name, []).append(hertz)
    device = outcome.diagnosis.device
    return {
        "peak_bytes": usage.get("max_rss_bytes"),
        "major_faults": usage.get("major_faults"),
        "read_bytes": usage["blocks_read"] * 512 if usage else None,
        "cpu_seconds": usage["user_seconds"] + usage["system_seconds"] if usage else None,
        "cpu_hz": {name: statistics.median(values) for name, values in clocks.items()} or None,
        "hottest": max(temperatures, default=None),
        "device": device.used if device is not None else None,
    }


def _samples_in(record: Path) -> list[dict[str, Any]]:
    file = record / SAMPLES
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [json.loads(line) for line in lines]
