"""A bench of a ``.ms`` model with the real program and the reference runtime, on this computer."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.mslite import measure_mslite, read_axes
from core.session import Session
from tests.shared.ms_models import mobilenet_v2
from tests.shared.reference_runtime import build_mslite
from tests.support.bench_board import bench_of, use_bench
from tests.support.local_board import LocalBoard


def test_a_runtime_that_gives_way_to_the_cpu_is_flagged(
    session: Session, tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A device is there, and the runtime gives way to the CPU as that of the system does, without a word to its caller.
    monkeypatch.setenv("OHFORGE_NNRT_DEVICES", "1")
    monkeypatch.setenv("OHFORGE_NNRT_FALLBACK", "1")
    program = tmp_path / "mslite"
    program.write_bytes(build_mslite(shared_cache).read_bytes())
    model = tmp_path / "tiny.ms"
    model.write_bytes(mobilenet_v2(size=32, width=0.25, classes=3).to_bytes())
    use_bench(monkeypatch, program, LocalBoard(tmp_path / "board"))
    asked = bench_of(model, threads=(1,), n_prompt=0, n_gen=0, loops=3, axes=read_axes(device="nnrt"), repetitions="1")
    content = measure_mslite(session, asked).content
    assert "nnrt was asked for; cpu computed" in [flag["sentence"] for flag in content["flags"]]
    assert content["devices"] == {"tiny, 1 thread, device nnrt": {"asked": "nnrt", "used": ["cpu"]}}
    assert content["valid"] is False
