"""What `model.inspect` says of model files of both kinds."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from core.errors import ModelError, UnknownName
from core.session import Session
from native.models import models
from native.models.inspect import describe_lines, inspect_model, model_kind
from native.models.models import ModelEntry, list_models, locate_model, would_locate
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.ms_flatbuffers import ModelToWrite, NodeToWrite, TensorToWrite, write_ms

MODEL = ModelToWrite(
    tensors=(TensorToWrite(name="x", dims=(1, -1)), TensorToWrite(name="y", dims=(1, 8))),
    nodes=(NodeToWrite(name="soft", operator=138, inputs=(0,), outputs=(1,)),),
    inputs=(0,),
    outputs=(1,),
)


def test_a_gguf_model_is_described_with_its_memory_need(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    description = inspect_model(path)
    assert (description["kind"], description["architecture"], description["context_length"]) == ("gguf", "llama", 512)
    # 2 layers, 2 heads of 16 numbers for keys and as many for values, 2 bytes each
    assert description["kv_bytes_per_token"] == 2 * (2 * 16 * 2) * 2
    assert description["memory"] == {"context": 512, "bytes": description["weight_bytes"] + 512 * 256}
    assert sum(description["weight_types"].values()) == description["weight_bytes"]
    assert json.loads(json.dumps(description)) == description


def test_the_lines_for_a_gguf_model_name_what_decides_whether_it_fits(tmp_path: Path) -> None:
    text = "\n".join(describe_lines(inspect_model(write_tiny_gguf(tmp_path / "tiny.gguf"))))
    for part in ("GGUF model, version 3", "2 layers x 64, 4 heads", "512 tokens", "with a context of 512"):
        assert part in text


def test_an_ms_model_is_described_with_what_to_know_before_running_it(tmp_path: Path) -> None:
    path = tmp_path / "model.ms"
    path.write_bytes(write_ms(MODEL))
    description = inspect_model(path)
    assert (description["kind"], description["operators"], description["converter"]) == ("ms", {"Softmax": 1}, "2.1.0")
    assert description["inputs"] == [{"name": "x", "dtype": "float32", "shape": [1, -1], "layout": "NHWC", "bytes": 0}]
    assert description["outputs"][0]["bytes"] == 32
    assert [note for note in description["notes"] if "The shape of x is set when the model runs" in note]
    assert json.loads(json.dumps(description)) == description


def test_the_lines_for_an_ms_model_show_inputs_outputs_and_problems(tmp_path: Path) -> None:
    nodes = (NodeToWrite(name="first", operator=211, inputs=(1,), outputs=(1,)),)
    path = tmp_path / "model.ms"
    path.write_bytes(write_ms(dataclasses.replace(MODEL, nodes=nodes)))
    lines = describe_lines(inspect_model(path))
    assert any(line.startswith("input") and "x: float32 1x? NHWC" in line for line in lines)
    assert any(line.startswith("reference runtime") and "lacks GroupNormFusion" in line for line in lines)
    assert any(line.startswith("note") and "OpenHarmony 3.2 does not know GroupNormFusion" in line for line in lines)
    assert any(line.startswith("problem") and "node 0 (first) comes before node 0" in line for line in lines)


def test_weights_that_the_reference_runtime_cannot_take_are_noted(tmp_path: Path) -> None:
    tensors = (*MODEL.tensors, TensorToWrite(name="w", dims=(4,), data=b"\1", compression=1))
    external = TensorToWrite(name="v", dims=(4,), external="weights.bin", external_length=16)
    path = tmp_path / "model.ms"
    path.write_bytes(write_ms(dataclasses.replace(MODEL, tensors=(*tensors, external), obfuscated=True, version="")))
    notes = " ".join(inspect_model(path)["notes"])
    for part in ("compressed (indexing)", "Weights are in weights.bin", "obfuscated", "left no version"):
        assert part in notes


def test_the_content_decides_the_kind_and_not_the_name(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(write_ms(MODEL))
    assert model_kind(path) == "ms"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is empty"),
        (b"\x08\x07\x12\x07pytorch", "looks like an ONNX model"),
        (b"<html>", "looks like a web page"),
        (bytes(64), "begins with zeros"),
        (b"\x40\0\0\0\0\0\0\0" + b'{"__metadata__":{"format":"pt"}}', "looks like a safetensors file"),
        (b"PK\x03\x04" + bytes(26) + b"archive/data.pklFB", "looks like a PyTorch checkpoint"),
        (b"PK\x03\x04" + bytes(26) + b"model.gguf", "looks like an archive"),
        (b"\xfd7zXZ\x00\x00\x04", "looks like an archive"),
        (b"\x89HDF\r\n\x1a\n\x02", "looks like a Keras model"),
        (bytes(range(200, 255)), "its first bytes are those of neither"),
    ],
)
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=expected):
        inspect_model(path)


def test_a_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="There is no model file"):
        inspect_model(tmp_path / "none.ms")
    with pytest.raises(ModelError, match="There is no model file"):
        inspect_model(tmp_path)


def test_a_name_that_the_list_shows_means_its_file_which_is_fetched_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = [entry for entry in list_models(session) if entry["name"] == "smollm2"]
    assert entry["path"] == ""
    fetched: list[str] = []

    def fetch(_: Session, entry: ModelEntry, target: Path) -> None:
        fetched.append(entry.name)
        target.parent.mkdir(parents=True)
        write_tiny_gguf(target)

    monkeypatch.setattr(models, "_fetch_first", fetch)
    monkeypatch.setattr(models, "_is_right", lambda _session, _entry, target: target.is_file())
    (would,) = would_locate(session, "smollm2")
    assert (would.action, fetched) == ("fetch", [])
    path = session.settings.cache / "models" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert [locate_model(session, "smollm2"), locate_model(session, "smollm2")] == [path, path]
    assert fetched == ["smollm2"]
    assert inspect_model(path)["architecture"] == "llama"
    with pytest.raises(UnknownName, match="did you mean 'smollm2'"):
        locate_model(session, "smolm2")


def test_a_folder_called_like_a_model_is_not_taken_for_it(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2").mkdir()
    assert would_locate(session, "smollm2")[0].action == "fetch"


def test_a_file_goes_before_a_name(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tiny_gguf(tmp_path / "smollm2")
    assert inspect_model(locate_model(session, "smollm2"))["path"] == "smollm2"
