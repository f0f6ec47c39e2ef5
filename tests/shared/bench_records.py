"""Records of benches that were never run: of a board that throttles, with as many samples as a test wants."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

BEGAN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
SPEEDS = {"prefill": 11.0, "decode": 3.4}
"""Tokens per second of one thread."""
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def write_bench_record(
    runs: Path,
    *,
    models: Sequence[str] = ("smollm2",),
    threads: Sequence[int] = (1, 2, 4),
    rounds: int = 10,
    emulated: bool = False,
    serial: str = "150100424a544434520325874ab1ea00",
    speed: float = 1.0,
    hottest: float | None = 46.0,
    short_id: str = "0a1b",
    size: int = 98362432,
    **changes: Any,
) -> Path:
    """The record of a bench with `rounds` of each configuration, in a folder below `runs`. `changes` are keys of its."""
    folder = runs / f"20260301T120000Z-bench-llama-dayu200-{short_id}"
    folder.mkdir(parents=True)
    samples = list(_samples(models, threads, rounds, speed, hottest))
    ended = max([sample["at"] for sample in samples], default=_time(0))
    content = {
        "schema": 1,
        "kind": "bench",
        "id": folder.name,
        "state": "done",
        "ohforge": "0.1.0",
        "times": {"clock": "host", "started": _time(0), "ended": ended},
        "engine": "llama 0.5.0-dev",
        "program": {
            "name": "llama-bench",
            "sha256": "b448299e3e12e6cd01739085543219afff26117904662ae4ddce0cacd7d0412b",
            "artifact": {
                "program": "llama",
                "version": "0.5.0-dev",
                "arch": "arm64",
                "key": "7dc775c84d62",
                "toolchain": "zig",
                "toolchain_id": "f2c889cfe566221c62e22f54ac012e2d490af8b7bcf947cbf279dd9e2db85f78",
                "cpu": "cortex-a55",
            },
        },
        "models": [{"name": name, "kind": "gguf", "sha256": SHA256, "size": size} for name in models],
        "board": {
            "serial": serial,
            "profile": "dayu200",
            "title": "HiHope DAYU200 (RK3568), 32-bit system",
            "emulated": emulated,
            "facts": {
                "machine": "aarch64",
                "kernel": "5.10.184 #1 SMP Thu Jan 1 00:00:00 UTC 2026",
                "arches": ["arm32", "arm64"],
                "cores": 4,
                "cpu_features": ["fp", "asimd", "asimddp"],
                "cpuinfo": "CPU part\t: 0xd05",
                "memory_bytes": 2030047232,
                "memory_available_bytes": 1342177280,
                "hash_tool": "sha256sum",
                "parameters": {"const.ohos.fullname": "OpenHarmony-5.0.3.135", "const.ohos.apiversion": "15"},
            },
        },
        "link": {"kind": "hdc", "program": "hdc", "version": "3.1.0e"},
        "run_engine": {"name": "agent", "reason": "it runs on the board"},
        "plan": {
            "threads": list(threads),
            "n_prompt": 128,
            "n_gen": 32,
            "repetitions": {"least": max(rounds, 1), "most": max(rounds, 1), "within": None},
            "seed": 1,
            "at_most": 7200.0,
        },
        "forecast_seconds": [1200.0, 1200.0],
        "conditions": {"before": _conditions(hottest), "after": _conditions(hottest)},
        "series": {"file": "samples.jsonl", "count": len(samples)},
        "results": list(_results(models, threads, samples)),
        "rounds": rounds,
        "ended_because": "repetitions",
        "valid": True,
        "flags": [],
        "notes": [],
        "error": None,
        **changes,
    }
    (folder / "record.json").write_text(json.dumps(content, indent=2) + "\n")
    (folder / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return folder


def foreseen(*models: str, rate: str = "6200 MB/s of the board's profile") -> dict[str, Any]:
    """What a record keeps of how models fit: the sizes of SmolLM2, as llama.cpp logs them."""
    sizes = {"weights": 96571392, "kv": 11796480, "compute": 103022592, "output": 196608, "repack": 30081024}
    said = {
        "verdict": "fits",
        "seconds_per_token": 0.0156,
        "bound_by": "memory",
        "context": 256,
        "ubatch": 512,
        "kv_type": "f16",
        "repack": True,
        "bytes": {**sizes, "process": 18 << 20, "read_per_token": 96571392},
        "rate": rate,
    }
    return {
        "available": 1342177280,
        "usable": 1207959552,
        "total": 2030047232,
        "rates": {"memory": 6.2e9, "storage": 161.6e6, "measured": None},
        "models": [{"model": model, **said} for model in models],
    }


def _samples(
    models: Sequence[str], threads: Sequence[int], rounds: int, speed: float, hottest: float | None
) -> Iterator[dict[str, Any]]:
    chance = random.Random(7)
    position, seconds = 0, 0.0
    for number in range(rounds + 1):
        for place, model in enumerate(models):
            for count in threads:
                seconds += 9.0
                for test, tokens in (("prefill", 128), ("decode", 32)):
                    position += 1
                    rate = speed * SPEEDS[test] * count**0.8 / (1 + 0.6 * place) * chance.gauss(1, 0.012)
                    yield {
                        "position": position,
                        "round": number,
                        "model": model,
                        "threads": count,
                        "test": test,
                        "tokens": tokens,
                        "seconds": tokens / rate,
                        "tokens_per_second": rate,
                        "at": _time(seconds),
                        "run": f"20260301T120000Z-llama-bench-dayu200-{position:04x}",
                        "peak_bytes": 176951296,
                        "major_faults": 0,
                        "read_bytes": 0,
                        "cpu_seconds": 5.4,
                        "cpu_hz": {"cpu0": 1992000000.0, "cpu1": 1992000000.0} if hottest is not None else None,
                        "hottest": hottest and round(hottest + 12 * number / (rounds + 4) + chance.random(), 2),
                    }


def _results(
    models: Sequence[str], threads: Sequence[int], samples: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    for model in models:
        for count in threads:
            for test, tokens in (("prefill", 128), ("decode", 32)):
                key = (model, count, test)
                speeds = sorted(
                    sample["tokens_per_second"]
                    for sample in samples
                    if sample["round"] and (sample["model"], sample["threads"], sample["test"]) == key
                )
                if not speeds:
                    continue
                enough, many = len(speeds) >= 6, len(speeds) > 1
                twentieths = statistics.quantiles(speeds, n=20, method="inclusive") if many else speeds
                yield {
                    "configuration": f"{model}, {count} thread{'s' if count > 1 else ''}",
                    "model": model,
                    "threads": count,
                    "test": test,
                    "tokens": tokens,
                    "median": statistics.median(speeds),
                    "low": speeds[1] if enough else None,
                    "high": speeds[-2] if enough else None,
                    "p5": twentieths[0],
                    "p95": twentieths[-1],
                    "cv": statistics.stdev(speeds) / statistics.mean(speeds) if many else None,
                    "n": len(speeds),
                    "unit": "tokens/s",
                }


def _conditions(hottest: float | None) -> dict[str, Any]:
    return {
        "policies": [
            {
                "name": "policy0",
                "cpus": "0 1 2 3",
                "governor": "performance",
                "current_hz": 1992000000,
                "lowest_hz": 408000000,
                "highest_hz": 1992000000,
                "hardware_lowest_hz": 408000000,
                "hardware_highest_hz": 1992000000,
            }
        ],
        "temperatures": {"soc-thermal (thermal_zone0)": hottest} if hottest is not None else {},
        "cooling": {},
        "other_clocks": {},
        "online_cpus": "0-3",
        "load": [0.1, 0.2, 0.3],
        "uptime": 1000.0,
        "cpu_busy": 500.0,
        "memory_bytes": 2030047232,
        "available_bytes": 1342177280,
        "swap_bytes": 0,
        "swap_free_bytes": 0,
        "swapped_in": 0,
        "swapped_out": 0,
        "major_faults": 10,
    }


def _time(seconds: float) -> str:
    return (BEGAN + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def add_completions(record: Path, *, tokens: int = 32, count: int = 3, slow_from: int = 0) -> dict[str, Any]:
    """Completions as `bench.llama --completions` leaves them, in the record's folder; returns what its record would say.

    Each token takes 0.25 s, from token `slow_from` on 0.5 s; the board's samples, one a second, begin 4 s before the request.
    """
    lines = []
    for number in range(count + 1):
        run = f"20260301T120100Z-llama-server-dayu200-{number:04x}"
        seconds = [0.5 if slow_from and place >= slow_from else 0.25 for place in range(2, tokens + 1)]
        arrivals = [1.5 + sum(seconds[:place]) for place in range(tokens)]
        lines.append(
            {
                "position": number + 1,
                "round": number,
                "model": "smollm2",
                "threads": 4,
                "load_seconds": 4.0,
                "ttft_seconds": 1.5,
                "arrivals": arrivals,
                "token_seconds": seconds,
                "at": _time(100 + number),
                "run": run,
            }
        )
        samples = [
            {
                "seconds": float(second),
                "temperatures": {"soc-thermal": 40.0 + second, "gpu-thermal": 39.0, "broken": None},
                "cpu_frequencies": {"cpu0": 1416000000 if second > 8 else 1992000000, "cpu1": 408000000},
            }
            for second in range(60)
        ]
        (record / "runs" / run).mkdir(parents=True)
        (record / "runs" / run / "samples.jsonl").write_text("".join(json.dumps(each) + "\n" for each in samples))
    (record / "completions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = {"configuration": "smollm2, 4 threads", "model": "smollm2", "threads": 4, "cv": None, "n": count}
    known = {"low": None, "high": None}
    return {
        "state": "done",
        "file": "completions.jsonl",
        "count": len(lines),
        "asked": count,
        "prompt_tokens": 128,
        "tokens": tokens,
        "results": [
            {**result, **known, "metric": "ttft", "median": 1.5, "p5": 1.5, "p95": 1.5, "unit": "s"},
            {**result, **known, "metric": "peak_memory", "median": 176951296.0, "p5": 1.0, "p95": 2e8, "unit": "bytes"},
        ],
    }
