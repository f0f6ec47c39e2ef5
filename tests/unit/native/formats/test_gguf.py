"""GGUF headers: honest ones compared with the `gguf` package, damaged and hostile ones refused with a sentence."""

from __future__ import annotations

import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from core.errors import ModelError
from native.formats.ggml import FILE_TYPES, TENSOR_TYPES
from native.formats.gguf import read_gguf
from native.formats.gguf_reader import LongArray
from tests.shared.tiny_gguf import write_tiny_gguf

U32, STR, ARR, U64 = 4, 8, 9, 10


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", "Q8_0")


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def key(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def tensor(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


ARCHITECTURE = key("general.architecture", STR, text("llama"))


def file_of(
    *parts: bytes, tensors: int = 0, keys: int = 1, version: int = 3, data: bytes = b"", magic: bytes = b"GGUF"
) -> bytes:
    header = magic + struct.pack("<IQQ", version, tensors, keys) + b"".join(parts)
    return header + bytes(-len(header) % 32) + data


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0", "Q4_0"])
def test_a_model_reads_as_the_gguf_package_reads_it(tmp_path: Path, kind: str) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", kind)
    info = read_gguf(path)
    reader = gguf.GGUFReader(path)
    assert info.data_offset == reader.data_offset
    theirs = {t.name: (t.tensor_type.name, tuple(t.shape.tolist()), int(t.n_bytes)) for t in reader.tensors}
    assert {t.name: (t.type, t.shape, t.size) for t in info.tensors} == theirs
    assert {t.name: info.data_offset + t.offset for t in info.tensors} == {
        t.name: t.data_offset for t in reader.tensors
    }
    assert info.parameters == sum(int(t.n_elements) for t in reader.tensors)
    assert info.weight_bytes == sum(int(t.n_bytes) for t in reader.tensors)
    for name, field in reader.fields.items():
        if name.startswith("GGUF."):
            continue
        theirs_value: Any = field.contents()
        ours = info.metadata[name]
        assert (list(ours) if isinstance(ours, tuple) else ours) == theirs_value


def test_the_summary_says_what_the_model_was_made_with(tiny: Path) -> None:
    info = read_gguf(tiny)
    assert (info.architecture, info.name, info.file_type) == ("llama", "tiny-random", "Q8_0")
    assert (info.context_length, info.layers, info.embedding_length) == (512, 2, 64)
    assert (info.heads, info.kv_heads, info.vocabulary) == (4, 2, 512)
    assert list(info.type_bytes) == ["Q8_0", "F32"]
    assert not info.chat_template
    # by hand: norms are 5 vectors of 64 single-precision numbers
    assert info.type_bytes["F32"] == 5 * 64 * 4


def test_chat_template_licence_and_long_vocabularies_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_license("apache-2.0")
    writer.add_chat_template("{{ messages }}")
    writer.add_token_list([f"token {n}" for n in range(10_000)])
    writer.add_token_scores([0.5] * 10_000)
    writer.add_array("llama.attention.head_count_kv", [1, 4, 2])
    writer.add_tensor("a", numpy.zeros((4, 32), dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    info = read_gguf(path)
    assert (info.chat_template, info.licence, info.vocabulary, info.kv_heads) == (True, "apache-2.0", 10_000, 4)
    assert info.metadata["tokenizer.ggml.tokens"] == LongArray(count=10_000)


def test_type_tables_agree_with_the_gguf_package() -> None:
    theirs = {int(t): (t.name, *gguf.GGML_QUANT_SIZES[t]) for t in gguf.GGMLQuantizationType}
    # Q8_1 exists in memory only; the package counts it with single-precision sums, as ggml once did.
    del theirs[9]
    # The package is older than this type, of which ggml-common.h has 64 numbers in 2 + 16 bytes.
    theirs.setdefault(42, ("Q2_0", 64, 18))
    assert {n: (t.name, t.block_elements, t.block_bytes) for n, t in TENSOR_TYPES.items() if n != 9} == theirs
    names = {int(t): t.name.removeprefix("MOSTLY_").removeprefix("ALL_") for t in gguf.LlamaFileType}
    del names[1024]
    assert names | {41: "Q2_0"} == FILE_TYPES


def test_versions_2_and_3_are_read_and_others_named(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    for version in (2, 3):
        path.write_bytes(file_of(ARCHITECTURE, version=version))
        assert read_gguf(path).version == version
    path.write_bytes(file_of(ARCHITECTURE, version=1))
    with pytest.raises(ModelError, match="version 1"):
        read_gguf(path)
    path.write_bytes(b"GGUF" + struct.pack(">IQQ", 3, 0, 0))
    with pytest.raises(ModelError, match="big-endian"):
        read_gguf(path)


WRITTEN_FOR_OTHERS: dict[str, tuple[Callable[[], bytes], str]] = {
    # what is said of the file → the file, and what to do
    "as Q4_0_4_4, a type that llama.cpp has removed": (
        lambda: file_of(ARCHITECTURE, tensor("t", (32,), kind=31), tensors=1),
        "Take the Q4_0 file",
    ),
    "as Q4_0_4_8, a type": (lambda: file_of(ARCHITECTURE, tensor("t", (32,), kind=32), tensors=1), "Take the Q4_0"),
    "as Q4_0_8_8, a type": (lambda: file_of(ARCHITECTURE, tensor("t", (32,), kind=33), tensors=1), "Take the Q4_0"),
    "as IQ4_NL_4_4, a type": (lambda: file_of(ARCHITECTURE, tensor("t", (32,), kind=36), tensors=1), "Take the IQ4_NL"),
    "as Q4_2, a type": (lambda: file_of(ARCHITECTURE, tensor("t", (32,), kind=4), tensors=1), "Take the Q4_0 file"),
    "type number 77, which is newer": (
        lambda: file_of(ARCHITECTURE, tensor("t", (32,), kind=77), tensors=1),
        "another quantisation",
    ),
    "for big-endian machines": (lambda: b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "gguf-convert-endian"),
    "GGUF version 1, which": (lambda: b"GGUF" + struct.pack("<III", 1, 0, 0) + bytes(64), "Fetch a newer file"),
    "GGUF version 4; versions 2 and 3": (lambda: file_of(ARCHITECTURE, version=4), "Take a file of version 3"),
    r"old GGML model \(GGJT\)": (lambda: struct.pack("<II", 0x67676A74, 3) + bytes(64), "reads GGUF only"),
    "old GGML model .whisper": (lambda: struct.pack("<II", 0x67676D6C, 3) + bytes(64), "reads GGUF only"),
    "old LoRA adapter": (lambda: struct.pack("<II", 0x67676C61, 1) + bytes(64), "reads GGUF only"),
    "importance matrix": (
        lambda: struct.pack("<iii", 2, 1, 19) + b"blk.0.attn_k.weight" + bytes(64),
        "llama-quantize --imatrix",
    ),
    "Git LFS pointer": (lambda: b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
}


@pytest.mark.parametrize("said", WRITTEN_FOR_OTHERS)
def test_a_file_that_is_whole_but_not_for_our_llama_is_named_with_what_to_do_and_not_called_damaged(
    tmp_path: Path, said: str
) -> None:
    content, remedy = WRITTEN_FOR_OTHERS[said]
    path = tmp_path / "m.gguf"
    path.write_bytes(content())
    with pytest.raises(ModelError, match=said) as caught:
        read_gguf(path)
    assert remedy in caught.value.remedy
    assert "damaged" not in caught.value.message
    assert "again; `ohforge model.list`" not in caught.value.remedy


@pytest.mark.parametrize("alignment", [1, 64, 2 << 20, 1 << 31])
def test_every_power_of_two_is_an_alignment(tmp_path: Path, alignment: int) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(file_of(ARCHITECTURE, key("general.alignment", U32, struct.pack("<I", alignment)), keys=2))
    assert read_gguf(path).alignment == alignment


def test_a_file_that_lost_its_last_byte_is_called_cut_short(tiny: Path, tmp_path: Path) -> None:
    content = tiny.read_bytes()
    info = read_gguf(tiny)
    last = max(info.tensors, key=lambda t: t.offset)
    end = info.data_offset + last.offset + last.size
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(content[: end - 1])
    with pytest.raises(ModelError, match="cut short") as caught:
        read_gguf(cut)
    assert caught.value.details == {"expected": end, "found": end - 1}
    assert caught.value.exit_status == 76
    cut.write_bytes(content[:end])
    assert read_gguf(cut).file_size == end


@hypothesis_settings(max_examples=80)
@given(fraction=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_anywhere_is_refused_with_a_sentence(tiny: Path, tmp_path: Path, fraction: float) -> None:
    content = tiny.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(content[: int((len(content) - 64) * fraction)])
    with pytest.raises(ModelError):
        read_gguf(cut)


@hypothesis_settings(max_examples=300)
@given(data=st.data())
def test_flipped_bits_in_the_header_never_end_in_anything_but_an_answer_or_a_model_error(
    tiny: Path, tmp_path: Path, data: st.DataObject
) -> None:
    content = bytearray(tiny.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, 14_000))
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path / "flipped.gguf"
    path.write_bytes(content)
    try:
        read_gguf(path)
    except ModelError as error:
        assert str(path) in error.message


HUGE = (1 << 64) - 1
HOSTILE: dict[str, Callable[[], bytes]] = {
    "tensors, more than": lambda: file_of(ARCHITECTURE, tensors=HUGE),
    "metadata, more than": lambda: file_of(ARCHITECTURE, keys=1 << 40),
    "behind the end": lambda: file_of(struct.pack("<Q", HUGE) + b"x"),
    "header goes on": lambda: file_of(ARCHITECTURE, key("a", ARR, struct.pack("<IQ", U32, 1 << 61)), keys=2),
    "beyond all measure": lambda: file_of(
        ARCHITECTURE, key("a", ARR, struct.pack("<IQ", ARR, 1) * 50 + bytes(64)), keys=2
    ),
    "unknown kind 77": lambda: file_of(ARCHITECTURE, key("a", 77, b""), keys=2),
    "unknown kind 78": lambda: file_of(ARCHITECTURE, key("a", ARR, struct.pack("<IQ", 78, 1)), keys=2),
    "twice": lambda: file_of(ARCHITECTURE, ARCHITECTURE, keys=2),
    "5 dimensions": lambda: file_of(ARCHITECTURE, tensor("t", (1, 1, 1, 1, 1)), tensors=1),
    "impossible shape": lambda: file_of(ARCHITECTURE, tensor("t", (1 << 40, 1 << 40)), tensors=1),
    "impossible": lambda: file_of(ARCHITECTURE, tensor("t", (0, 4)), tensors=1),
    "no multiple of 32": lambda: file_of(ARCHITECTURE, tensor("t", (33,), kind=2), tensors=1),
    "type number 99999": lambda: file_of(ARCHITECTURE, tensor("t", (32,), kind=99_999), tensors=1),
    "claims to be GGUF version 70000": lambda: file_of(ARCHITECTURE, version=70_000),
    "against its alignment": lambda: file_of(ARCHITECTURE, tensor("t", (1,), offset=3), tensors=1, data=bytes(99)),
    "same name": lambda: file_of(
        ARCHITECTURE, tensor("t", (1,)), tensor("t", (1,), offset=32), tensors=2, data=bytes(99)
    ),
    "cut short": lambda: file_of(ARCHITECTURE, tensor("t", (1,), offset=1 << 62), tensors=1),
    "no power of two": lambda: file_of(ARCHITECTURE, key("general.alignment", U32, struct.pack("<I", 24)), keys=2),
    "does not name its architecture": lambda: file_of(key("a", U32, bytes(4))),
    "Git LFS pointer": lambda: b"version https://git-lfs.github.com/spec/v1\n",
    "web page": lambda: b"<!DOCTYPE html><html>please sign in</html>",
    "begins with": lambda: file_of(ARCHITECTURE, magic=b"GGJT"),
}


@pytest.mark.parametrize("sentence", HOSTILE)
def test_a_damaged_or_hostile_header_is_refused_with_a_sentence(tmp_path: Path, sentence: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(HOSTILE[sentence]())
    with pytest.raises(ModelError, match=sentence):
        read_gguf(path)


def test_a_missing_an_empty_and_an_unreadable_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model file"):
        read_gguf(tmp_path / "absent.gguf")
    (tmp_path / "empty.gguf").touch()
    with pytest.raises(ModelError, match="is empty"):
        read_gguf(tmp_path / "empty.gguf")
    with pytest.raises(ModelError):
        read_gguf(tmp_path)


SPARSE = {
    # what stands in the file before nothing but zeros, and how large the file then claims to be
    "five million tensors": (b"GGUF" + struct.pack("<IQQ", 3, 5_000_000, 0), 130_000_000),
    "ten million entries": (b"GGUF" + struct.pack("<IQQ", 3, 0, 10_000_000), 140_000_000),
    "a text of 500 MB": (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 500_000_000),
        600_000_000,
    ),
    "an array of 50 million texts": (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<IIQ", 9, STR, 50_000_000),
        600_000_000,
    ),
}


@pytest.mark.parametrize("case", SPARSE)
def test_a_sparse_file_that_claims_more_than_any_model_has_is_refused_before_the_work_is_done(
    tmp_path: Path, case: str
) -> None:
    head, size = SPARSE[case]
    path = tmp_path / "sparse.gguf"
    path.write_bytes(head)
    os.truncate(path, size)
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match="number of items to more than 4000000"):
            read_gguf(path)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
