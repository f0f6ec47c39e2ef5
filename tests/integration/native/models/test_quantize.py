"""`model.quantize` with the real llama-quantize, built for this computer: minutes without a warm compiler cache."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.files import sha256_file
from core.session import Session
from native.formats.ggml import FILE_TYPES
from native.models.quantize import QuantizeRequest, forecast_quantisations, quantize_model
from native.models.quantizer import ALIASES, QUANTISATIONS, build_quantizer
from tests.shared.shape_gguf import fill_with_weights, llama_shapes, write_shapes
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.command_line import invoke

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(3600)]
LLAMA_8B = {
    "Q2_K_S": (2842.88, 2.97),
    "Q2_K": (3024.38, 3.16),
    "Q3_K_M": (3825.27, 4.00),
    "IQ4_XS": (4269.15, 4.46),
    "Q4_0": (4437.80, 4.64),
    "IQ4_NL": (4481.80, 4.68),
    "Q4_K_M": (4685.30, 4.89),
    "Q5_K_M": (5459.93, 5.70),
    "Q6_K": (6282.97, 6.56),
    "Q8_0": (8137.64, 8.50),
}
"""MiB of weights and bits for a weight that a build of llama-quantize by gcc said of a Llama 3.1 8B."""


@pytest.fixture(autouse=True)
def lasting_caches(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_CACHE_DIR", str(shared_cache))


def test_the_types_are_those_that_llama_quantize_lists(session: Session) -> None:
    program = build_quantizer(session)
    said = session.runner.run([program, "--help"], deadline=Deadline.after(60, "the help"))
    names = {name: number for number, name in re.findall(r"^ +(\d+)  or  (\w+) *: ", said.text, re.MULTILINE)}
    assert set(names) == {*QUANTISATIONS, *ALIASES}
    assert {name: FILE_TYPES[int(number)] for name, number in names.items() if name not in ALIASES} == {
        name: name for name in QUANTISATIONS
    }
    assert {alias: FILE_TYPES[int(names[alias])] for alias in ALIASES} == ALIASES


def test_sizes_of_an_8b_are_the_published_ones(session: Session, tmp_path: Path) -> None:
    shapes = llama_shapes(
        layers=32, width=4096, inner=14336, heads=32, kv_heads=8, vocabulary=128_256, kinds={"": "F16"}
    )
    keys, tensors = shapes
    source = write_shapes(tmp_path / "8b-F16.gguf", "llama", keys, [*tensors, ("rope_freqs.weight", (64,), "F32")])
    outcome = forecast_quantisations(session, QuantizeRequest(model=str(source), types=tuple(LLAMA_8B)))
    found = {
        entry.forecast.type: (
            round(entry.forecast.weight_bytes / 1024**2, 2),
            round(entry.forecast.bits_per_weight, 2),
        )
        for entry in outcome.quantised
    }
    assert found == LLAMA_8B
    assert outcome.quantised[1].forecast.tensors == {"Q2_K": 129, "F32": 66, "Q3_K": 64, "Q4_K": 32, "Q6_K": 1}


def test_what_is_made_is_what_llama_quantize_makes_by_hand(session: Session, tmp_path: Path) -> None:
    keys, tensors = llama_shapes(layers=2, width=256, inner=512, heads=4, kv_heads=2, vocabulary=512, kinds={"": "F16"})
    source = fill_with_weights(write_shapes(tmp_path / "small-F16.gguf", "llama", keys, tensors))
    outcome = quantize_model(session, QuantizeRequest(model=str(source), types=("Q4_K_M", "Q8_0"), threads=1))
    program = build_quantizer(session)
    for entry in outcome.quantised:
        by_hand = tmp_path / "by-hand.gguf"
        words = [program, str(source), str(by_hand), entry.forecast.type, "2"]
        result = session.runner.run(words, deadline=Deadline.after(60, "quantising"))
        assert by_hand.read_bytes() == entry.path.read_bytes(), result.last_lines()
        assert entry.sha256 == sha256_file(by_hand)
        said = re.search(r"quant size  = +([\d.]+) MiB \(([\d.]+) BPW\)", result.error_text)
        assert said is not None
        assert f"{entry.forecast.weight_bytes / 1024**2:.2f}" == said[1]
        assert f"{entry.forecast.bits_per_weight:.2f}" == said[2]


def test_a_user_makes_two_and_asks_whether_one_fits(tmp_path: Path) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.F16.gguf", "F16")
    said = invoke("model.quantize", source, "--to", "Q8_0,Q4_0")
    assert (said.status, [entry["made"] for entry in said.answer["quantised"]]) == (0, [True, True]), said.text
    assert [Path(entry["path"]).name for entry in said.answer["quantised"]] == ["tiny.Q8_0.gguf", "tiny.Q4_0.gguf"]
    described = invoke("model.inspect", said.answer["quantised"][1]["path"])
    assert described.answer["weight_bytes"] == said.answer["quantised"][1]["weight_bytes"]
    again = invoke("model.quantize", source, "--to", "Q8_0")
    assert (again.status, again.answer["error"]["code"]) == (64, "OHF6401")
