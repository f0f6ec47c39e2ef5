"""llama.cpp as `ohforge build` makes it for every arch: minutes without a warm compiler cache (OHFORGE_TEST_CACHE keeps one).

What the ARM builds say on a board, with the CPU tuning of that board, is tested in test_main_job.py.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.process import Result
from core.session import Session
from native.build.ensure import BuildOutcome, BuildRequest, ensure_built
from native.recipe.recipe import load_recipe
from tests.shared.tiny_gguf import write_tiny_gguf
from toolchains.arch import ARCHES
from toolchains.host_toolchain import ToolchainChoice

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(3600)]
TOKENS = 24


@pytest.fixture(autouse=True)
def lasting_caches(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_CACHE_DIR", str(shared_cache))


def build(session: Session, arch: str, *products: str) -> BuildOutcome:
    return ensure_built(
        session, BuildRequest(target="llama", products=products, choice=ToolchainChoice(arch=arch, toolchain="zig"))
    )


def complete(session: Session, outcome: BuildOutcome, model: Path) -> Result:
    """Greedy text of llama-completion, under qemu when it is for another machine."""
    artifact = outcome.artifact
    emulator = ARCHES[artifact.arch].qemu
    if emulator and shutil.which(emulator) is None:
        pytest.skip(f"{emulator} is not installed")
    spec = load_recipe("llama").run_for("gguf")
    program = artifact.path_of(artifact.product(spec.product))
    words = spec.command(str(model), {"prompt": "the cat", "tokens": TOKENS, "threads": 1, "context": 256})
    words = [*([emulator] if emulator else []), str(program), *words]
    return session.runner.run(words, deadline=Deadline.after(120, "llama-completion"))


def test_greedy_text_is_the_same_on_every_arch(session: Session, tmp_path: Path) -> None:
    """For F32 and F16, which llama.cpp computes in single precision everywhere; x86_64 runs without any emulation."""
    spec = load_recipe("llama").run_for("gguf")
    models = [write_tiny_gguf(tmp_path / f"{kind}.gguf", kind) for kind in ("F32", "F16")]
    texts: dict[str, list[bytes]] = {}
    for arch in ARCHES:
        outcome = build(session, arch, spec.product)
        for model in models:
            result = complete(session, outcome, model)
            assert result.ok, result.last_lines()
            assert spec.missing_proof(result.error_text) == []
            metrics = spec.read_metrics(result.error_text)
            assert metrics["generation_runs"].value == TOKENS - 1
            assert metrics["generation_tokens_per_second"].value > 0
            texts.setdefault(model.stem, []).append(result.stdout)
        facts = spec.read_facts(result.error_text)
        assert ("NEON = 1" in facts["cpu_features"]) == arch.startswith("arm")
    for stdouts in texts.values():
        assert len(set(stdouts)) == 1
        assert stdouts[0].decode().startswith(" the cat")


def test_no_line_is_lost_on_a_busy_machine(session: Session, tmp_path: Path) -> None:
    """Without flush_log.cpp most runs of such a crowd lose text or timing lines, with status 0."""
    outcome = build(session, "x86_64", "llama-completion")
    model = write_tiny_gguf(tmp_path / "model.gguf")
    spec = load_recipe("llama").run_for("gguf")
    crowd = 6 * (os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(crowd) as pool:
        results = list(pool.map(lambda _: complete(session, outcome, model), range(100)))
    assert all(result.ok for result in results)
    assert [result.argv for result in results if spec.missing_proof(result.error_text)] == []
    assert len({result.stdout for result in results}) == 1


def test_the_same_bytes_come_from_another_folder(session: Session, tmp_path: Path) -> None:
    first = build(session, "arm64", "llama-completion")
    elsewhere = dataclasses.replace(session.settings, build_dir=str(tmp_path / "another place" / "deeper"))
    second = build(dataclasses.replace(session, settings=elsewhere), "arm64", "llama-completion")
    assert second.rebuilt
    assert first.artifact.folder != second.artifact.folder
    assert first.artifact.products == second.artifact.products
