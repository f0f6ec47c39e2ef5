"""Flags that recipes bring: which kind of model takes which, and what each one means."""

from __future__ import annotations

import pytest

from core.errors import UnknownName, UsageError
from native.recipe.flags import Flag, split_given
from native.recipe.recipe import load_recipe, read_flags

FLAGS = (
    Flag(name="loops", kind="number", parameter="loops", help="-"),
    Flag(name="affinity", choices=("none", "big"), parameter="affinity", help="-"),
    Flag(name="fp16", kind="switch", parameter="half", value="on", help="-"),
    Flag(name="input", kind="list", role="inputs", help="-"),
    Flag(name="labels", role="labels", help="-"),
)


def test_what_was_given_is_a_parameter_or_has_a_role() -> None:
    given = {"loops": 3, "fp16": True, "input": ["a.npy", "b.npy"], "labels": "names.txt"}
    parameters, roles = split_given(FLAGS, given, "a .ms model")
    assert parameters == {"loops": 3, "half": "on"}
    assert roles == {"inputs": ["a.npy", "b.npy"], "labels": ["names.txt"]}


def test_a_flag_of_another_kind_of_model_is_refused_with_the_own_ones() -> None:
    with pytest.raises(UnknownName, match=r"--prompt is not for a \.ms model") as caught:
        split_given(FLAGS, {"prompt": "x"}, "a .ms model")
    assert "--loops, --affinity, --fp16, --input, --labels" in caught.value.remedy


def test_a_value_that_is_none_of_the_choices_is_refused() -> None:
    with pytest.raises(UsageError, match="none, big"):
        split_given(FLAGS, {"affinity": "small"}, "a .ms model")


def test_the_recipes_bring_the_flags_that_users_know() -> None:
    found = {whose: {flag.name for flag in flags} for whose, flags in read_flags().items()}
    assert found["a .gguf model"] == {"prompt", "tokens", "threads"}
    assert found["--program nnrt"] == {"net"}
    assert {"input", "labels", "loops", "warmup", "affinity", "fp16", "device", "top"} <= found["a .ms model"]


def test_what_is_read_quickly_is_what_the_checked_recipe_says() -> None:
    flags = read_flags()
    for name in ("llama", "mslite"):
        for spec in load_recipe(name).run:
            assert flags[f"a .{spec.model} model"] == spec.flags
