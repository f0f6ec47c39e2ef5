"""Which device computed a model, from lines as boards of several releases write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InvalidData
from native.recipe import device_use
from native.recipe.device_use import infer_device

ASKED = "engine: MindSpore Lite\ndevice asked for: nnrt\nnnrt device: RK3568-CPU_Rockchip_v1_0 (cpu, id 77)\n"


@pytest.mark.parametrize(
    ("log", "used"),
    [
        ("", "unknown"),
        ("W C029A0/MSLiteFwk: No NNRt Device found, fall back to CPU\n", "cpu"),
        ("W A02102/MS_LITE: NNRTDelegate::Build failed, fallback to CPU\n", "cpu"),
        ("I A02102/MS_LITE: Found NNRT subgraph count: 0\nI A02102/MS_LITE: NNRTDelegate build success.\n", "cpu"),
        ("I A02102/MS_LITE: Found NNRT subgraph count: 2\n", "nnrt"),
        ("I A02102/MS_LITE: Found NNRT subgraph count: 12\n", "nnrt"),
        ("I C029A0/MSLiteFwk: NNRTDelegate build  success.\n", "nnrt"),
        ("I MS_LITE: Found NNRT subgraph count: 2\nW MS_LITE: subgraph 1 fallback to CPU\n", "mixed"),
        ("W C02101/NNRt: got no device.\n", "cpu"),
        ("E C02101/NNRt: current device not support the model.\n", "cpu"),
        ("I C01234/Other: all is well\n", "unknown"),
    ],
)
def test_the_boards_log_tells_what_a_success_code_hides(log: str, used: str) -> None:
    found = infer_device(ASKED, log)
    assert (found.asked, found.used) == ("nnrt", used)
    assert found.listed == ("RK3568-CPU_Rockchip_v1_0",)
    assert bool(found.evidence) == (used != "unknown")
    assert all(line in log for line in found.evidence)


def test_the_reference_runtime_tells_it_on_standard_error() -> None:
    for device in ("cpu", "nnrt"):
        found = infer_device(ASKED + f"ohforge-reference: mslite requested=nnrt device={device} (because)\n")
        assert found.used == device


def test_a_run_that_asked_for_the_cpu_had_it() -> None:
    found = infer_device("device asked for: cpu\n", "W MS_LITE: of another program: fallback to CPU\n")
    assert (found.asked, found.used, found.listed) == ("cpu", "cpu", ())


def test_output_without_the_question_gives_no_answer() -> None:
    assert infer_device("").used == "unknown"


def test_a_table_with_another_meaning_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for content in ("- {pattern: x, means: gpu}", "- {pattern: '('}", "3"):
        (tmp_path / "evidence.yaml").write_text(content)
        monkeypatch.setattr(device_use, "EVIDENCE_FILE", tmp_path / "evidence.yaml")
        device_use._load_evidence.cache_clear()
        with pytest.raises(InvalidData, match=r"evidence\.yaml"):
            infer_device("device asked for: nnrt\n")
    device_use._load_evidence.cache_clear()
