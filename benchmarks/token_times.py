"""Times of tokens by the server's own clock against the moments at which they arrived here, through the forwarded port.

Without a record a bench of smollm2 on the emulated board is made first (some minutes): its times are EMULATED, but what
lies between the two clocks, the link and our client, is what a board has too.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.completion import read_completions
from bench.llama import measure_llama
from bench.plan import read_repetitions
from bench.record import read_bench
from bench.request import BenchRequest
from core.console import Console
from core.process import RealRunner
from core.session import Session

FIRST = 3
"""Tokens after which the way through link and client is as it stays."""


def make_record() -> Path:
    request = BenchRequest(
        models=("smollm2",),
        board="dayu200",
        threads=(1,),
        n_prompt=8,
        n_gen=32,
        repetitions=read_repetitions("1"),
        seed=1,
        at_most=7200.0,
        completions=2,
    )
    return measure_llama(Session(console=Console(), runner=RealRunner()), request).record


def differences(record: Path) -> Iterator[tuple[float, float]]:
    """Of each token but the first ones, seconds: by the server's clock, and how much later or earlier it arrived than that."""
    for completion in read_completions(record):
        gaps = [later - earlier for earlier, later in itertools.pairwise(completion.arrivals)]
        for told, gap in list(zip(completion.token_seconds, gaps, strict=True))[FIRST:]:
            yield told, gap - told


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", type=Path, help="of a bench with completions")
    record = parser.parse_args().record or make_record()
    found = list(differences(record))
    if not found:
        sys.exit(f"{record} has no completions of more than {FIRST + 1} tokens.")
    apart = sorted(abs(difference) for _, difference in found)
    token = statistics.median(told for told, _ in found)
    emulated = " (EMULATED)" if read_bench(record)["board"]["emulated"] else ""
    print(f"{len(found)} tokens, median {1000 * token:.1f} ms by the server's clock{emulated} (baseline)")
    for title, value in (
        ("median", statistics.median(apart)),
        ("95th percentile", apart[int(0.95 * len(apart))]),
        ("most", apart[-1]),
    ):
        print(f"  arrivals differ, {title:16} {1000 * value:8.2f} ms, {value / token:.2%} of a token")


if __name__ == "__main__":
    main()
