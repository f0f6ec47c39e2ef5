"""Milliseconds of one MobileNetV2 inference (1 x 224 x 224 x 3, float32): our reference runtime against a baseline of the same run.

Baseline: the real MindSpore Lite of the wheels when OHFORGE_MINDSPORE_LITE names the folder that
scripts/fetch_real_engine.py made; otherwise the same network in NumPy. arm64 and arm32 run under qemu: what is compared there
is emulation with emulation, and neither number is a board's.

    python benchmarks/mobilenetv2.py [--loops 7] [--arches arm64,arm32]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.console import Console, Verbosity
from core.session import Session
from core.settings import Settings
from native.build.ensure import BuildRequest, ensure_built
from tests.shared.ms_models import mobilenet_v2, seeded_image
from tests.shared.real_engine import VARIABLE, RealEngine, arm64_engine, native_engine
from tests.shared.reference_runtime import ReferenceModel, load_library
from toolchains.arch import find_arch
from toolchains.host_toolchain import ToolchainChoice

MEDIAN = re.compile(r"^predict: .* median ([\d.]+) ms", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loops", type=int, default=7)
    parser.add_argument("--arches", default="arm64,arm32")
    asked = parser.parse_args()
    model, image = mobilenet_v2(), seeded_image(224)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "mobilenetv2.ms"
        path.write_bytes(model.to_bytes())
        np.save(folder / "in.npy", image)
        prepared = Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None
        for threads in (1, 2):
            engine = native_engine(prepared, folder) if prepared else None
            measure_natively(folder, path, image, engine, lambda: model.evaluate(image), threads, asked.loops)
        for arch in filter(None, asked.arches.split(",")):
            engine = arm64_engine(prepared, folder) if prepared and arch == "arm64" else None
            measure_emulated(folder, path, image, engine, arch, asked.loops)


def measure_natively(
    folder: Path,
    path: Path,
    image: np.ndarray,
    engine: RealEngine | None,
    numpy: Callable[[], object],
    threads: int,
    loops: int,
) -> None:
    print(f"this machine, {threads} thread(s), median of {loops}")
    if engine is not None:
        baseline, title = engine.run(path, [image], folder, loops=loops, threads=threads)[1], "MindSpore Lite 2.0.0"
    else:
        baseline, title = median_ms(numpy, min(loops, 3)), "NumPy"
    show(f"{title} (baseline)", baseline, baseline)
    with ReferenceModel(load_library(cache_folder()), path.read_bytes(), threads=threads) as loaded:
        loaded.fill(image)
        show("reference runtime", median_ms(loaded.run, loops), baseline)


def measure_emulated(
    folder: Path, path: Path, image: np.ndarray, engine: RealEngine | None, arch: str, loops: int
) -> None:
    qemu = shutil.which(find_arch(arch).qemu)
    if qemu is None:
        print(f"{arch}: no {find_arch(arch).qemu} on this machine")
        return
    print(f"{arch} EMULATED by qemu, 1 thread, median of {loops}")
    session = Session(settings=Settings(build_dir=str(folder / "build")), console=Console(verbosity=Verbosity.QUIET))
    artifact = ensure_built(
        session, BuildRequest(target="mslite", choice=ToolchainChoice(arch=arch, toolchain="zig"))
    ).artifact
    [product] = artifact.products
    words = [qemu, artifact.path_of(product), "--threads", "1", "--loops", str(loops), "--warmup", "1"]
    done = subprocess.run(
        [*words, "--input", "in.npy", path.name], cwd=folder, check=True, capture_output=True, text=True, timeout=900
    )
    found = MEDIAN.search(done.stdout)
    if found is None:
        sys.exit(f"mslite printed no times:\n{done.stdout}")
    ours = float(found[1])
    baseline = ours if engine is None else engine.run(path, [image], folder, loops=loops)[1]
    if engine is not None:
        show("MindSpore Lite 2.0.0 (baseline)", baseline, baseline)
    show("reference runtime" + (" (no baseline for this arch)" if engine is None else ""), ours, baseline)


def median_ms(run: Callable[[], object], loops: int) -> float:
    """Once to warm up, then the median of `loops` runs in milliseconds."""
    run()
    times = []
    for _ in range(loops):
        started = time.perf_counter()
        run()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def cache_folder() -> Path:
    folder = Path(os.environ.get("OHFORGE_TEST_CACHE") or tempfile.gettempdir()) / "mobilenetv2-benchmark"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def show(title: str, milliseconds: float, baseline: float) -> None:
    print(f"  {title:<48} {milliseconds:9.1f} ms  {milliseconds / baseline:6.2f} x")


if __name__ == "__main__":
    main()
