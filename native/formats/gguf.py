"""GGUF: the header of a llama.cpp model file, read without the weights and without trust.

Format: docs/gguf.md of ggml-org/ggml. Everything that the file says of its own sizes is compared with the size it has
before it is used, so a damaged or hostile file costs neither memory nor time. Versions 2 and 3, little-endian.
"""

from __future__ import annotations

import mmap
import struct
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import ModelError
from core.files import human_bytes
from native.formats.foreign import HEAD_BYTES, recognise
from native.formats.ggml import FILE_TYPES, TENSOR_TYPES, TensorType

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_DIMENSIONS = 4
MAX_DEPTH = 4
"""Arrays within arrays; none are known to exist."""
KEPT_ELEMENTS = 4096
"""Longer arrays (vocabularies) are not kept, only counted."""
ITEM_LIMIT = 4_000_000
"""Entries, texts and elements that are read from one file before it is called hostile: a sparse file of a few kilobytes on
the disk can claim more than any memory holds. The largest vocabularies have some hundred thousand."""
TEXT_BYTES = 16
"""Bytes of a text that count as one item."""
SMALLEST_ENTRY = {"metadata": 8 + 4 + 1, "tensors": 8 + 4 + 4 + 8}
"""Bytes that one entry takes at least."""
SCALARS: dict[int, struct.Struct] = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    7: struct.Struct("<?"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
STRING, ARRAY = 8, 9


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
class LongArray:
    """An array of the metadata that was only counted."""

    count: int


@dataclass(frozen=True, kw_only=True)
class GgufInfo:
    """What a GGUF file says of itself. Numbers that the file lacks are 0, texts empty."""

    version: int
    file_size: int
    architecture: str
    name: str
    licence: str
    file_type: str
    """Name of the mixture of tensor types, for example ``Q4_K_M``."""
    context_length: int
    layers: int
    embedding_length: int
    feed_forward_length: int
    heads: int
    kv_heads: int
    vocabulary: int
    parameters: int
    weight_bytes: int
    type_bytes: dict[str, int]
    """Bytes of weights by tensor type, most first."""
    chat_template: bool
    data_offset: int
    alignment: int
    metadata: dict[str, Any]
    tensors: tuple[GgufTensor, ...]

    @property
    def bits_per_weight(self) -> float:
        return self.weight_bytes * 8 / self.parameters if self.parameters else 0.0


def read_gguf(path: Path) -> GgufInfo:
    """Reads the header of `path`, all of whose tensor data must be there.

    Raises ModelError for a file that is missing, empty, cut short, of another kind or version, or that lies.
    """
    try:
        size = path.stat().st_size
        if size == 0:
            raise ModelError(f"{path} is empty: a download that failed leaves such files.")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _read(_Reader(content, path))
    except (FileNotFoundError, IsADirectoryError) as error:
        raise ModelError(f"There is no model file {path}.") from error
    except (OSError, ValueError) as error:  # mmap refuses pipes and folders with ValueError
        raise ModelError(f"{path} cannot be read: {error}.") from error


def _read(reader: _Reader) -> GgufInfo:
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
    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
        raise reader.error(f"has the alignment {alignment!r}, which is no power of two")
    data_offset = -(-reader.position // alignment) * alignment
    _check_tensors(reader, tensors, alignment, data_offset)
    return _summarise(reader, version, metadata, lengths, tensors, alignment, data_offset)


def _read_version(reader: _Reader) -> int:
    head = bytes(reader.content[:HEAD_BYTES])
    if not head.startswith(MAGIC):
        foreign = recognise(head)
        looks = f"looks like {foreign.title}" if foreign else f"begins with {head[:4]!r} instead of {MAGIC!r}"
        raise ModelError(f"{reader.path} is not a GGUF model: it {looks}.")
    reader.position = len(MAGIC)
    version = int(reader.scalar(4))
    if version in VERSIONS:
        return version
    if int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS:
        raise reader.error("is a GGUF file for big-endian machines, which no board of ours is")
    raise reader.error(f"is GGUF version {version}; versions {' and '.join(map(str, VERSIONS))} can be read")


def _read_tensor(reader: _Reader) -> GgufTensor:
    name = reader.text()
    dimensions = int(reader.scalar(4))
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise reader.error(f"gives the tensor {name[:80]!r} {dimensions} dimensions")
    shape = tuple(int(reader.scalar(10)) for _ in range(dimensions))
    number, offset = int(reader.scalar(4)), int(reader.scalar(10))
    kind = TENSOR_TYPES.get(number)
    if kind is None:
        raise reader.error(f"stores the tensor {name[:80]!r} with the type number {number}, which is not known here")
    return GgufTensor(name=name, type=kind.name, shape=shape, offset=offset, size=_size(reader, name, shape, kind))


def _size(reader: _Reader, name: str, shape: tuple[int, ...], kind: TensorType) -> int:
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


def _check_tensors(reader: _Reader, tensors: tuple[GgufTensor, ...], alignment: int, data_offset: int) -> None:
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise reader.error("has two tensors of the same name")
    for tensor in tensors:
        if tensor.offset % alignment:
            raise reader.error(f"puts the tensor {tensor.name[:80]!r} at {tensor.offset}, against its alignment")
    end = data_offset + max((tensor.offset + tensor.size for tensor in tensors), default=0)
    if end > reader.size:
        missing = end - reader.size
        raise ModelError(
            f"{reader.path} is cut short: it has {reader.size} bytes, but its tensors end at {end}; "
            f"{human_bytes(missing)} ({missing / end:.0%}) are missing.",
            expected=end,
            found=reader.size,
        )


def _summarise(
    reader: _Reader,
    version: int,
    metadata: dict[str, Any],
    lengths: dict[str, int],
    tensors: tuple[GgufTensor, ...],
    alignment: int,
    data_offset: int,
) -> GgufInfo:
    architecture = _text(metadata.get("general.architecture"))
    if not architecture:
        raise reader.error("does not name its architecture (general.architecture)")

    def number(name: str) -> int:
        value = metadata.get(f"{architecture}.{name}", 0)
        if isinstance(value, tuple):  # one value for each layer: the largest decides what it takes
            value = max((item for item in value if isinstance(item, int)), default=0)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    by_type: dict[str, int] = defaultdict(int)
    for tensor in tensors:
        by_type[tensor.type] += tensor.size
    return GgufInfo(
        version=version,
        file_size=reader.size,
        architecture=architecture,
        name=_text(metadata.get("general.name")),
        licence=_text(metadata.get("general.license")),
        file_type=FILE_TYPES.get(metadata.get("general.file_type", -1), ""),
        context_length=number("context_length"),
        layers=number("block_count"),
        embedding_length=number("embedding_length"),
        feed_forward_length=number("feed_forward_length"),
        heads=number("attention.head_count"),
        kv_heads=number("attention.head_count_kv") or number("attention.head_count"),
        vocabulary=lengths.get("tokenizer.ggml.tokens", 0) or number("vocab_size"),
        parameters=sum(tensor.elements for tensor in tensors),
        weight_bytes=sum(tensor.size for tensor in tensors),
        type_bytes=dict(sorted(by_type.items(), key=lambda entry: -entry[1])),
        chat_template=bool(metadata.get("tokenizer.chat_template")),
        data_offset=data_offset,
        alignment=alignment,
        metadata=metadata,
        tensors=tensors,
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class _Reader:
    """A cursor over the file that never passes its end."""

    def __init__(self, content: mmap.mmap, path: Path) -> None:
        self.content = content
        self.path = path
        self.size = len(content)
        self.position = 0
        self.items_left = ITEM_LIMIT

    def spend(self, items: int) -> None:
        """Counts items that are about to be read; refuses more than any real model has."""
        self.items_left -= items
        if self.items_left < 0:
            raise self.error(f"has more than {ITEM_LIMIT} items in its header")

    def error(self, what: str) -> ModelError:
        return ModelError(f"{self.path} {what}: it is damaged or not what it claims to be.")

    def scalar(self, kind: int) -> Any:
        form = SCALARS[kind]
        self._need(form.size)
        (value,) = form.unpack_from(self.content, self.position)
        self.position += form.size
        return value

    def count(self, what: str) -> int:
        """A number of entries, refused when the rest of the file cannot hold so many."""
        value = int(self.scalar(10))
        if value * SMALLEST_ENTRY[what] > self.size:
            raise self.error(f"claims to have {value} {what}, more than {human_bytes(self.size)} can hold")
        self.spend(TEXT_BYTES * value)
        return value

    def text(self) -> str:
        length = int(self.scalar(10))
        self._need(length)
        self.spend(1 + length // TEXT_BYTES)
        raw = self.content[self.position : self.position + length]
        self.position += length
        return raw.decode("utf-8", "replace")

    def value(self, depth: int = 0) -> Any:
        kind = int(self.scalar(4))
        if kind in SCALARS:
            return self.scalar(kind)
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            return self._array(depth)
        raise self.error(f"has a value of the unknown kind {kind}")

    def _array(self, depth: int) -> Any:
        if depth >= MAX_DEPTH:
            raise self.error("nests arrays beyond all measure")
        kind, count = int(self.scalar(4)), int(self.scalar(10))
        if kind in SCALARS:
            return self._scalars(SCALARS[kind], count)
        if kind not in (STRING, ARRAY):
            raise self.error(f"has an array of the unknown kind {kind}")
        self.spend(count)
        self._need(count * 8)  # each text and each array begins with at least so many bytes
        if kind == STRING:
            return self._texts(count)
        items = tuple(self._array(depth + 1) for _ in range(count))
        return items if count <= KEPT_ELEMENTS else LongArray(count=count)

    def _scalars(self, form: struct.Struct, count: int) -> Any:
        self._need(count * form.size)
        begin = self.position
        self.position += count * form.size
        if count > KEPT_ELEMENTS:
            return LongArray(count=count)
        self.spend(count)
        return tuple(value for (value,) in form.iter_unpack(self.content[begin : self.position]))

    def _texts(self, count: int) -> Any:
        if count <= KEPT_ELEMENTS:
            return tuple(self.text() for _ in range(count))
        # A vocabulary has up to some hundred thousand texts: this loop is what the time goes into.
        content, size, position, unpack = self.content, self.size, self.position, SCALARS[10].unpack_from
        for _ in range(count):
            if position + 8 > size:
                raise self._cut()
            position += 8 + unpack(content, position)[0]
        self.position = position
        self._need(0)
        return LongArray(count=count)

    def _need(self, count: int) -> None:
        if self.position + count > self.size:
            raise self._cut()

    def _cut(self) -> ModelError:
        return ModelError(
            f"{self.path} is cut short or damaged: its header goes on behind the end of the file "
            f"({human_bytes(self.size)})."
        )
