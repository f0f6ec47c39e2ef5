"""Writes small ``.ms`` files (MindSpore Lite, ``MSL2``) without any library: FlatBuffers by hand.

`ModelWriter` is the graph that goes into the file. Its tensors and nodes stay open to change until `to_bytes`,
so that a test can make every kind of wrong file; `tests.shared.ms_ops` adds whole operators with the numbers
that NumPy works out for them, `tests.shared.ms_models` whole models.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Compute = Callable[..., "Array | list[Array]"]

DATA_TYPES = {
    np.dtype(np.bool_): 30,
    np.dtype(np.int8): 32,
    np.dtype(np.int16): 33,
    np.dtype(np.int32): 34,
    np.dtype(np.int64): 35,
    np.dtype(np.uint8): 37,
    np.dtype(np.uint16): 38,
    np.dtype(np.uint32): 39,
    np.dtype(np.uint64): 40,
    np.dtype(np.float16): 42,
    np.dtype(np.float32): 43,
    np.dtype(np.float64): 44,
}
NCHW, NHWC = 0, 1
CONSTANT, VARIABLE = 0, 2
FMK_MINDIR = 3


# FlatBuffers ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scalar:
    """A number that stands in its table; `code` is its letter in the `struct` module."""

    code: str
    value: float


@dataclass(frozen=True)
class Items:
    """A vector of numbers, as the bytes that it has in the file."""

    size: int
    raw: bytes


@dataclass(frozen=True)
class Table:
    """A table: values by slot. What is not there takes its default."""

    slots: Mapping[int, Scalar | Items | str | Table | Sequence[Table]]


def i8(value: int) -> Scalar:
    return Scalar("b", value)


def u8(value: int) -> Scalar:
    return Scalar("B", value)


def boolean(value: bool) -> Scalar:
    return Scalar("?", value)


def i32(value: int) -> Scalar:
    return Scalar("i", value)


def i64(value: int) -> Scalar:
    return Scalar("q", value)


def f32(value: float) -> Scalar:
    return Scalar("f", value)


def i64s(values: Sequence[int]) -> Items:
    return Items(8, struct.pack(f"<{len(values)}q", *values))


def u32s(values: Sequence[int]) -> Items:
    return Items(4, struct.pack(f"<{len(values)}I", *values))


def i32s(values: Sequence[int]) -> Items:
    return Items(4, struct.pack(f"<{len(values)}i", *values))


def quantised(
    scales: Sequence[float], zeros: Sequence[int], *, made: bool = True
) -> dict[int, Scalar | Items | str | Table | Sequence[Table]]:
    """The slot of a tensor whose integers stand for (integer - zero) * scale: one for all, or one for each channel.

    `made` is a mark that MindSpore Lite writes for activations, and for weights in some versions only.
    """
    pairs = zip(scales, zeros, strict=True)
    return {7: [Table({0: Scalar("d", scale), 1: i32(zero), 6: boolean(made)}) for scale, zero in pairs]}


def i64_matrix(rows: Sequence[Sequence[int]]) -> Table:
    """The table ``Vec2D`` of the schema: one row after the other."""
    return Table({0: [Table({0: i64s(row)}) for row in rows]})


def write_flatbuffer(root: Table, identifier: bytes) -> bytes:
    """The file: root offset, identifier, then every table before its children, so all offsets point forward."""
    out = bytearray(4) + identifier
    struct.pack_into("<I", out, 0, _write_table(out, root))
    return bytes(out)


def _write_table(out: bytearray, table: Table) -> int:
    fields = sorted(table.slots.items(), key=lambda item: -_size_in_table(item[1]))
    places: dict[int, int] = {}
    end = 4
    for slot, value in fields:
        size = _size_in_table(value)
        end += -end % size
        places[slot] = end
        end += size
    count = max(table.slots, default=-1) + 1
    vtable = struct.pack(f"<{count + 2}H", 4 + 2 * count, end, *(places.get(slot, 0) for slot in range(count)))
    out += bytes(-(len(out) + len(vtable)) % 8) + vtable
    start = len(out)
    out += bytes(end)
    struct.pack_into("<i", out, start, len(vtable))
    for slot, value in fields:
        at = start + places[slot]
        if isinstance(value, Scalar):
            struct.pack_into(f"<{value.code}", out, at, value.value)
        else:
            struct.pack_into("<I", out, at, _write_child(out, value) - at)
    return start


def _size_in_table(value: object) -> int:
    return struct.calcsize(f"<{value.code}") if isinstance(value, Scalar) else 4


def _write_child(out: bytearray, value: Items | str | Table | Sequence[Table]) -> int:
    if isinstance(value, Table):
        return _write_table(out, value)
    if isinstance(value, str):
        raw = value.encode()
        return _write_vector(out, len(raw), 4, raw + b"\0")
    if isinstance(value, Items):
        # Sixteen bytes for long data: what a loader that maps the file may wish for.
        return _write_vector(out, len(value.raw) // value.size, 16 if len(value.raw) > 64 else 8, value.raw)
    start = _write_vector(out, len(value), 4, bytes(4 * len(value)))
    for number, table in enumerate(value):
        at = start + 4 + 4 * number
        struct.pack_into("<I", out, at, _write_table(out, table) - at)
    return start


def _write_vector(out: bytearray, count: int, align: int, raw: bytes) -> int:
    out += bytes(-(len(out) + 4) % align)
    start = len(out)
    out += struct.pack("<I", count) + raw
    return start


# the graph -----------------------------------------------------------------------------------


@dataclass(kw_only=True)
class TensorSpec:
    """A tensor of the graph; constants have `data`."""

    name: str
    data_type: int
    dims: list[int]
    data: bytes | None = None
    format: int = NHWC
    extra: dict[int, Scalar | Items | str | Table | Sequence[Table]] = field(default_factory=dict)
    """Further slots, such as 11 (compression) or 12 (external data)."""


@dataclass(kw_only=True)
class NodeSpec:
    """A node of the graph. `compute` is what NumPy makes of its inputs; without it the model has no known answer."""

    name: str
    operator: int
    inputs: list[int]
    outputs: list[int]
    attributes: dict[int, Scalar | Items | str | Table | Sequence[Table]]
    compute: Compute | None = None
    quantisation: int = 0
    has_attribute_table: bool = True


@dataclass(kw_only=True)
class ModelWriter:
    """A model to be written. Indices of tensors are given back by the methods that add them."""

    name: str = "test"
    version: str = "MindSpore Lite 2.0.0"
    tensors: list[TensorSpec] = field(default_factory=list)
    nodes: list[NodeSpec] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    constants: dict[int, Array] = field(default_factory=dict)
    with_subgraph: bool = True
    identifier: bytes = b"MSL2"

    def add_input(self, name: str, shape: Sequence[int], data_type: Any = np.float32, layout: int = NHWC) -> int:
        self.inputs.append(self._add(name, np.dtype(data_type), shape, layout=layout))
        return self.inputs[-1]

    def add_constant(self, value: Array, name: str = "") -> int:
        value = np.ascontiguousarray(value)
        index = self._add(name or f"constant-{len(self.tensors)}", value.dtype, value.shape)
        self.tensors[index].data = value.astype(value.dtype.newbyteorder("<")).tobytes()
        self.constants[index] = value
        return index

    def add_node(
        self,
        operator: int,
        inputs: Sequence[int],
        attributes: Mapping[int, Scalar | Items | str | Table | Sequence[Table]] | None = None,
        *,
        name: str = "",
        output_count: int = 1,
        data_type: Any = np.float32,
        compute: Compute | None = None,
    ) -> list[int]:
        """Adds a node with new tensors for its outputs; their declared dims stay empty (nobody trusts them)."""
        name = name or f"node-{len(self.nodes)}"
        names = [name] if output_count == 1 else [f"{name}:{number}" for number in range(output_count)]
        outputs = [self._add(output, np.dtype(data_type), []) for output in names]
        self.nodes.append(
            NodeSpec(
                name=name,
                operator=operator,
                inputs=list(inputs),
                outputs=outputs,
                attributes=dict(attributes or {}),
                compute=compute,
            )
        )
        return outputs

    def mark_output(self, *indices: int) -> None:
        self.outputs.extend(indices)

    def evaluate(self, *values: Array) -> list[Array]:
        """The outputs for these inputs as NumPy works them out, node after node."""
        known: dict[int, Array] = dict(self.constants)
        known.update(zip(self.inputs, values, strict=True))
        for node in self.nodes:
            assert node.compute is not None, f"{node.name} has no known answer"
            result = node.compute(*(known[index] for index in node.inputs))
            results = result if isinstance(result, list) else [result]
            known.update(zip(node.outputs, results, strict=True))
        return [known[index] for index in self.outputs]

    def fill_dims(self, *values: Array) -> None:
        """Declares the dims of all computed tensors, as the real converter does."""
        everything = ModelWriter(tensors=self.tensors, nodes=self.nodes, inputs=self.inputs, constants=self.constants)
        everything.outputs = [index for node in self.nodes for index in node.outputs]
        for index, value in zip(everything.outputs, everything.evaluate(*values), strict=True):
            self.tensors[index].dims = list(value.shape)

    def to_bytes(self) -> bytes:
        slots: dict[int, Scalar | Items | str | Table | Sequence[Table]] = {
            0: self.name,
            2: i32(FMK_MINDIR),
            3: u32s(self.inputs),
            4: u32s(self.outputs),
            6: [_node_table(node) for node in self.nodes],
            7: [_tensor_table(tensor) for tensor in self.tensors],
        }
        if self.version:
            slots[1] = self.version
        if self.with_subgraph:
            slots[8] = [self._subgraph_table()]
        return write_flatbuffer(Table(slots), self.identifier)

    def _subgraph_table(self) -> Table:
        return Table(
            {
                0: f"{self.name}_main",
                1: u32s(self.inputs),
                2: u32s(self.outputs),
                3: u32s(range(len(self.nodes))),
                4: u32s(range(len(self.tensors))),
            }
        )

    def _add(self, name: str, data_type: np.dtype[Any], shape: Sequence[int], *, layout: int = NHWC) -> int:
        self.tensors.append(
            TensorSpec(name=name, data_type=DATA_TYPES[data_type], dims=[int(size) for size in shape], format=layout)
        )
        return len(self.tensors) - 1


def _tensor_table(tensor: TensorSpec) -> Table:
    slots: dict[int, Scalar | Items | str | Table | Sequence[Table]] = {
        0: i32(VARIABLE if tensor.data is None else CONSTANT),
        1: i32(tensor.data_type),
        2: i32s(tensor.dims),
        3: i32(tensor.format),
        9: tensor.name,
    }
    if tensor.data is not None:
        slots[6] = Items(1, tensor.data)
    return Table({**slots, **tensor.extra})


def _node_table(node: NodeSpec) -> Table:
    primitive: dict[int, Scalar | Items | str | Table | Sequence[Table]] = {0: u8(node.operator)}
    if node.has_attribute_table:
        primitive[1] = Table(node.attributes)
    return Table(
        {
            0: node.name,
            2: Table(primitive),
            3: u32s(node.inputs),
            4: u32s(node.outputs),
            5: i32(node.quantisation),
        }
    )
