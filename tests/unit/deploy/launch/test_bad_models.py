"""Model files that are none, or are bad: `model.inspect` and `board.run` say of each what it is, before anything is sent."""

from __future__ import annotations

import dataclasses
import resource
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.errors import ModelError
from core.session import Session
from deploy.launch import launch
from deploy.launch.launch import run_model
from deploy.launch.request import LaunchRequest
from native.formats.gguf import read_gguf
from native.models.inspect import describe_lines, inspect_model
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.command_line import invoke
from tests.support.local_board import LocalBoard
from tests.support.ms_flatbuffers import NodeToWrite
from tests.unit.native.formats.test_ms_format import ADD, GOOD, MODEL, changed

ADD_NODE, SOFTMAX_NODE = MODEL.nodes
UNKNOWN_OPERATOR = 250
GROUP_NORM = 211
REFUSED: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "0 bytes": ("a.ms", lambda: b"", "is empty: a download that failed leaves such files"),
    "half": ("a.ms", lambda: GOOD[: len(GOOD) // 2], "cut short or damaged"),
    "another identifier": ("a.ms", lambda: GOOD[:4] + b"XXXX" + GOOD[8:], "made by a converter before 1.1"),
    "from before the identifier": ("a.ms", lambda: changed(identifier=None), "made by a converter before 1.1"),
    "ONNX": ("a.ms", lambda: b"\x08\x07\x12\x07pytorch", "looks like an ONNX model"),
    "text": ("a.ms", lambda: b"hello, this is no model at all\n", "looks like a text file"),
    "login page": ("a.ms", lambda: b"<!DOCTYPE html><html>Sign in", "looks like a web page"),
    "git-lfs pointer": ("a.ms", lambda: b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
    "MindIR": ("a.ms", lambda: b"\x0a\x050.1.0\x12\x09MindSpore", "looks like a MindIR model"),
    "zip": ("a.ms", lambda: b"PK\x03\x04" + bytes(32), "archive"),
    "zeros": ("a.ms", lambda: bytes(4096), "begins with zeros"),
    "an index into nowhere": (
        "a.ms",
        lambda: changed(nodes=(NodeToWrite(operator=ADD, inputs=(0, 9), outputs=(3,)),)),
        "node 0 refers to tensor 9, but there are 4",
    ),
    "no attributes": (
        "a.ms",
        lambda: changed(nodes=(ADD_NODE, dataclasses.replace(SOFTMAX_NODE, attributes=False))),
        "node 1 has no attributes",
    ),
    "GGUF cut": ("a.gguf", lambda: b"GGUF\3\0\0\0" + bytes(8), "header goes on behind the end"),
    "GGUF of another version": ("a.gguf", lambda: b"GGUF\1\0\0\0" + bytes(32), "version 1"),
}
"""What it is → name, content, and what is said of it. `model.inspect` and `board.run` both refuse these."""
UNSOUND: dict[str, tuple[Callable[[], bytes], str]] = {
    "consumer first": (lambda: changed(nodes=(SOFTMAX_NODE, ADD_NODE)), "node 0 (softmax) comes before node 1 (add)"),
    "unknown operator": (
        lambda: changed(nodes=(ADD_NODE, dataclasses.replace(SOFTMAX_NODE, operator=UNKNOWN_OPERATOR))),
        "has the operator number 250, which no known schema has",
    ),
}
"""What the engine would load and compute wrongly: `model.inspect` describes it with its problem, `board.run` refuses."""


@pytest.fixture
def no_build(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalBoard:
    """A board that counts what is asked of it, on a machine that must build nothing."""
    board = LocalBoard(tmp_path / "board")
    monkeypatch.setattr(launch, "choose_board", lambda *_: board)
    monkeypatch.setattr(launch, "choose_build", lambda *_: pytest.fail("something was built"))
    return board


@pytest.mark.parametrize("what", REFUSED)
def test_a_bad_file_is_refused_with_what_it_is(
    session: Session, no_build: LocalBoard, tmp_path: Path, what: str
) -> None:
    name, content, sentence = REFUSED[what]
    path = tmp_path / name
    path.write_bytes(content())
    for step in (lambda: inspect_model(path), lambda: run_model(session, LaunchRequest(model=str(path)))):
        with pytest.raises(ModelError) as caught:
            step()
        assert sentence in caught.value.message
        assert caught.value.remedy
        assert caught.value.exit_status == 76
    assert no_build.calls == []
    assert not session.settings.runs.exists()


@pytest.mark.parametrize("what", UNSOUND)
def test_what_the_engine_would_compute_wrongly_is_described_but_not_run(
    session: Session, no_build: LocalBoard, tmp_path: Path, what: str
) -> None:
    content, sentence = UNSOUND[what]
    path = tmp_path / "a.ms"
    path.write_bytes(content())
    assert [line for line in describe_lines(inspect_model(path)) if line.startswith("problem") and sentence in line]
    with pytest.raises(ModelError, match="would not run as it should") as caught:
        run_model(session, LaunchRequest(model=str(path)))
    assert sentence in caught.value.message
    assert no_build.calls == []


@pytest.mark.parametrize("toolchain", ["zig", "ohos"])
def test_what_the_reference_runtime_lacks_is_said_before_anything_is_built_or_sent(
    session: Session, no_build: LocalBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolchain: str
) -> None:
    path = tmp_path / "a.ms"
    path.write_bytes(changed(nodes=(ADD_NODE, dataclasses.replace(SOFTMAX_NODE, operator=GROUP_NORM))))
    build = SimpleNamespace(plan=SimpleNamespace(toolchain=SimpleNamespace(name=toolchain)))
    monkeypatch.setattr(launch, "choose_build", lambda *_: build)
    monkeypatch.setattr(launch, "_perform", lambda *_: "run")
    if toolchain == "ohos":  # The board's own MindSpore Lite may well have it.
        assert run_model(session, LaunchRequest(model=str(path))) == "run"
        return
    with pytest.raises(ModelError, match=r"It lacks: GroupNormFusion\.") as caught:
        run_model(session, LaunchRequest(model=str(path)))
    assert "--toolchain ohos" in caught.value.remedy
    assert no_build.calls == []


def test_the_command_says_it_in_lines_in_json_and_by_its_status(tmp_path: Path) -> None:
    (tmp_path / "good.ms").write_bytes(GOOD)
    said = invoke("model.inspect", tmp_path / "good.ms")
    assert (said.status, said.answer["ok"]) == (0, True)
    assert said.answer["outputs"] == [
        {"name": "Softmax-65", "dtype": "float32", "shape": [1, 2, 2, 4], "layout": "NHWC", "bytes": 64}
    ]
    assert said.answer["operators"] == {"AddFusion": 1, "Softmax": 1}
    assert "output             Softmax-65: float32 1x2x2x4 NHWC, 64 bytes" in said.text
    gguf = invoke("model.inspect", write_tiny_gguf(tmp_path / "tiny.gguf"))
    assert (gguf.status, gguf.answer["architecture"], gguf.answer["memory"]["context"]) == (0, "llama", 512)
    (tmp_path / "bad.ms").write_bytes(b"")
    bad = invoke("model.inspect", tmp_path / "bad.ms")
    assert (bad.status, bad.answer["error"]["code"]) == (76, "OHF7601")
    assert "is empty" in bad.answer["error"]["message"]


def test_of_a_large_model_the_header_only_is_read(tmp_path: Path) -> None:
    """The weights of a 16 GB file are a hole: whoever read them would touch four million pages."""
    import gguf
    import numpy

    path = tmp_path / "large.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    rows, width = 1 << 20, 1 << 12
    writer.add_tensor_info("w", [rows, width], numpy.dtype(numpy.float32), rows * width * 4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + rows * width * 4 + 4096)
    before = resource.getrusage(resource.RUSAGE_SELF)
    info = read_gguf(path)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert (info.parameters, info.weight_bytes) == (1 << 32, 1 << 34)
    faults = after.ru_minflt - before.ru_minflt + after.ru_majflt - before.ru_majflt
    assert faults < 5000
