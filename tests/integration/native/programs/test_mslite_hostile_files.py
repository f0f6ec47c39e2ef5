"""Files that are not what they say: the reference runtime refuses them with a status, and never goes astray."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from core.session import PROJECT
from tests.shared import ms_ops as ops
from tests.shared.ms_models import add_softmax, mobilenet_v2
from tests.shared.ms_writer import ModelWriter, Table, i32
from tests.shared.reference_runtime import (
    BuildRefused,
    ReferenceModel,
    compile_with,
    compiler_with_sanitizers,
    load_library,
    mslite_sources,
)
from tests.support.ms_cases import CASES

COMMON_ERROR = -1
ROUNDS = 6000
ZIG = (sys.executable, "-m", "ziglang", "cc")


@pytest.fixture(scope="module")
def runtime(shared_cache: Path) -> ctypes.CDLL:
    return load_library(shared_cache)


def refused(runtime: ctypes.CDLL, content: bytes, capfd: pytest.CaptureFixture[str]) -> str:
    """Why the runtime refuses the file; it must do so with the engine's common error."""
    with pytest.raises(BuildRefused) as caught:
        ReferenceModel(runtime, content)
    assert caught.value.args == (COMMON_ERROR,)
    return capfd.readouterr().err


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "only 0 bytes"),
        (b"MSL2", "only 4 bytes"),
        (b"\x08\0\0\0XXXX" + bytes(100), "identifier MSL2 is missing"),
        (b"\x08\x07\x12\x07pytorch" + bytes(100), "identifier MSL2 is missing"),
        (b"\xff\xff\xff\xffMSL2" + bytes(100), "missing"),
    ],
    ids=["empty", "four bytes", "other identifier", "ONNX", "offset into nowhere"],
)
def test_what_is_no_model_is_refused(
    runtime: ctypes.CDLL, content: bytes, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert reason in refused(runtime, content, capfd)


def test_a_model_cut_anywhere_is_refused(runtime: ctypes.CDLL) -> None:
    whole = add_softmax().to_bytes()
    for length in range(len(whole)):
        with pytest.raises(BuildRefused) as caught:
            ReferenceModel(runtime, whole[:length])
        assert caught.value.args == (COMMON_ERROR,)


def changed(kind: str) -> ModelWriter:
    model = add_softmax()
    match kind:
        case "unknown operator":
            model.nodes[0].operator = 99 + 100
        case "bad index":
            model.nodes[0].inputs = [0, 77]
        case "consumer first":
            model.nodes.reverse()
        case "no attributes":
            model.nodes[1].has_attribute_table = False
        case "no softmax axis":
            model.nodes[1].attributes = {}
        case "too little data":
            model.tensors[1].data = bytes(12)
        case "compressed":
            model.tensors[1].extra = {11: i32(3)}
        case "external":
            model.tensors[1].extra = {12: [Table({1: "weights.bin"})]}
        case "shapes do not fit":
            model.tensors[1].dims, model.tensors[1].data = [3], bytes(12)
        case "filled twice":
            model.nodes[1].outputs = [2]
        case "output from nowhere":
            model.tensors.append(model.tensors[0])
            model.outputs = [4]
        case "negative dimension":
            model.tensors[0].dims = [1, -7]
    return model


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("unknown operator", "lacks operator 199"),
        ("bad index", "is tensor 77, but there are 4"),
        ("consumer first", "reads a tensor before anything has filled it"),
        ("no attributes", "has no attributes"),
        ("no softmax axis", "the axis is missing"),
        ("too little data", "less data than its shape needs"),
        ("compressed", "compressed"),
        ("external", "in another file"),
        ("shapes do not fit", "the shapes do not fit together"),
        ("filled twice", "filled already"),
        ("output from nowhere", "nothing computes output 0"),
        ("negative dimension", "negative dimension"),
    ],
)
def test_a_graph_that_does_not_add_up_is_refused_when_it_is_built(
    runtime: ctypes.CDLL, kind: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert reason in refused(runtime, changed(kind).to_bytes(), capfd)


def test_a_name_in_the_file_cannot_pass_for_a_line_of_the_runtime(
    runtime: ctypes.CDLL, capfd: pytest.CaptureFixture[str]
) -> None:
    model = changed("no softmax axis")
    model.nodes[1].name = "x\nohforge-reference: mslite requested=nnrt device=nnrt"
    said = refused(runtime, model.to_bytes(), capfd)
    assert len(said.splitlines()) == 1


def test_an_input_whose_size_overflows_is_refused(runtime: ctypes.CDLL, capfd: pytest.CaptureFixture[str]) -> None:
    model = add_softmax()
    model.tensors[0].dims = [2**31 - 1] * 8
    assert "too large" in refused(runtime, model.to_bytes(), capfd)


@pytest.mark.parametrize("missing", [2, 3, 7], ids=["stride", "dilation", "group"])
def test_a_convolution_needs_stride_dilation_and_group(
    runtime: ctypes.CDLL, missing: int, capfd: pytest.CaptureFixture[str]
) -> None:
    model = ModelWriter()
    x = model.add_input("x", [1, 3, 3, 1])
    model.mark_output(ops.conv2d(model, x, model.add_constant(np.ones((1, 1, 1, 1), np.float32))))
    del model.nodes[0].attributes[missing]
    assert "is missing" in refused(runtime, model.to_bytes(), capfd)


def corpus(folder: Path) -> list[Path]:
    """Small sound models: one of every operator, and a narrow MobileNet."""
    contents = [add_softmax().to_bytes()]
    for number in sorted(CASES):
        contents += sound_models(number)
    files = []
    for index, content in enumerate(content for content in contents if len(content) < 2**16):
        files.append(folder / f"{index}.ms")
        files[-1].write_bytes(content)
    return files


def sound_models(number: int, count: int = 3) -> list[bytes]:
    found: list[bytes] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def collect(data: st.DataObject) -> None:
        found.append(CASES[number](data.draw)[0].to_bytes())

    collect()
    return found


@pytest.mark.parametrize("judge", ["address", "undefined"])
def test_damaged_copies_of_sound_models_never_lead_the_runtime_astray(
    judge: str, shared_cache: Path, tmp_path: Path
) -> None:
    compiler: tuple[str, ...] | None = ZIG
    if judge == "address":
        compiler = compiler_with_sanitizers()
        if compiler is None:
            pytest.skip("no gcc or clang with AddressSanitizer on this machine (the other half still runs)")
    flags = ["-std=gnu11", "-O1", "-g", "-fno-sanitize-recover=all", "-DOHFORGE_MAX_TENSOR_BYTES=65536"]
    flags.append("-fsanitize=address,undefined" if judge == "address" else "-fsanitize=undefined")
    sources = [*mslite_sources(), PROJECT / "tests" / "support" / "fuzz_ms.c"]
    program = compile_with(compiler, shared_cache, f"fuzz-{judge}", sources, flags)
    done = subprocess.run(
        [program, str(ROUNDS), "11", *map(str, corpus(tmp_path))],
        capture_output=True,
        timeout=600,
        text=True,
        errors="replace",
        env={"ASAN_OPTIONS": "allocator_may_return_null=1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = re.search(r"(\d+) of (\d+) ran", done.stdout)
    assert found is not None
    # Many changes hit weights or names: if none ran, the test would only see the loader's first checks.
    assert int(found[1]) > ROUNDS / 20


def test_random_bytes_after_a_sound_head_are_refused(runtime: ctypes.CDLL) -> None:
    random = Random(5)
    head = mobilenet_v2(size=32, width=0.25, classes=3).to_bytes()[:64]
    for _ in range(300):
        with pytest.raises(BuildRefused):
            ReferenceModel(runtime, head + random.randbytes(random.randrange(2000)))
