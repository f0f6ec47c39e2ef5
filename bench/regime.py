"""What bounds the times of a model: its weights stay in memory, or come from storage again for every token."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.flags import READ_SHARE
from bench.record import read_bench
from bench.series import FILE, read_series

IN_RAM, STORAGE_BOUND, NOT_KNOWN = "in RAM", "storage-bound", "regime not known"


def regime_of_bench(folder: Path, configuration: str) -> str:
    """Of one configuration of a bench, as results name it. Raises InvalidData."""
    flags = [flag for flag in read_bench(folder)["flags"] if flag["name"] == "storage"]
    if any(flag.get("configuration") in ("", None, configuration) for flag in flags):
        return STORAGE_BOUND
    samples = read_series(folder) if (folder / FILE).is_file() else []
    told = any(each.read_bytes is not None for each in samples if each.configuration.name == configuration)
    return IN_RAM if told else NOT_KNOWN


def regime_of_server(content: Mapping[str, Any]) -> str:
    """Of the server that answered an evaluation: by what it read for each token, once the file was loaded."""
    size, used = content["model"]["size"], content.get("used") or {}
    tokens = content["results"][-1]["generated"] if content["results"] else 0
    # Of a draft model's file nobody knows here how large it is.
    if not size or not tokens or used.get("read_bytes") is None or content["plan"].get("settings", {}).get("draft"):
        return NOT_KNOWN
    return STORAGE_BOUND if (used["read_bytes"] - size) / tokens > READ_SHARE * size else IN_RAM
