"""GGUF files that are more than one model, or less: pieces, adapters, vocabularies, projectors, strange architectures."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy
import pytest

from core.errors import ModelError
from core.session import PROJECT, Session
from native.formats.gguf import read_gguf
from native.models.gguf_model import known_architectures, read_gguf_model
from native.models.inspect import describe_lines, inspect_model
from native.models.models import find_model
from native.recipe.recipe import load_recipe
from tests.shared.tiny_gguf import write_tiny_gguf


@pytest.fixture(scope="module")
def first_piece(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the tiny model's 21 tensors, split by the gguf package into pieces of 8."""
    return write_tiny_gguf(tmp_path_factory.mktemp("split") / "tiny.gguf", tensors_in_piece=8)


@pytest.fixture
def pieces(first_piece: Path, tmp_path: Path) -> Path:
    """A copy of the three pieces that may be spoilt; the first of them."""
    for file in first_piece.parent.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path / first_piece.name


def write(path: Path, architecture: str, *, kind: str = "", tensors: int = 1, **keys: str) -> Path:
    writer = gguf.GGUFWriter(path, architecture)
    if kind:
        writer.add_type(kind)
    for name, value in keys.items():
        writer.add_string(name.replace("__", "."), value)
    for number in range(tensors):
        writer.add_tensor(f"t{number}", numpy.zeros((4, 32), dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_first_piece_stands_for_the_whole_split_model(session: Session, pieces: Path, tmp_path: Path) -> None:
    whole = read_gguf(write_tiny_gguf(tmp_path / "whole.gguf"))
    model = read_gguf_model(pieces)
    assert [file.name for file in model.files] == [f"tiny-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    assert {(t.name, t.shape, t.size) for t in model.info.tensors} == {(t.name, t.shape, t.size) for t in whole.tensors}
    assert (model.info.parameters, model.info.weight_bytes) == (whole.parameters, whole.weight_bytes)
    sizes = [file.stat().st_size for file in model.files]
    assert model.info.file_size == sum(sizes)
    description = inspect_model(pieces)
    assert (description["weight_bytes"], description["problems"]) == (whole.weight_bytes, [])
    assert any("with 2 further pieces" in line for line in describe_lines(description))
    found = find_model(session, str(pieces))
    assert (found.size, [piece.path.name for piece in found.pieces]) == (
        sum(sizes),
        ["tiny-00002-of-00003.gguf", "tiny-00003-of-00003.gguf"],
    )


def test_another_piece_names_the_first(pieces: Path) -> None:
    with pytest.raises(ModelError, match="piece 2 of the 3 pieces of a split model") as caught:
        read_gguf_model(pieces.with_name("tiny-00002-of-00003.gguf"))
    assert "tiny-00001-of-00003.gguf" in caught.value.remedy


def test_a_missing_piece_is_named(pieces: Path) -> None:
    pieces.with_name("tiny-00003-of-00003.gguf").unlink()
    with pytest.raises(ModelError, match=re.escape("tiny-00003-of-00003.gguf (1 in all) is not beside it")):
        read_gguf_model(pieces)


def test_a_piece_that_was_renamed_would_not_find_the_others(pieces: Path) -> None:
    renamed = pieces.rename(pieces.with_name("model.gguf"))
    with pytest.raises(ModelError, match="its name does not end in -00001-of-00003"):
        read_gguf_model(renamed)


def test_links_to_pieces_keep_their_names(session: Session, pieces: Path, tmp_path: Path) -> None:
    store, links = tmp_path / "blobs", tmp_path / "snapshot"
    store.mkdir()
    links.mkdir()
    for number, piece in enumerate(sorted(tmp_path.glob("tiny-*"))):
        (links / piece.name).symlink_to(piece.rename(store / f"{number:064x}"))
    found = find_model(session, str(links / pieces.name))
    assert [found.path.name, *(piece.path.name for piece in found.pieces)] == [
        f"tiny-0000{number}-of-00003.gguf" for number in (1, 2, 3)
    ]


@pytest.mark.parametrize("ending", [".part1of2", ".part2of2", "-split-b"])
def test_what_was_cut_without_regard_to_its_content_is_not_called_damaged(
    session: Session, tmp_path: Path, ending: str
) -> None:
    content = write_tiny_gguf(tmp_path / "whole.gguf").read_bytes()
    half = tmp_path / f"tiny.gguf{ending}"
    half.write_bytes(content[: len(content) // 2] if "1" in ending else content[len(content) // 2 :])
    for look in (lambda: inspect_model(half), lambda: find_model(session, str(half))):
        with pytest.raises(ModelError, match=r"is a piece of tiny\.gguf") as caught:
            look()
        assert "> tiny.gguf" in caught.value.remedy


def test_more_layers_than_tensors_are_refused_before_anything_is_worked_out(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "file.gguf", "llama")
    writer.add_block_count(2**32 - 1)
    writer.add_tensor("t", numpy.zeros((4, 32), dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelError, match="says that it has 4294967295 layers, but it has 1 tensors"):
        read_gguf_model(tmp_path / "file.gguf")


@pytest.mark.parametrize("ends_in_zeros", [True, False])
def test_a_download_whose_space_was_reserved_is_told(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str], ends_in_zeros: bool
) -> None:
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("t", numpy.full((512, 64), 0 if ends_in_zeros else 1, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    description = inspect_model(path)
    assert bool(description["notes"]) is ends_in_zeros
    assert any("a download that did not end" in line for line in describe_lines(description)) is ends_in_zeros
    assert find_model(session, str(path)).summary["ends_in_zeros"] is ends_in_zeros
    assert ("a download that did not end" in capsys.readouterr().err) is ends_in_zeros


def test_pieces_of_different_models_are_told_apart(pieces: Path) -> None:
    shutil.copy(pieces, pieces.with_name("tiny-00002-of-00003.gguf"))
    with pytest.raises(ModelError, match="says that it is piece 1 of 3, not 2 of 3"):
        read_gguf_model(pieces)


COMPANIONS: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    # role → how it is made, what is said, what to do
    "adapter": (lambda path: write(path, "llama", kind="adapter", adapter__type="lora"), "an adapter", "--lora"),
    "imatrix": (lambda path: write(path, "", kind="imatrix"), "an importance matrix", "llama-quantize"),
    "mmproj": (lambda path: write(path, "clip", kind="mmproj"), "the multimodal projector", "the language model"),
    "mmproj of before the type": (lambda path: write(path, "clip"), "the multimodal projector", "the language model"),
    "control vector": (lambda path: write(path, "controlvector"), "a control vector", "--control-vector"),
    "vocabulary": (lambda path: write(path, "llama", tensors=0), "a vocabulary only", "Fetch the model itself"),
}


@pytest.mark.parametrize("role", COMPANIONS)
def test_what_goes_with_a_model_is_described_and_not_run(session: Session, tmp_path: Path, role: str) -> None:
    make, said, remedy = COMPANIONS[role]
    path = make(tmp_path / "file.gguf")
    description = inspect_model(path)
    assert role.startswith(description["role"])
    (problem,) = description["problems"]
    assert said in problem and remedy in problem
    with pytest.raises(ModelError, match=said) as caught:
        find_model(session, str(path))
    assert remedy in caught.value.remedy
    assert "damaged" not in caught.value.message


def test_an_architecture_that_the_pinned_llama_does_not_know_is_told_before_anything_is_sent(
    session: Session, tmp_path: Path
) -> None:
    path = write(tmp_path / "file.gguf", "llama9")
    assert "'llama9' is not known to the llama.cpp of the recipe" in inspect_model(path)["problems"][0]
    with pytest.raises(ModelError, match="'llama9' is not known"):
        find_model(session, str(path))


def test_the_list_of_architectures_is_that_of_the_pin() -> None:
    text = (PROJECT / "native/programs/llama/architectures.yaml").read_text(encoding="utf-8")
    assert f"commit: {load_recipe('llama').commit}\n" in text
    # Those that the gguf package of 2026 can write and that are older than the pin; what it lacks is newer or a tool's.
    known = set(known_architectures())
    theirs = set(gguf.MODEL_ARCH_NAMES.values())
    assert len(known & theirs) > 100
    assert {"llama", "gemma3", "qwen3", "phi3", "gpt-oss", "smollm3", "lfm2"} <= known
    assert not {"clip", "(unknown)"} & known
    # facts of the layers: six in gemma3, two in gemma2 and gpt-oss, four in olmo2
    assert [
        known_architectures()[name].get("window") for name in ("gemma3", "gemma2", "gpt-oss", "olmo2", "llama")
    ] == [
        6,
        2,
        2,
        4,
        None,
    ]
