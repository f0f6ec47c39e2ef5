"""What a GGUF file is for llama.cpp: a model, a piece of one, or something that goes with one."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from core.data_file import read_data
from core.errors import ModelError
from native.formats.gguf import GgufInfo, read_gguf
from native.programs import PROGRAMS

ARCHITECTURES_FILE = PROGRAMS / "llama" / "architectures.yaml"
PIECE_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
"""How llama.cpp finds the other pieces of a split model."""
MANY_PIECES = 99_999


@dataclass(frozen=True, kw_only=True)
class Role:
    """What a file is that is no model by itself. `title` completes "it is …", `remedy` says what to do with it."""

    name: str
    title: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class GgufModel:
    """All that belongs to one model. `info` has the tensors of all files, and the first one's metadata."""

    info: GgufInfo
    files: tuple[Path, ...]
    """The one that is named to llama.cpp first."""


ADAPTER = Role(
    name="adapter",
    title="an adapter (LoRA) for a model, not a model",
    remedy="Run the model that it was made for, with it: `ohforge board.run MODEL --file ADAPTER -- --lora ADAPTER`.",
)
CONTROL_VECTOR = Role(
    name="control vector",
    title="a control vector for a model, not a model",
    remedy="Run the model that it was made for: `ohforge board.run MODEL --file VECTOR -- --control-vector VECTOR`.",
)
IMPORTANCE = Role(
    name="imatrix",
    title="an importance matrix, not a model",
    remedy="It is for llama-quantize (--imatrix), when a model is quantised.",
)
PROJECTOR = Role(
    name="mmproj",
    title="the multimodal projector of a model, not the model",
    remedy="Name the language model that it belongs to; the recipe's programs read text only and do not need it.",
)
VOCABULARY = Role(
    name="vocabulary",
    title="a vocabulary only, without weights",
    remedy="Fetch the model itself; such files are for tests of tokenisers.",
)
BY_TYPE = {"adapter": ADAPTER, "imatrix": IMPORTANCE, "mmproj": PROJECTOR}
BY_ARCHITECTURE = {"clip": PROJECTOR, "controlvector": CONTROL_VECTOR}


def read_gguf_model(path: Path) -> GgufModel:
    """The file at `path`, or the first piece of a split model with all others, which must lie beside it.

    Raises ModelError for what cannot be read, for a later piece, and when a piece is missing or of another model.
    """
    first = read_gguf(path)
    if first.pieces == 1:
        _require_possible(path, first)
        return GgufModel(info=first, files=(path,))
    files = _find_pieces(path, first)
    infos = [first, *map(read_gguf, files[1:])]
    for number, (file, info) in enumerate(zip(files, infos, strict=True)):
        if (info.piece, info.pieces) != (number, len(files)):
            raise ModelError(
                f"{file} says that it is piece {info.piece + 1} of {info.pieces}, not {number + 1} of {len(files)}.",
                remedy="Fetch the pieces of one and the same model into one folder.",
            )
    tensors = tuple(tensor for info in infos for tensor in info.tensors)
    wanted = first.number("split.tensors.count")
    if wanted not in (0, len(tensors)) or len({tensor.name for tensor in tensors}) != len(tensors):
        raise ModelError(
            f"The pieces of {path} have {len(tensors)} tensors, but the model has {wanted}.",
            remedy="Fetch the pieces of one and the same model into one folder.",
        )
    size, zeros = sum(info.file_size for info in infos), any(info.ends_in_zeros for info in infos)
    whole = dataclasses.replace(first, tensors=tensors, file_size=size, ends_in_zeros=zeros)
    _require_possible(path, whole)
    return GgufModel(info=whole, files=files)


def _require_possible(path: Path, info: GgufInfo) -> None:
    """Raises ModelError when the file counts more layers than its tensors can make."""
    if info.tensors and info.layers > len(info.tensors):
        raise ModelError(
            f"{path} says that it has {info.layers} layers, but it has {len(info.tensors)} tensors in all: it is damaged or "
            "not what it claims to be."
        )


def find_role(info: GgufInfo) -> Role | None:
    """What the file is when it is no model; None when it is one."""
    said = info.metadata.get("general.type", "model")
    if isinstance(said, str) and said != "model":
        unknown = Role(name=said[:80], title=f"no model but {said[:80]!r} (general.type)", remedy="Name a model file.")
        return BY_TYPE.get(said, unknown)
    return BY_ARCHITECTURE.get(info.architecture) or (None if info.tensors else VOCABULARY)


def explain_why_not(info: GgufInfo) -> str:
    """A sentence on why llama.cpp will not run the file; empty when nothing speaks against it."""
    if role := find_role(info):
        return f"It is {role.title}."
    if info.architecture not in known_architectures():
        return f"Its architecture {info.architecture[:80]!r} is not known to the llama.cpp of the recipe."
    return ""


def require_runnable(path: Path, info: GgufInfo) -> None:
    """Raises ModelError with what to do unless llama.cpp runs the file."""
    if sentence := explain_why_not(info):
        role = find_role(info)
        newer = "Take another model; a recipe of your own may fetch a newer llama.cpp (docs/recipes.md)."
        raise ModelError(f"{path} cannot be run. {sentence}", remedy=role.remedy if role else newer)


@cache
def known_architectures() -> Mapping[str, Mapping[str, Any]]:
    """The architectures that the recipe's llama.cpp knows, and what its code fixes for each."""
    entries: dict[str, dict[str, Any]] = read_data(ARCHITECTURES_FILE)["architectures"]
    return entries


def _find_pieces(path: Path, first: GgufInfo) -> tuple[Path, ...]:
    count = first.pieces
    named = PIECE_NAME.fullmatch(path.name)
    if first.piece:
        head = f"{named['stem']}-00001-of-{named['count']}.gguf" if named else "the one that ends in 00001"
        raise ModelError(
            f"{path} is piece {first.piece + 1} of the {count} pieces of a split model.",
            remedy=f"Name the first piece ({head}); the others are taken along.",
        )
    if count > MANY_PIECES or named is None or (int(named["number"]), int(named["count"])) != (1, count):
        raise ModelError(
            f"{path} is the first of the {count} pieces of a split model, but its name does not end in "
            f"-00001-of-{count:05}.gguf, by which llama.cpp finds the others.",
            remedy="Give all pieces the names back that they were made with.",
        )
    files = tuple(path.with_name(f"{named['stem']}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1))
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise ModelError(
            f"{path} is the first of the {count} pieces of a split model, but {', '.join(missing[:3])} "
            f"({len(missing)} in all) is not beside it.",
            remedy="Fetch the missing pieces into the same folder.",
        )
    return files
