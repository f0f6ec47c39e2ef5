"""What the program mslite calls: its options reach the engine, and everything is destroyed once, by whoever owns it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from core.session import PROJECT
from tests.shared.ms_models import add_softmax
from tests.shared.reference_runtime import RUNTIME, compile_with, mslite_sources
from tests.support.nnrt_runtime import host_compilers

RECORDER = PROJECT / "tests" / "support" / "mslite_calls.c"
CPU = "DeviceInfoCreate 0"
PLAIN = ["ContextSetThreadNum 2", "ContextSetThreadAffinityMode 0", CPU, "ModelBuildFromFile 0"]
ENDS = ["ModelPredict", "ModelDestroy"]


@pytest.fixture(scope="module")
def program(shared_cache: Path) -> Path:
    cc, _ = host_compilers()
    flags = ["-std=gnu11", "-O1", "-DOHFORGE_API_LEVEL=12"]
    sources = sorted((RUNTIME.parent / "mslite" / "src").glob("*.c"))
    names = re.findall(r"^\S.*\brecorded_(\w+)\(", RECORDER.read_text(), re.MULTILINE)
    assert len(names) == 11
    renamed = [f"-DOH_AI_{name}=recorded_{name}" for name in names]
    ours = compile_with(cc, shared_cache, "mslite-recorded.o", sources, [*flags, "-r", *renamed])
    return compile_with(cc, shared_cache, "mslite-recorded", [ours, RECORDER, *mslite_sources()], flags)


def calls_of(program: Path, folder: Path, *words: str | Path, devices: int = 0) -> tuple[int, list[str]]:
    environment = {**os.environ, "OHFORGE_NNRT_DEVICES": str(devices)}
    done = subprocess.run(
        [program, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, re.findall(r"^call: (.*)$", done.stderr, re.MULTILINE)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.ms"
    path.write_bytes(add_softmax().to_bytes())
    return path


def test_options_reach_the_engine(program: Path, model: Path, tmp_path: Path) -> None:
    assert calls_of(program, tmp_path, model) == (0, [*PLAIN, *ENDS])
    words = ("--threads", "3", "--affinity", "big", "--fp16", "--warmup", "2", "--loops", "4")
    assert calls_of(program, tmp_path, *words, model) == (
        0,
        [
            *("ContextSetThreadNum 3", "ContextSetThreadAffinityMode 1", CPU, "DeviceInfoSetEnableFP16 1"),
            *("ModelBuildFromFile 0", *["ModelPredict"] * 6, "ModelDestroy"),
        ],
    )
    assert "ContextSetThreadAffinityMode 2" in calls_of(program, tmp_path, "--affinity", "little", model)[1]


def test_an_nnrt_device_comes_before_the_cpu_with_its_options(program: Path, model: Path, tmp_path: Path) -> None:
    name = "reference-accelerator_ohforge_v2_0"
    words = ("--device", f"nnrt:{name}", "--performance", "high", "--priority", "low")
    status, calls = calls_of(program, tmp_path, *words, model, devices=2)
    assert status == 0
    # The engine takes the first device that can do it: the CPU is what it falls back to.
    assert calls[2:6] == [
        f"CreateNNRTDeviceInfoByName {name}",
        *("DeviceInfoSetPerformanceMode 3", "DeviceInfoSetPriority 1", CPU),
    ]


def test_the_context_is_the_models_as_soon_as_a_build_was_tried(program: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.ms").write_bytes(b"")
    failed = [*PLAIN[:-1], "ModelBuildFromFile -1", "ModelDestroy"]
    assert calls_of(program, tmp_path, "bad.ms") == (255, failed)
    # An input that does not fit is found after the build: the model goes, and the context with it.
    assert calls_of(program, tmp_path, "--input", "nowhere.npy", model) == (66, [*PLAIN, "ModelDestroy"])


def test_without_a_build_the_context_is_the_programs(program: Path, model: Path, tmp_path: Path) -> None:
    status, calls = calls_of(program, tmp_path, "--device", "nnrt:nowhere", model, devices=1)
    assert (status, calls.count("ContextDestroy"), "ModelDestroy" in calls) == (69, 1, False)
    assert not [call for call in calls if call.startswith("ModelBuild")]
