"""The program nnrt in both styles, with no device and with one; and what it wants of a board's libraries."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from native.programs import PROGRAMS
from native.recipe.exit_status import explain_exit
from tests.shared.reference_runtime import compile_with
from tests.support.nnrt_runtime import build_nnrt, host_compilers, program_sources
from tests.support.sdk_symbols import NNRT_IMPORTS, imported_functions, nnrt_functions

EXAMPLE = PROGRAMS / "nnrt" / "examples" / "conv_relu_softmax.json"
VALUE = re.compile(r"^Output index: (\d+), value is: ([-\d.e+]+)\.$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Ran:
    status: int
    stdout: str
    stderr: str

    @property
    def values(self) -> list[float]:
        return [float(value) for _, value in VALUE.findall(self.stdout)]


Run = Callable[..., Ran]


@pytest.fixture(scope="module", params=[9, 12], ids=["api9", "api12"])
def level(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def program(level: int, shared_cache: Path) -> Path:
    return build_nnrt(shared_cache, level)


@pytest.fixture
def nnrt(program: Path, tmp_path: Path) -> Run:
    def run(*words: str | Path, devices: int = 1, **environment: str) -> Ran:
        done = subprocess.run(
            [program, *map(str, words)],
            cwd=tmp_path,
            env={**os.environ, "OHFORGE_NNRT_DEVICES": str(devices), **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Ran(status=done.returncode, stdout=done.stdout, stderr=done.stderr)

    return run


def test_without_a_device_it_says_so_and_has_a_status_of_its_own(nnrt: Run) -> None:
    for words in ((), ("--list",)):
        ran = nnrt(*words, devices=0)
        assert (ran.status, ran.stdout.splitlines()[-1]) == (69, "No available device.")
    assert "no device" in explain_exit("nnrt", ran.status, ran.stdout).sentence


def test_with_a_device_it_gives_the_sums_of_the_guides(nnrt: Run, level: int) -> None:
    ran = nnrt()
    assert ran.status == 0, ran.stdout
    assert ran.values == list(range(11, 35, 2))
    assert [int(index) for index, _ in VALUE.findall(ran.stdout)] == list(range(12))
    assert f"style: API {9 if level < 11 else 11}, api level: {level}\n" in ran.stdout
    assert "check: 12 values, largest difference 0, limit 1e-05: good" in ran.stdout
    assert ran.stdout.endswith("result: complete\n")


def test_the_reference_runtime_is_named(nnrt: Run) -> None:
    ran = nnrt()
    assert "engine: ohforge reference runtime" in ran.stdout
    assert "REFERENCE RUNTIME: this is not a board's NNRt" in ran.stdout


def test_a_described_network_is_built_run_and_checked(nnrt: Run) -> None:
    ran = nnrt("--net", EXAMPLE, "--values", 36)
    assert ran.status == 0, ran.stdout
    assert "operations: 3, of which the device takes 3" in ran.stdout
    assert "output 0: probabilities 1x3x3x4" in ran.stdout
    assert sum(ran.values) == pytest.approx(9, abs=1e-4)
    assert re.search(r"^check: 36 values, .*: good$", ran.stdout, re.MULTILINE)


def test_every_kind_of_layer_agrees_with_the_programs_own_numbers(nnrt: Run, tmp_path: Path) -> None:
    layers: list[dict[str, Any]] = [
        {"op": "conv2d", "input": "x", "weights": {"shape": [5, 3, 2, 3]}, "activation": "relu6"},
        {"op": "max_pool", "input": "conv2d", "kernel": [3, 3], "strides": [2, 2], "padding": "same"},
        {"op": "avg_pool", "input": "max_pool", "kernel": [2, 2], "padding": "valid", "activation": "relu"},
        {"op": "mul", "input": "avg_pool", "other": {"shape": [5], "seed": 5}},
        {"op": "sub", "input": "mul", "other": {"shape": [1], "values": [0.25]}},
        {"op": "div", "input": "sub", "other": {"shape": [1], "values": [0.5]}, "activation": "relu"},
        {"op": "add", "input": "div", "other": "avg_pool"},
        {"op": "sigmoid", "input": "add"},
        {"op": "tanh", "input": "sigmoid"},
        {"op": "relu6", "input": "tanh"},
        {"op": "softmax", "input": "relu6", "axis": 2},
        {"op": "full_connection", "input": "rows", "weights": {"shape": [4, 6], "seed": 9}},
    ]
    for layer in layers:
        layer["name"] = layer["op"]
        if "weights" in layer:
            layer["bias"] = {"shape": [layer["weights"]["shape"][0]], "seed": 3}
    inputs = [{"name": "x", "shape": [2, 9, 8, 3]}, {"name": "rows", "shape": [3, 6], "seed": 2}]
    names = [layer["name"] for layer in layers]
    (tmp_path / "net.json").write_text(json.dumps({"inputs": inputs, "layers": layers, "outputs": names}))
    ran = nnrt("--net", "net.json", "--loops", 2, "--values", 0)
    assert ran.status == 0, ran.stdout + ran.stderr
    assert f"operations: {len(layers)}" in ran.stdout
    assert len(re.findall(r"^output \d+: ", ran.stdout, re.MULTILINE)) == len(layers)


def test_options_reach_the_device(nnrt: Run, level: int, tmp_path: Path) -> None:
    able = {"OHFORGE_NNRT_CAPABILITIES": "fp16,performance,priority,cache"}
    words = ("--fp16", "--performance", "extreme", "--priority", "low", "--cache", tmp_path)
    ran = nnrt(*words, **able)
    assert ran.status == 0, ran.stdout
    assert "fp16 was asked for" in ran.stderr
    assert (tmp_path / "cache_info.nncache").is_file()
    refused = nnrt("--priority", "high")
    function = "OH_NNCompilation_SetPriority" if level < 11 else "OH_NNCompilation_Build"
    assert f"{function} failed, ret: 4 (OPERATION_FORBIDDEN).\n" in refused.stdout
    assert refused.status == 104
    explained = explain_exit("nnrt", refused.status, refused.stdout)
    assert (explained.name, explained.function) == ("OPERATION_FORBIDDEN", function)


def test_a_device_is_chosen_by_name_or_number(nnrt: Run) -> None:
    names = re.findall(r"^device \d+: (\S+) \(", nnrt("--list", devices=2).stdout, re.MULTILINE)
    for wanted in (names[1], "1"):
        assert f"device used: {names[1]}\n" in nnrt("--device", wanted, devices=2).stdout
    for wanted in ("2", "-1", "no such"):
        ran = nnrt("--device", wanted, devices=2)
        assert (ran.status, "not available" in ran.stdout) == (69, True)


def test_an_operation_that_the_device_refuses_ends_with_nnrts_code(nnrt: Run) -> None:
    ran = nnrt(OHFORGE_NNRT_UNSUPPORTED="1")
    assert ran.status == 101
    assert "(FAILED)." in ran.stdout


def layer(**changes: Any) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "shape": [1, 4, 4, 2]}], "layers": [{"name": "y", **changes}], "outputs": ["y"]}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not a value"),
        ("[1, 2]", "must be an object"),
        ('{"inputs": [}', "line 1: not a value"),
        ('{"inputs": [],\n "layers": [] "outputs": []}', "line 2: a closing brace is missing"),
        ('{"inputs": [], "inputs": []}', "a key is there twice"),
        ('{"inputs": [], "layers": [], "outputs": []}', "there must be inputs"),
        ('{"layers": []}', "lacks inputs"),
        ("[" * 100, "nested too deeply"),
        ('{"inputs": 3}', "inputs of the description must be a list"),
        ('{"x": "\\u0041"}', "an escape"),
        (layer(op="relu"), "y lacks input"),
        (layer(op="rleu", input="x"), "unknown op rleu"),
        (layer(op="relu", input="z"), "is called 'z'"),
        (layer(op="add", input="x", other={"shape": [3]}), "do not fit together"),
        (layer(op="add", input="x", other={"shape": [2], "values": [1]}), "not as many values"),
        (layer(op="add", input="x", other={"shape": [0]}), "wrong shape"),
        (layer(op="add", input="x", other={"shape": [1.5]}), "wrong shape"),
        (layer(op="add", input="x", other={"shape": [1048576, 1048576]}), "too large"),
        (layer(op="conv2d", input="x", weights={"shape": [1, 3, 3, 1]}, bias={"shape": [1]}), "do not fit together"),
        (layer(op="max_pool", input="x", kernel=[5, 5], padding="valid"), "larger than the input"),
        (layer(op="max_pool", input="x", kernel=[0, 5]), "two numbers from 1 on"),
        (layer(op="avg_pool", input="x", padding="reflect"), "same or valid"),
        (layer(op="add", input="x", other="x", activation="gelu"), "unknown activation"),
        (layer(op="full_connection", input="x", weights={"shape": [1, 2]}, bias={"shape": [1]}), "do not fit together"),
    ],
)
def test_a_wrong_description_is_refused_with_its_place(
    nnrt: Run, tmp_path: Path, text: str | dict[str, Any], complaint: str
) -> None:
    (tmp_path / "net.json").write_text(text if isinstance(text, str) else json.dumps(text))
    ran = nnrt("--net", "net.json")
    assert ran.status == 66, ran.stdout
    assert complaint in ran.stderr


def test_a_missing_description_is_refused(nnrt: Run) -> None:
    ran = nnrt("--net", "nowhere.json")
    assert (ran.status, "cannot be opened" in ran.stderr) == (66, True)


def test_yaml_that_nobody_made_json_of_is_named_as_such(nnrt: Run, tmp_path: Path) -> None:
    for name in ("net.yaml", "net.yml"):
        (tmp_path / name).write_text(EXAMPLE.with_suffix(".yaml").read_text())
        ran = nnrt("--net", name)
        assert (ran.status, "only JSON is read here" in ran.stderr) == (66, True)
    assert "JSON only" in nnrt("--help").stdout


@pytest.mark.parametrize("words", [["--loops", "0"], ["--priority", "extreme"], ["--nett", "x"], ["--net"], ["add"]])
def test_options_that_make_no_sense_are_refused(nnrt: Run, words: list[str]) -> None:
    assert nnrt(*words).status == 64


def test_the_program_imports_what_its_api_level_has_and_nothing_else(level: int, shared_cache: Path) -> None:
    _, cxx = host_compilers()
    flags = ["-std=c++17", "-r", f"-DOHFORGE_API_LEVEL={level}"]
    whole = compile_with(cxx, shared_cache, f"nnrt-{level}.o", program_sources(level), flags)
    assert imported_functions(whole) == NNRT_IMPORTS[level] <= nnrt_functions(level)
