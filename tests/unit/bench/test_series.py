"""What llama-bench prints, and how samples are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.llama import read_timings
from bench.series import FILE, Timing, read_series
from core.errors import InvalidData, RunError
from core.session import PROJECT

RECORDED = (PROJECT / "tests/data/llama_bench.jsonl").read_text()
"""Of the pinned llama-bench for arm64 under qemu, with ``-p 16 -n 4 -r 1 -t 2 -o jsonl`` and SmolLM2 135M."""


def test_recorded_output_gives_both_tests_with_the_speeds_that_llama_bench_works_out_itself() -> None:
    timings = read_timings(RECORDED)
    assert timings == [
        Timing(test="prefill", tokens=16, seconds=12.518902343),
        Timing(test="decode", tokens=4, seconds=7.671048026),
    ]
    own = [json.loads(line)["avg_ts"] for line in RECORDED.splitlines()]
    assert [timing.per_second for timing in timings] == pytest.approx(own, rel=1e-5)


def test_lines_of_the_log_between_the_measurements_are_left_alone() -> None:
    noisy = "warning: no GPU\n" + RECORDED.replace("\n", "\nllama_model_loader: x\n")
    assert read_timings(noisy) == read_timings(RECORDED)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "error: unknown argument",
        RECORDED[:700],
        '{"n_prompt": 16, "n_gen": 0}',
        '{"n_prompt": 16, "n_gen": 0, "samples_ns": []}',
        '{"n_prompt": 16, "n_gen": 0, "samples_ns": [0]}',
        '{"n_prompt": 16, "n_gen": 4, "samples_ns": [5]}',
        '{"n_prompt": null, "n_gen": 4, "samples_ns": [5]}',
    ],
)
def test_output_without_a_whole_measurement_is_an_error_and_never_a_number(output: str) -> None:
    with pytest.raises(RunError):
        read_timings(output)


@pytest.mark.parametrize("content", ["{", "[]", '{"position": 1}', '{"unknown": 1}'])
def test_a_samples_file_that_is_cut_short_or_foreign_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(InvalidData, match=r"samples\.jsonl cannot be read"):
        read_series(tmp_path)
