"""GGUF: the header of a llama.cpp model file, read without the weights and without trust.

Format: docs/gguf.md of ggml-org/ggml. Everything that the file says of its own sizes is compared with the size it has
before it is used, so a damaged or hostile file costs neither memory nor time. Versions 2 and 3, little-endian.
"""

from __future__ import annotations

import dataclasses
import mmap
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from core.errors import ModelError
from core.files import human_bytes
from native.formats.foreign import HEAD_BYTES, recognise
from native.formats.ggml import FILE_TYPES, REMOVED_TYPES, TENSOR_TYPES, TensorType
from native.formats.gguf_reader import GgufReader, LongArray

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
LARGEST_ALIGNMENT = 1 << 31
NEWER_BELOW = 256
"""A number that is not known and less than this one comes from a newer llama.cpp; a larger one from damage."""
MAX_DIMENSIONS = 4
NOTED_ZEROS = 65536


@dataclass(frozen=True, kw_only=True)
class GgufTensor:
    name: str
    type: str
    shape: tuple[int, ...]
    """As the file lists it: the row length first."""
    offset: int
    """From the begin of the tensor data."""
    size: int

    @property
    def elements(self) -> int:
        count = 1
        for dimension in self.shape:
            count *= dimension
        return count


@dataclass(frozen=True, kw_only=True)
class GgufInfo:
    """What a GGUF file says of itself. Numbers that the file lacks are 0, texts empty."""

    version: int
    file_size: int
    architecture: str
    """Empty for files that are no model of their own, such as the later pieces of a split one."""
    name: str
    licence: str
    file_type: str
    """Name of the mixture of tensor types, for example ``Q4_K_M``."""
    vocabulary: int
    chat_template: bool
    data_offset: int
    alignment: int
    metadata: dict[str, Any]
    tensors: tuple[GgufTensor, ...]
    ends_in_zeros: bool
    """Whether the last `NOTED_ZEROS` bytes of the weights are zeros, as in a download whose space was reserved."""

    @cached_property
    def parameters(self) -> int:
        return sum(tensor.elements for tensor in self.tensors)

    @cached_property
    def weight_bytes(self) -> int:
        return sum(tensor.size for tensor in self.tensors)

    @cached_property
    def type_bytes(self) -> dict[str, int]:
        """Bytes of weights by tensor type, most first."""
        by_type: dict[str, int] = defaultdict(int)
        for tensor in self.tensors:
            by_type[tensor.type] += tensor.size
        return dict(sorted(by_type.items(), key=lambda entry: -entry[1]))

    @property
    def bits_per_weight(self) -> float:
        return self.weight_bytes * 8 / self.parameters if self.parameters else 0.0

    @property
    def context_length(self) -> int:
        return self.of_architecture("context_length")

    @property
    def layers(self) -> int:
        return self.of_architecture("block_count")

    @property
    def embedding_length(self) -> int:
        return self.of_architecture("embedding_length")

    @property
    def feed_forward_length(self) -> int:
        return self.of_architecture("feed_forward_length")

    @property
    def heads(self) -> int:
        return self.of_architecture("attention.head_count")

    @property
    def kv_heads(self) -> int:
        return self.of_architecture("attention.head_count_kv") or self.heads

    @property
    def pieces(self) -> int:
        """Files that the model was split into; 1: it was not."""
        return max(1, self.number("split.count"))

    @property
    def piece(self) -> int:
        """Which of them this is, counted from 0."""
        return self.number("split.no")

    def number(self, key: str) -> int:
        """A whole number of the metadata; 0 when it is not there, the largest where there is one for each layer."""
        value = self.metadata.get(key, 0)
        if isinstance(value, tuple):
            value = max((item for item in value if isinstance(item, int)), default=0)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    def of_architecture(self, name: str) -> int:
        """As `number`, for a key of the model's architecture."""
        return self.number(f"{self.architecture}.{name}")


def read_gguf(path: Path) -> GgufInfo:
    """Reads the header of `path`, all of whose tensor data must be there.

    Raises ModelError for a file that is missing, empty, cut short, of another kind or version, or that lies.
    """
    try:
        size = path.stat().st_size
        if size == 0:
            raise ModelError(f"{path} is empty: a download that failed leaves such files.")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _read(GgufReader(content, path))
    except (FileNotFoundError, IsADirectoryError) as error:
        raise ModelError(f"There is no model file {path}.") from error
    except (OSError, ValueError) as error:  # mmap refuses pipes and folders with ValueError
        raise ModelError(f"{path} cannot be read: {error}.") from error


def _read(reader: GgufReader) -> GgufInfo:
    version = _read_version(reader)
    tensor_count, metadata_count = reader.count("tensors"), reader.count("metadata")
    metadata: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    for _ in range(metadata_count):
        key = reader.text()
        if key in metadata:
            raise reader.error(f"has the key {key[:80]!r} twice")
        metadata[key] = value = reader.value()
        lengths[key] = value.count if isinstance(value, LongArray) else len(value) if isinstance(value, tuple) else 0
    tensors = tuple(_read_tensor(reader) for _ in range(tensor_count))
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    whole = isinstance(alignment, int) and not isinstance(alignment, bool) and 0 < alignment <= LARGEST_ALIGNMENT
    if not whole or alignment & (alignment - 1):
        raise reader.error(f"has the alignment {alignment!r}, which is no power of two")
    data_offset = -(-reader.position // alignment) * alignment
    _check_tensors(reader, tensors, alignment, data_offset)
    return _summarise(reader, version, metadata, lengths, tensors, alignment, data_offset)


def _read_version(reader: GgufReader) -> int:
    head = bytes(reader.content[:HEAD_BYTES])
    if not head.startswith(MAGIC):
        foreign = recognise(head)
        looks = f"looks like {foreign.title}" if foreign else f"begins with {head[:4]!r} instead of {MAGIC!r}"
        remedy = foreign.remedy if foreign else None
        raise ModelError(f"{reader.path} is not a GGUF model: it {looks}.", remedy=remedy)
    reader.position = len(MAGIC)
    version = int(reader.scalar(4))
    if version in VERSIONS:
        return version
    if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, *VERSIONS):
        raise ModelError(
            f"{reader.path} is a GGUF file for big-endian machines, which no board of ours is.",
            remedy="Take the model's usual file, or turn this one with `gguf-convert-endian FILE little` (Python's gguf).",
        )
    if version == 1:
        raise ModelError(
            f"{reader.path} is GGUF version 1, which was in use for a few weeks of 2023; llama.cpp reads it no more.",
            remedy="Fetch a newer file of the model, or convert the original one again.",
        )
    if version < NEWER_BELOW:
        raise ModelError(
            f"{reader.path} is GGUF version {version}; versions {' and '.join(map(str, VERSIONS))} can be read.",
            remedy="Take a file of version 3 of the model.",
        )
    raise reader.error(f"claims to be GGUF version {version}")


def _read_tensor(reader: GgufReader) -> GgufTensor:
    name = reader.text()
    dimensions = int(reader.scalar(4))
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise reader.error(f"gives the tensor {name[:80]!r} {dimensions} dimensions")
    shape = tuple(int(reader.scalar(10)) for _ in range(dimensions))
    number, offset = int(reader.scalar(4)), int(reader.scalar(10))
    kind = TENSOR_TYPES.get(number)
    if kind is None:
        raise _unknown_type(reader, name, number)
    return GgufTensor(name=name, type=kind.name, shape=shape, offset=offset, size=_size(reader, name, shape, kind))


def _unknown_type(reader: GgufReader, name: str, number: int) -> ModelError:
    stores = f"stores the tensor {name[:80]!r}"
    if number in REMOVED_TYPES:
        old, new = REMOVED_TYPES[number]
        return ModelError(
            f"{reader.path} {stores} as {old}, a type that llama.cpp has removed.",
            remedy=f"Take the {new} file of the same model"
            + ("; it is arranged for the CPU when it is loaded." if number > 5 else "."),
        )
    if number < NEWER_BELOW:
        return ModelError(
            f"{reader.path} {stores} with the type number {number}, which is newer than the llama.cpp of the recipe.",
            remedy="Take another quantisation of the model, such as Q4_K_M or Q8_0.",
        )
    return reader.error(f"{stores} with the type number {number}, which is not known here")


def _size(reader: GgufReader, name: str, shape: tuple[int, ...], kind: TensorType) -> int:
    elements = 1
    for dimension in shape:
        elements *= dimension
        if not 0 < elements < 1 << 48:
            raise reader.error(f"gives the tensor {name[:80]!r} the impossible shape {shape}")
    if shape[0] % kind.block_elements:
        raise reader.error(
            f"stores the tensor {name[:80]!r} as {kind.name} with rows of {shape[0]}, no multiple of "
            f"{kind.block_elements}"
        )
    return elements // kind.block_elements * kind.block_bytes


def _check_tensors(reader: GgufReader, tensors: tuple[GgufTensor, ...], alignment: int, data_offset: int) -> None:
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise reader.error("has two tensors of the same name")
    for tensor in tensors:
        if tensor.offset % alignment:
            raise reader.error(f"puts the tensor {tensor.name[:80]!r} at {tensor.offset}, against its alignment")
    end = data_offset + max((tensor.offset + tensor.size for tensor in tensors), default=0)
    if tensors and end > reader.size:
        missing = end - reader.size
        raise ModelError(
            f"{reader.path} is cut short: it has {reader.size} bytes, but its tensors end at {end}; "
            f"{human_bytes(missing)} ({missing / end:.0%}) are missing.",
            expected=end,
            found=reader.size,
        )


def _summarise(
    reader: GgufReader,
    version: int,
    metadata: dict[str, Any],
    lengths: dict[str, int],
    tensors: tuple[GgufTensor, ...],
    alignment: int,
    data_offset: int,
) -> GgufInfo:
    info = GgufInfo(
        version=version,
        file_size=reader.size,
        architecture=_text(metadata.get("general.architecture")),
        name=_text(metadata.get("general.name")),
        licence=_text(metadata.get("general.license")),
        file_type=FILE_TYPES.get(metadata.get("general.file_type", -1), ""),
        vocabulary=lengths.get("tokenizer.ggml.tokens", 0),
        chat_template=bool(metadata.get("tokenizer.chat_template")),
        data_offset=data_offset,
        alignment=alignment,
        metadata=metadata,
        tensors=tensors,
        ends_in_zeros=reader.size - data_offset >= NOTED_ZEROS and not any(reader.content[-NOTED_ZEROS:]),
    )
    if not info.architecture and info.pieces == 1 and "general.type" not in metadata:
        raise reader.error("does not name its architecture (general.architecture)")
    return info if info.vocabulary else dataclasses.replace(info, vocabulary=info.of_architecture("vocab_size"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
