"""Whether weights stay in memory, as labels of drawings say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.regime import regime_of_bench, regime_of_server
from bench.series import FILE
from tests.shared.bench_records import write_bench_record

STORAGE = {"name": "storage", "sentence": "8.5 GB were read from storage in a repetition"}


@pytest.mark.parametrize(
    ("flagged", "configuration", "regime"),
    [
        (None, "m, 1 thread", "in RAM"),
        ("m, 1 thread", "m, 1 thread", "storage-bound"),
        ("m, 2 threads", "m, 1 thread", "in RAM"),
        ("", "m, 1 thread", "storage-bound"),
    ],
)
def test_a_bench_is_bound_by_storage_where_its_flag_says_so(
    tmp_path: Path, flagged: str | None, configuration: str, regime: str
) -> None:
    flags = [] if flagged is None else [{**STORAGE, "configuration": flagged}]
    folder = write_bench_record(tmp_path, models=("m",), threads=(1, 2), flags=flags)
    assert regime_of_bench(folder, configuration) == regime


def test_of_a_bench_whose_board_does_not_tell_what_it_reads_the_regime_is_not_known(tmp_path: Path) -> None:
    folder = write_bench_record(tmp_path, models=("m",), threads=(1,))
    samples = (folder / FILE).read_text().replace('"read_bytes": 0', '"read_bytes": null')
    (folder / FILE).write_text(samples)
    assert regime_of_bench(folder, "m, 1 thread") == "regime not known"


@pytest.mark.parametrize(
    ("size", "read", "draft", "regime"),
    [
        # The study's small file, of which a board with 2 GB read nearly all again for each of 128 tokens.
        (3_171_313_440, 3_171_313_440 + 128 * 2_998_919_424, "", "storage-bound"),
        (3_171_313_440, 3_171_313_440, "", "in RAM"),
        (3_171_313_440, 0, "", "in RAM"),  # It was in the page cache before.
        (3_171_313_440, None, "", "regime not known"),
        (None, 0, "", "regime not known"),
        (3_171_313_440, 3_171_313_440, "small.gguf", "regime not known"),
    ],
)
def test_a_server_is_bound_by_storage_when_it_reads_its_file_again_and_again(
    size: int | None, read: int | None, draft: str, regime: str
) -> None:
    content: dict[str, Any] = {
        "model": {"size": size},
        "results": [{"generated": 128}],
        "used": {"read_bytes": read},
        "plan": {"settings": {"draft": draft} if draft else {}},
    }
    assert regime_of_server(content) == regime
