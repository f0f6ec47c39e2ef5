"""The tables of a ``.ms`` file: tensors, nodes and sub-graphs, each checked as it is read.

The slot numbers are the positions of the fields in the FlatBuffer schema of MindSpore Lite.
"""

from __future__ import annotations

from dataclasses import dataclass

from native.formats.flatbuffer import Damaged, Table
from native.formats.ms_operators import find_operator

TABLE_LIMIT = 200_000
"""Tensors or nodes in one file; the largest known models have a tenth of it."""
RANK_LIMIT = 32
"""Dimensions of a tensor, as in the C API's shape type."""
DTYPES: dict[int, tuple[str, int]] = {
    12: ("string", 0),
    13: ("list", 0),
    14: ("tuple", 0),
    17: ("tensor", 0),
    30: ("bool", 1),
    32: ("int8", 1),
    33: ("int16", 2),
    34: ("int32", 4),
    35: ("int64", 8),
    37: ("uint8", 1),
    38: ("uint16", 2),
    39: ("uint32", 4),
    40: ("uint64", 8),
    42: ("float16", 2),
    43: ("float32", 4),
    44: ("float64", 8),
}
"""Number in the file → name, bytes of an item (0: no fixed size)."""
LAYOUTS = {
    **dict(
        enumerate(
            [
                "NCHW",
                "NHWC",
                "NHWC4",
                "HWKC",
                "HWCK",
                "KCHW",
                "CKHW",
                "KHWC",
                "CHWK",
                "HW",
                "HW4",
                "NC",
                "NC4",
                "NC4HW4",
            ]
        )
    ),
    15: "NCDHW",
    16: "NWC",
    17: "NCW",
    18: "NC8HW8",
}
COMPRESSIONS = {1: "indexing", 2: "sparse", 3: "FSE", 4: "bit packing", 5: "FSE int", 6: "FSE infer"}


@dataclass(frozen=True, kw_only=True)
class MsTensor:
    """One tensor. A dimension of -1 is set when the model runs; `layout` names the axes, `dtype` is as NumPy says it."""

    index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str
    item_size: int
    constant: bool
    data_bytes: int
    """Bytes of the data that the file holds, or that it names in another file."""
    compression: str = ""
    external: str = ""
    scales: int = 0
    """How many scales its integers have: one, or one for each channel; 0 when they are plain numbers."""

    @property
    def dynamic(self) -> bool:
        return any(dimension < 0 for dimension in self.shape)

    @property
    def size(self) -> int:
        """Bytes of the whole tensor when it is unpacked; 0 when the shape or the item size is not known."""
        count = 1
        for dimension in self.shape:
            count *= max(dimension, 0)
        return count * self.item_size if self.shape else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    index: int
    name: str
    operator: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    values: tuple[tuple[int, int], ...] = ()
    """Slot and value of the attributes of which the reference runtime does not know every value."""

    @classmethod
    def read(cls, table: Table, index: int, tensors: int) -> Node:
        primitive = table.table(2, f"the operator of node {index}")
        if primitive is None:
            raise Damaged(f"node {index} has no operator")
        attributes = primitive.table(1, f"the attributes of node {index}")
        if attributes is None:
            raise Damaged(f"node {index} has no attributes, not even empty ones")
        inputs, outputs = table.numbers(3, "I"), table.numbers(4, "I")
        for tensor in (*inputs, *outputs):
            if tensor >= tensors:
                raise Damaged(f"node {index} refers to tensor {tensor}, but there are {tensors}")
        operator = primitive.integer(0, "B")
        signature = find_operator(operator).reference
        values = [(slot, attributes.integer(slot, "b")) for slot in (signature.values if signature else ())]
        return cls(
            index=index, name=table.text(0), operator=operator, inputs=inputs, outputs=outputs, values=tuple(values)
        )

    @property
    def title(self) -> str:
        return f"node {self.index} ({self.name or find_operator(self.operator).name})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Graph:
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    nodes: tuple[int, ...]

    @classmethod
    def read(cls, table: Table) -> Graph:
        return cls(inputs=table.numbers(1, "I"), outputs=table.numbers(2, "I"), nodes=table.numbers(3, "I"))


def read_counted(root: Table, slot: int, what: str) -> list[tuple[int, Table]]:
    tables: list[tuple[int, Table]] = []
    for index, table in enumerate(root.tables(slot, what)):
        if index >= TABLE_LIMIT:
            raise Damaged(f"it claims more than {TABLE_LIMIT} of {what}s")
        tables.append((index, table))
    return tables


def read_tensor(table: Table, index: int) -> MsTensor:
    number = table.integer(1)
    dtype, item_size = DTYPES.get(number, (f"type {number}", 0))
    shape = table.numbers(2, "i")
    if len(shape) > RANK_LIMIT:
        raise Damaged(f"tensor {index} has {len(shape)} dimensions")
    data_bytes = table.byte_count(6)
    external = ""
    for outside in table.tables(12, f"external data of tensor {index} part"):
        external = external or outside.text(1)
        data_bytes += max(0, outside.integer(3, "q", -1))
    compression = table.integer(11)
    return MsTensor(
        index=index,
        name=table.text(9),
        dtype=dtype,
        shape=shape,
        layout=LAYOUTS.get(table.integer(3), "unknown"),
        item_size=item_size,
        constant=data_bytes > 0 or bool(external) or 0 in shape,
        data_bytes=data_bytes,
        compression="Huffman"
        if table.scalar(10, "?")
        else COMPRESSIONS.get(compression, f"kind {compression}" if compression else ""),
        external=external,
        # Whether one is marked as made is nothing to MindSpore Lite: its converter 2.2 leaves that out for weights.
        scales=table.byte_count(7),
    )
