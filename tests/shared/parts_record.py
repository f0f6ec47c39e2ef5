"""The record of a bench on three boards, the last of which was lost, as `bench.parts` leaves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.shared.bench_records import write_bench_record

LOST = "Board lab-3 has gone."


def write_parts_record(runs: Path, *, emulated: bool = False) -> Path:
    """lab-2 is twice as fast as lab-1. The paths in it are those of another computer."""
    folder = runs / "20260301T120000Z-bench-llama-3-boards-0a1b"
    parts: list[dict[str, Any]] = []
    for place, board in enumerate(("lab-1", "lab-2")):
        record = write_bench_record(
            folder / "parts" / board,
            serial=f"serial-{place + 1}",
            speed=place + 1.0,
            short_id=f"000{place}",
            emulated=emulated,
        )
        parts.append(
            _part(board, "done", record=f"/home/lab/runs/{folder.name}/parts/{board}/{record.name}", valid=True)
        )
    parts.append(
        _part("lab-3", "failed", error={"code": "OHF7006", "category": "board", "message": LOST, "remedy": ""})
    )
    content = {
        "schema": 1,
        "kind": "bench-parts",
        "id": folder.name,
        "state": "failed",
        "ohforge": "0.1.0",
        "times": {"clock": "host", "started": "2026-03-01T12:00:00.000Z", "ended": "2026-03-01T13:00:00.000Z"},
        "instrument": "llama",
        "models": ["smollm2"],
        "board_kind": {"emulated": emulated, "profile": "dayu200", "chip": "RK3568"},
        "parts": parts,
        "error": None,
    }
    (folder / "record.json").write_text(json.dumps(content, indent=2) + "\n")
    return folder


def _part(board: str, state: str, **known: Any) -> dict[str, Any]:
    empty = {"board": board, "state": state, "record": None, "valid": None, "flags": [], "metrics": {}, "error": None}
    return {**empty, **known}
