"""`model.quantize` but for the quantising: what it takes, what it reads of llama-quantize, and what it leaves when that fails.

The logs in tests/data/quantize are those of llama-quantize for the tiny model in F16.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from commands.show_model import show_quantised
from core.errors import ModelError, NotEnoughSpace, OhforgeError, UnknownName, UsageError
from core.process import Result
from core.session import Session
from core.testing import FakeRunner
from native.formats.gguf import read_gguf
from native.models import quantize
from native.models.quantize import (
    QuantizeRequest,
    forecast_quantisations,
    quantize_model,
    read_types,
    would_quantize,
)
from native.models.quantizer import read_forecast
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.unit.native.formats.test_ms_format import GOOD

LOGS = Path(__file__).parents[3] / "data/quantize"
PROGRAM = "/tools/llama-quantize"
Making = Callable[[Path], None]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny-F16.gguf", "F16")


@pytest.fixture
def quantizer(session: Session, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Session]:
    """A session whose llama-quantize foresees what the logs say, and makes what it is given."""

    def prepare(make: Making, *, log: str = "", status: int = 0) -> Session:
        def answer(words: tuple[str, ...]) -> Result:
            if "--dry-run" in words:
                told = (LOGS / f"tiny-f16-{words[-2]}.log").read_bytes()
                return Result(argv=words, exit_code=0, stdout=b"", stderr=told, seconds=0.0)
            make(Path(words[-3]))
            return Result(argv=words, exit_code=status, stdout=b"", stderr=log.encode(), seconds=0.0)

        monkeypatch.setattr(quantize, "build_quantizer", lambda _: Path(PROGRAM))
        return dataclasses.replace(session, runner=FakeRunner([((PROGRAM,), answer)]))

    return prepare


@pytest.fixture
def no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "build_quantizer", lambda _: pytest.fail("llama-quantize was built"))


def as_q8_0(path: Path) -> None:
    """What llama-quantize writes for Q8_0: gguf's own quantiser gives the same types."""
    write_tiny_gguf(path, "Q8_0")


def request(source: Path, *types: str, **more: object) -> QuantizeRequest:
    return QuantizeRequest(model=str(source), types=types or ("Q8_0",), **more)  # type: ignore[arg-type]


def left_beside(source: Path) -> list[str]:
    return sorted(path.name for path in source.parent.iterdir() if path.is_file() and path != source)


def test_a_type_may_be_written_in_any_case_and_by_the_alias_of_llama_quantize() -> None:
    assert read_types(("q4_k_m", " Q8_0", "Q2_K", "q3_k")) == ("Q4_K_M", "Q8_0", "Q2_K", "Q3_K_M")


@pytest.mark.parametrize(
    ("names", "error", "sentence"),
    [
        (("Q6K",), UnknownName, "did you mean 'Q6_K'"),
        (("Q4_K", "Q4_K_M"), UsageError, "Q4_K_M is named twice"),
        (("NVFP4",), UnknownName, "no quantisation 'NVFP4'"),
        (("",), UsageError, "No quantisation was named"),
    ],
)
def test_types_that_cannot_be_made_are_refused(names: tuple[str, ...], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        read_types(names)


def test_a_forecast_is_what_llama_quantize_says_to_the_byte(source: Path) -> None:
    tensors = read_gguf(source).tensors
    forecast = read_forecast((LOGS / "tiny-f16-Q4_K_M.log").read_text(), tensors, "Q4_K_M")
    # Rows of 64 and 192 hold no blocks of 256: the log says "15 of 21 tensor(s) required fallback", and 6.41 BPW.
    assert forecast.fallbacks == 15
    assert forecast.tensors == {"Q5_0": 13, "F32": 5, "Q8_0": 3}
    assert f"{forecast.bits_per_weight:.2f}" == "6.41"
    # gguf's own table of block sizes, over the types in the log
    blocks = {"Q5_0": 22 / 32, "Q8_0": 34 / 32, "F32": 4}
    counted = Counter[str]()
    for tensor in tensors:
        counted[forecast.tensor_types[tensor.name]] += tensor.elements
    assert forecast.weight_bytes == sum(count * blocks[kind] for kind, count in counted.items())


def test_a_log_that_does_not_name_every_tensor_is_no_forecast(source: Path) -> None:
    tensors = read_gguf(source).tensors
    cut = "\n".join((LOGS / "tiny-f16-Q8_0.log").read_text().splitlines()[:-5])
    with pytest.raises(ModelError, match=r"told of \d+ tensors, but the model has 21"):
        read_forecast(cut, tensors, "Q8_0")


def test_the_file_has_its_name_when_it_is_whole_and_is_told_with_size_bits_and_hash(
    source: Path, quantizer: Callable[..., Session], capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = quantize_model(quantizer(as_q8_0), request(source))
    made = source.with_name("tiny-Q8_0.gguf")
    by_hand = write_tiny_gguf(source.with_name("by-hand.gguf"), "Q8_0")
    assert made.read_bytes() == by_hand.read_bytes()
    said = outcome.as_json()["quantised"]
    assert [(entry["path"], entry["size"], entry["made"]) for entry in said] == [(str(made), 188_992, True)]
    assert said[0]["weight_bytes"] == read_gguf(by_hand).weight_bytes
    assert said[0]["tensors"] == {"Q8_0": 16, "F32": 5}
    show_quantised(quantizer(as_q8_0).console, outcome)
    shown = capsys.readouterr()
    assert f"ohforge board.run {made}" in shown.out + shown.err


def test_what_is_there_already_is_refused_before_anything_is_built_and_written_over_when_that_is_asked_for(
    source: Path, quantizer: Callable[..., Session], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = source.with_name("tiny-Q8_0.gguf")
    made.write_bytes(b"of somebody")
    with monkeypatch.context() as patch:
        patch.setattr(quantize, "build_quantizer", lambda _: pytest.fail("llama-quantize was built"))
        with pytest.raises(UsageError, match="there already") as caught:
            quantize_model(session, request(source))
    assert "--force" in caught.value.remedy
    assert made.read_bytes() == b"of somebody"
    quantize_model(quantizer(as_q8_0), request(source, force=True))
    assert read_gguf(made).file_type == "Q8_0"


@pytest.mark.usefixtures("no_build")
def test_a_model_that_is_quantised_already_is_refused_with_what_it_is(session: Session, tmp_path: Path) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf", "Q4_0")
    with pytest.raises(UsageError, match="16 of its 21 tensors are Q4_0") as caught:
        quantize_model(session, request(source))
    assert "--allow-requantize" in caught.value.remedy


@pytest.mark.usefixtures("no_build")
def test_files_that_are_no_model_in_gguf_are_refused_with_what_they_are(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"<!DOCTYPE html>")
    (tmp_path / "a.ms").write_bytes(GOOD)
    pieces = write_tiny_gguf(tmp_path / "split.gguf", "F16", tensors_in_piece=8)
    later = next(tmp_path.glob("split-00002-of-*.gguf"))
    same = write_tiny_gguf(tmp_path / "same-F16.gguf", "F16")
    for path, kind, sentence in (
        (tmp_path / "a.gguf", "Q8_0", "looks like a web page"),
        (tmp_path / "a.ms", "Q8_0", "is no GGUF model"),
        (later, "Q8_0", "is piece 2 of the 3 pieces"),
        (same, "F16", "would be written over"),
        (pieces, "Q9_9", "no quantisation 'Q9_9'"),
    ):
        with pytest.raises(OhforgeError) as caught:
            quantize_model(session, request(path, kind))
        assert sentence in caught.value.message
        assert caught.value.remedy


def test_the_pieces_of_a_split_model_become_one_file(tmp_path: Path, quantizer: Callable[..., Session]) -> None:
    pieces = write_tiny_gguf(tmp_path / "split-F16.gguf", "F16", tensors_in_piece=8)
    outcome = quantize_model(quantizer(as_q8_0), request(pieces))
    assert [entry.path.name for entry in outcome.quantised] == ["split-Q8_0.gguf"]
    assert outcome.model.info.parameters == read_gguf(tmp_path / "split-Q8_0.gguf").parameters


def half(path: Path) -> None:
    as_q8_0(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def interrupted(path: Path) -> None:
    half(path)
    raise KeyboardInterrupt


def test_a_failure_leaves_no_file_and_says_what_the_program_said(
    source: Path, quantizer: Callable[..., Session]
) -> None:
    failing = quantizer(half, log="llama_model_quantize: failed to quantize: tensor is odd", status=1)
    with pytest.raises(ModelError, match=r"status 1[\s\S]*tensor is odd"):
        quantize_model(failing, request(source))
    with pytest.raises(ModelError, match="ended by signal 9") as caught:
        quantize_model(quantizer(half, status=-9), request(source))
    assert "memory" in caught.value.remedy
    assert left_beside(source) == []


def test_a_disk_that_becomes_full_is_told_apart_from_a_model_that_cannot_be_quantised(
    source: Path, quantizer: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(path: Path) -> None:
        half(path)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))

    with pytest.raises(NotEnoughSpace, match="became full"):
        quantize_model(quantizer(fill, log="basic_ios::clear: iostream error", status=1), request(source))
    assert left_beside(source) == []


def test_a_disk_without_room_is_seen_before(
    source: Path, quantizer: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100_000))
    with pytest.raises(NotEnoughSpace, match=r"needs 190\.\d kB"):
        quantize_model(quantizer(lambda _: pytest.fail("it was begun")), request(source))


def test_ctrl_c_leaves_no_file(source: Path, quantizer: Callable[..., Session]) -> None:
    with pytest.raises(KeyboardInterrupt):
        quantize_model(quantizer(interrupted), request(source))
    assert left_beside(source) == []


def test_a_file_that_was_cut_or_is_another_one_than_foreseen_gets_no_name(
    source: Path, quantizer: Callable[..., Session]
) -> None:
    with pytest.raises(ModelError):
        quantize_model(quantizer(half), request(source))
    with pytest.raises(ModelError, match="other types of tensors"):
        quantize_model(quantizer(lambda path: write_tiny_gguf(path, "Q4_0")), request(source))
    assert left_beside(source) == []


def test_an_importance_matrix_of_another_model_is_refused_and_one_with_gaps_warned_of(
    source: Path, quantizer: Callable[..., Session], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = tmp_path / "imatrix.dat"
    matrix.write_bytes(b"\x01\x00\x00\x00\x04\x00\x00\x00blk.")
    quantised = [tensor.name for tensor in read_gguf(source).tensors if len(tensor.shape) > 1]
    lines = [f"====== llama_model_quantize_impl: did not find weights for {name}" for name in quantised]
    with pytest.raises(ModelError, match="has nothing for any tensor"):
        quantize_model(quantizer(as_q8_0, log="\n".join(lines)), request(source, imatrix=str(matrix)))
    assert not source.with_name("tiny-Q8_0.gguf").exists()
    session = quantizer(as_q8_0, log=lines[0])
    quantize_model(session, request(source, imatrix=str(matrix)))
    assert "has nothing for 1 of 16 tensors" in capsys.readouterr().err
    (words, *_) = [words for words in session.runner.calls if "--dry-run" not in words]  # type: ignore[attr-defined]
    assert words[words.index("--imatrix") + 1] == "imatrix.dat"


@pytest.mark.usefixtures("no_build")
def test_a_matrix_that_is_not_there_or_is_a_model_is_refused(session: Session, source: Path) -> None:
    with pytest.raises(UsageError, match="no importance matrix"):
        quantize_model(session, request(source, imatrix="nowhere.gguf"))
    with pytest.raises(ModelError, match="is no importance matrix"):
        quantize_model(session, request(source, imatrix=str(source)))


def test_a_forecast_writes_nothing(source: Path, quantizer: Callable[..., Session]) -> None:
    session = quantizer(lambda _: pytest.fail("it was begun"))
    outcome = forecast_quantisations(session, request(source, "Q8_0", "Q4_K_M"))
    # by hand: 188,992 bytes of the file for Q8_0, whose header is as long as that of the source
    assert [entry.size - quantize.HEADER_GROWTH for entry in outcome.quantised] == [188_992, 145_216]
    assert [entry.as_json()["made"] for entry in outcome.quantised] == [False, False]
    assert left_beside(source) == []


def test_dry_says_what_would_be_built_and_made(
    session: Session, source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(quantize, "build_quantizer", lambda _: pytest.fail("llama-quantize was built"))
    dry = dataclasses.replace(session, dry=True)
    would = would_quantize(dry, request(source, "Q8_0", folder=str(tmp_path / "out")))
    assert [entry.action for entry in would if entry.action != "fetch"] == ["build", "make"]
    assert would[-1].sentence() == f"would make tiny-Q8_0.gguf in {tmp_path / 'out'}"
    assert left_beside(source) == []
