"""Writes small ``.ms`` files with Google's FlatBuffers library, which knows nothing of our reader."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import flatbuffers


@dataclass(frozen=True, kw_only=True)
class TensorToWrite:
    name: str = ""
    dtype: int = 43
    dims: tuple[int, ...] = ()
    layout: int = 1
    data: bytes = b""
    node_type: int = 2
    huffman: bool = False
    compression: int = 0
    external: str = ""
    external_length: int = 0


@dataclass(frozen=True, kw_only=True)
class NodeToWrite:
    operator: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    name: str = ""
    attributes: bool = True


@dataclass(frozen=True, kw_only=True)
class ModelToWrite:
    tensors: tuple[TensorToWrite, ...]
    nodes: tuple[NodeToWrite, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    name: str = "net"
    version: str = "MindSpore Lite 2.1.0"
    source_format: int = 3
    graphs: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...] = field(default=())
    """Sub-graphs: inputs, outputs, nodes."""
    identifier: bytes | None = b"MSL2"
    obfuscated: bool = False


def write_ms(model: ModelToWrite) -> bytes:
    """The bytes of the file."""
    b = flatbuffers.Builder(1024)
    tensors = _tables(b, [_tensor(b, tensor) for tensor in model.tensors])
    nodes = _tables(b, [_node(b, node) for node in model.nodes])
    graphs = _tables(b, [_graph(b, *graph) for graph in model.graphs])
    name, version = b.CreateString(model.name), b.CreateString(model.version)
    inputs, outputs = _numbers(b, model.inputs), _numbers(b, model.outputs)
    b.StartObject(11)
    b.PrependUOffsetTRelativeSlot(0, name, 0)
    if model.version:
        b.PrependUOffsetTRelativeSlot(1, version, 0)
    b.PrependInt32Slot(2, model.source_format, 0)
    for slot, offset in ((3, inputs), (4, outputs), (6, nodes), (7, tensors)):
        b.PrependUOffsetTRelativeSlot(slot, offset, 0)
    if model.graphs:
        b.PrependUOffsetTRelativeSlot(8, graphs, 0)
    b.PrependBoolSlot(9, model.obfuscated, False)
    root = b.EndObject()
    b.Finish(root, file_identifier=model.identifier) if model.identifier else b.Finish(root)
    return bytes(b.Output())


def _tensor(b: Any, tensor: TensorToWrite) -> int:
    name = b.CreateString(tensor.name)
    dims = _numbers(b, tensor.dims, signed=True)
    data = b.CreateByteVector(tensor.data) if tensor.data else 0
    external = 0
    if tensor.external:
        location = b.CreateString(tensor.external)
        b.StartObject(4)
        b.PrependUOffsetTRelativeSlot(1, location, 0)
        b.PrependInt64Slot(3, tensor.external_length, -1)
        external = _tables(b, [b.EndObject()])
    b.StartObject(13)
    b.PrependInt32Slot(0, 0 if tensor.data else tensor.node_type, 0)
    b.PrependInt32Slot(1, tensor.dtype, 0)
    b.PrependUOffsetTRelativeSlot(2, dims, 0)
    b.PrependInt32Slot(3, tensor.layout, 0)
    b.PrependUOffsetTRelativeSlot(6, data, 0)
    b.PrependUOffsetTRelativeSlot(9, name, 0)
    b.PrependBoolSlot(10, tensor.huffman, False)
    b.PrependInt32Slot(11, tensor.compression, 0)
    b.PrependUOffsetTRelativeSlot(12, external, 0)
    return int(b.EndObject())


def _node(b: Any, node: NodeToWrite) -> int:
    name = b.CreateString(node.name)
    inputs, outputs = _numbers(b, node.inputs), _numbers(b, node.outputs)
    attributes = 0
    if node.attributes:
        b.StartObject(0)
        attributes = b.EndObject()
    b.StartObject(2)
    b.PrependUint8Slot(0, node.operator, 0)
    b.PrependUOffsetTRelativeSlot(1, attributes, 0)
    primitive = b.EndObject()
    b.StartObject(7)
    b.PrependUOffsetTRelativeSlot(0, name, 0)
    b.PrependUOffsetTRelativeSlot(2, primitive, 0)
    b.PrependUOffsetTRelativeSlot(3, inputs, 0)
    b.PrependUOffsetTRelativeSlot(4, outputs, 0)
    return int(b.EndObject())


def _graph(b: Any, inputs: tuple[int, ...], outputs: tuple[int, ...], nodes: tuple[int, ...]) -> int:
    name = b.CreateString("part")
    vectors = [_numbers(b, numbers) for numbers in (inputs, outputs, nodes)]
    b.StartObject(5)
    b.PrependUOffsetTRelativeSlot(0, name, 0)
    for slot, vector in zip(itertools.count(1), vectors, strict=False):
        b.PrependUOffsetTRelativeSlot(slot, vector, 0)
    return int(b.EndObject())


def _numbers(b: Any, numbers: tuple[int, ...], *, signed: bool = False) -> int:
    b.StartVector(4, len(numbers), 4)
    for number in reversed(numbers):
        b.PrependInt32(number) if signed else b.PrependUint32(number)
    return int(b.EndVector())


def _tables(b: Any, offsets: list[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())
