"""Whether a model fits a board: the verdicts, the largest context, and the forecast against what a study measured."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.fit import (
    FITS,
    STORAGE_BOUND,
    TOO_LARGE,
    BoardLimits,
    find_choices,
    find_largest_context,
    find_quantisations,
    judge,
    judge_best,
)
from deploy.board.profiles import load_profile
from native.formats.gguf import GgufInfo
from native.models.llama_memory import LlamaSettings
from tests.unit.native.models.test_llama_memory import Q2_K, llama_1b, llama_8b, read_shapes, smollm2

MIB = 1 << 20
DAYU200 = load_profile("dayu200")
BOARD = BoardLimits(available=1280 * MIB, memory_rate=DAYU200.memory_rate, storage_rate=DAYU200.storage_rate)
"""With what its system leaves of the 2 GB."""


@pytest.fixture(scope="module")
def q2_k(tmp_path_factory: pytest.TempPathFactory) -> GgufInfo:
    return read_shapes(tmp_path_factory.mktemp("q2"), llama_8b(Q2_K))


@pytest.fixture(scope="module")
def q8_0(tmp_path_factory: pytest.TempPathFactory) -> GgufInfo:
    return read_shapes(tmp_path_factory.mktemp("q8"), llama_8b({"": "Q8_0"}))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> GgufInfo:
    return read_shapes(tmp_path_factory.mktemp("small"), llama_1b())


@pytest.mark.parametrize("rearranged", ["", "dotprod"])
@pytest.mark.parametrize(("model", "forecast", "measured"), [("q2_k", 18.6, 18.18), ("q8_0", 49.4, 49.73)])
def test_the_study_of_an_8b_on_a_dayu200_is_forecast_from_its_storage(
    request: pytest.FixtureRequest, model: str, forecast: float, measured: float, rearranged: str
) -> None:
    fit = judge_best(request.getfixturevalue(model), BOARD, LlamaSettings(rearranged=rearranged))
    assert (fit.verdict, fit.bound_by) == (STORAGE_BOUND, "storage")
    assert fit.seconds_per_token == pytest.approx(forecast, rel=0.005)
    assert fit.seconds_per_token == pytest.approx(measured, rel=0.05)
    assert fit.settings.rearranged == ""


def test_copies_of_weights_that_do_not_fit_are_left_out_and_only_then(q8_0: GgufInfo, small: GgufInfo) -> None:
    with_copies = LlamaSettings(rearranged="dotprod")
    assert judge(q8_0, BOARD, with_copies).verdict == TOO_LARGE
    # 728 MiB of weights, as many copied: both do not fit into 90 % of 1280 MiB, the weights alone do.
    assert judge(small, BOARD, with_copies).verdict == STORAGE_BOUND
    assert (judge_best(small, BOARD, with_copies).verdict, judge_best(small, BOARD, with_copies).need.repack) == (
        FITS,
        0,
    )
    roomy = dataclasses.replace(BOARD, available=4096 * MIB)
    assert judge_best(small, roomy, with_copies).need.repack / MIB == pytest.approx(727.49, abs=0.1)


def test_in_memory_the_forecast_is_that_of_the_memory(small: GgufInfo) -> None:
    fit = judge(small, BOARD, LlamaSettings())
    # by hand: 727.75 MiB with the table of tokens, which is the output too, at 6.2 GB/s
    assert (fit.verdict, fit.bound_by) == (FITS, "memory")
    assert fit.seconds_per_token == pytest.approx(727.75 * MIB / 6.2e9, rel=0.001)


def test_a_cache_that_is_larger_than_the_memory_does_not_fit(q2_k: GgufInfo) -> None:
    # 16 GiB of keys and values at the context that it was trained with
    fit = judge_best(q2_k, BOARD, LlamaSettings(context=131_072))
    assert (fit.verdict, fit.seconds_per_token, fit.bound_by) == (TOO_LARGE, None, "")


def test_a_board_whose_rates_are_not_known_gets_a_verdict_and_no_forecast(q2_k: GgufInfo) -> None:
    unknown = BoardLimits(available=1280 * MIB, memory_rate=0.0, storage_rate=0.0)
    fit = judge_best(q2_k, unknown, LlamaSettings())
    assert (fit.verdict, fit.seconds_per_token) == (STORAGE_BOUND, None)


@pytest.mark.parametrize("model", ["q2_k", "small"])
@pytest.mark.parametrize("available", [400, 900, 1280, 6000])
def test_the_largest_context_fits_and_the_next_does_not(
    request: pytest.FixtureRequest, model: str, available: int
) -> None:
    info, limits = request.getfixturevalue(model), dataclasses.replace(BOARD, available=available * MIB)
    settings = LlamaSettings(ubatch=64, rearranged="dotprod")

    def verdict(context: int) -> str:
        return judge_best(info, limits, dataclasses.replace(settings, context=context)).verdict

    largest = find_largest_context(info, limits, settings)
    if not largest:
        assert verdict(256) == TOO_LARGE
        return
    assert verdict(largest) == verdict(256) != TOO_LARGE
    assert largest == 131_072 or verdict(largest + 256) != verdict(256)


def test_what_would_help_says_what_each_change_saves(small: GgufInfo) -> None:
    choices = {choice.title: choice for choice in find_choices(small, BOARD, LlamaSettings(rearranged="dotprod"))}
    assert list(choices) == ["as asked", "ubatch 64", "--no-repack", "KV q8_0", "all of these"]
    asked = choices["as asked"].fit.need.held / MIB
    saved = {title: asked - choice.fit.need.held / MIB for title, choice in choices.items()}
    # logged: 258.50 MiB of buffers with 512 tokens at once, so an eighth with 64; copies of 727.49;
    # keys and values of 512 tokens are 16 MiB, with q8_0 34 instead of 64 bytes for 32 numbers
    assert saved["ubatch 64"] == pytest.approx(258.5 * 7 / 8, abs=0.1)
    assert saved["--no-repack"] == pytest.approx(727.49, abs=0.1)
    assert saved["KV q8_0"] == pytest.approx(16 * (1 - 34 / 64), abs=0.1)
    assert saved["all of these"] == pytest.approx(258.5 * 7 / 8 + 727.49 + 16 * (1 - 34 / 64), abs=0.1)
    assert choices["all of these"].fit.verdict == FITS


def test_other_quantisations_of_an_8b_are_estimated_near_what_llama_quantize_makes(q8_0: GgufInfo) -> None:
    sizes = {c.title: c.fit.need.weights / MIB for c in find_quantisations(q8_0, BOARD, LlamaSettings())}
    # as `llama-quantize --dry-run` tells them of the same shapes
    made = {"Q2_K": 3024.38, "Q3_K_M": 3825.27, "Q4_0": 4437.80, "Q4_K_M": 4685.30, "Q5_K_M": 5459.93, "Q6_K": 6282.97}
    assert {name: sizes[name] for name in made} == pytest.approx(made, rel=0.01)
    roomy = dataclasses.replace(BOARD, available=4096 * MIB)
    verdicts = {c.title: c.fit.verdict for c in find_quantisations(q8_0, roomy, LlamaSettings(ubatch=64))}
    assert (verdicts["Q8_0"], verdicts["Q2_K"]) == (STORAGE_BOUND, FITS)


def test_a_model_of_a_few_megabytes_fits(tmp_path: Path) -> None:
    assert judge_best(read_shapes(tmp_path, smollm2()), BOARD, LlamaSettings()).verdict == FITS
