"""Frames of the agent, put together from docs/agent.md."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

KEY = bytes(range(32))
END: dict[str, object] = {
    "ended": True,
    "code": 3,
    "signal": 0,
    "core": False,
    "reason": "",
    "wall_us": 1_500_000,
    "user_us": 250_000,
    "system_us": 20_000,
    "max_rss_kb": 1024,
    "minor_faults": 7,
    "major_faults": 1,
    "voluntary_switches": 5,
    "involuntary_switches": 6,
    "blocks_read": 8,
    "blocks_written": 16,
    "stdout_bytes": 0,
    "stderr_bytes": 0,
    "samples_lost": 0,
    "left": 0,
    "survivors": 0,
}


def frame(
    kind: str, payload: bytes | Mapping[str, object], number: int, micros: int = 0, *, key: bytes | None = None
) -> bytes:
    """One frame with a tag by `key`: zeros for the first, which tells the key of all others."""
    content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    head = b"\xf5OHF" + kind.encode() + bytes(3) + len(content).to_bytes(4, "little")
    head += number.to_bytes(4, "little") + micros.to_bytes(8, "little")
    key = key or (bytes(32) if kind == "H" else KEY)
    return head + hashlib.sha256(key + head + content).digest()[:8] + content


def conversation(*outputs: tuple[str, bytes], **end: object) -> list[bytes]:
    """All frames of a run that printed `outputs`, each with its stream ("o" or "e")."""
    words: list[tuple[str, bytes | Mapping[str, object]]] = [
        ("H", {"agent": 3, "arch": "arm64", "pid": 41, "adopts_orphans": True, "key": KEY.hex()}),
        ("S", {"pid": 42}),
        *outputs,
    ]
    counts = {
        f"{name}_bytes": sum(len(text) for stream, text in outputs if stream == letter)
        for name, letter in (("stdout", "o"), ("stderr", "e"))
    }
    words.append(("X", {**END, **counts, **end}))
    return [frame(kind, payload, number, 1000 * number) for number, (kind, payload) in enumerate(words)]
