"""What a MindSpore Lite model file (``.ms``) says of itself, without the engine and without reading its weights.

The layout is the FlatBuffer schema of MindSpore Lite with the identifier ``MSL2`` (converters from 1.1 on); the
slot numbers below are the positions of the fields in that schema.
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.errors import ModelError
from native.formats.flatbuffer import Damaged, FlatBuffer, Table
from native.formats.foreign import HEAD_BYTES, recognise
from native.formats.ms_operators import Operator, find_operator, known_operators

IDENTIFIER = b"MSL2"
SIZE_LIMIT = 2**31 - 1
"""Offsets of a FlatBuffer have 32 bits, and the runtime takes no larger file."""
TABLE_LIMIT = 200_000
"""Tensors or nodes in one file; the largest known models have a tenth of it."""
RANK_LIMIT = 32
"""Dimensions of a tensor, as in the C API's shape type."""
PROBLEM_LIMIT = 20

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
SOURCE_FORMATS = {1: "Caffe", 2: "ONNX", 3: "MindIR", 4: "TFLite", 6: "third party"}
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


@dataclass(frozen=True, kw_only=True)
class MsInfo:
    """What the file says. `problems` are sentences on what would make the engine fail or compute nonsense."""

    file_size: int
    name: str
    version: str
    """As written by the converter, for example ``MindSpore Lite 2.1.0``; empty when it wrote none."""
    source_format: str
    inputs: tuple[MsTensor, ...]
    outputs: tuple[MsTensor, ...]
    operators: tuple[tuple[Operator, int], ...]
    """Each operator and how often it occurs, most frequent first."""
    nodes: int
    tensors: int
    subgraphs: int
    weight_bytes: int
    weight_dtypes: Mapping[str, int]
    """Bytes of the weights by data type."""
    activation_bytes: int
    """Bytes of all tensors that are computed: the most that they can need at once. 0 when a shape is not known."""
    compressions: tuple[str, ...]
    external_files: tuple[str, ...]
    dynamic: tuple[str, ...]
    """Inputs and outputs with a dimension that is set only when the model runs."""
    obfuscated: bool
    problems: tuple[str, ...]

    @property
    def converter(self) -> str:
        """The converter's version number, for example ``2.1.0``; empty when it is not known."""
        words = self.version.removeprefix("MindSpore Lite").split()
        return words[0] if words and words[0][:1].isdigit() else ""

    @property
    def missing_in_reference(self) -> tuple[str, ...]:
        """Names of the operators that our reference runtime does not compute; empty when it can run the model."""
        return tuple(operator.name for operator, _ in self.operators if not operator.reference)


def read_ms(path: Path) -> MsInfo:
    """Reads the description of a ``.ms`` file; weights are not touched, so size does not matter.

    Raises ModelError when it is no such file, or one that the engine would not load.
    """
    size = _size_of(path)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _require_identifier(path, data[:HEAD_BYTES], size)
            return _read_graph(FlatBuffer(data=data, size=size))
    except Damaged as error:
        raise ModelError(f"{path} is cut short or damaged: {error}.") from error
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from error


def require_sound(path: Path, info: MsInfo) -> None:
    """Raises ModelError when the engine would fail on the model, or compute nonsense without saying so."""
    if info.problems:
        raise ModelError(
            f"{path} would not run as it should: {' '.join(info.problems)}",
            remedy="Convert the model again with an unpatched converter.",
        )


def _size_of(path: Path) -> int:
    try:
        status = path.stat()
    except OSError as error:
        raise ModelError(f"There is no readable model file {path}: {error.strerror}.") from error
    if not path.is_file():
        raise ModelError(f"{path} is not a file.")
    if status.st_size == 0:
        raise ModelError(f"{path} is empty: a download that failed leaves such files.")
    if status.st_size > SIZE_LIMIT:
        raise ModelError(f"{path} has {status.st_size} bytes; a .ms file cannot have more than {SIZE_LIMIT}.")
    return status.st_size


def _require_identifier(path: Path, head: bytes, size: int) -> None:
    """Raises ModelError, with what the file really is, unless the identifier is there."""
    if head[4:8] == IDENTIFIER:
        return
    foreign = recognise(head)
    if foreign:
        raise ModelError(f"{path} is no .ms file: it looks like {foreign.title}.", remedy=foreign.remedy)
    if _looks_like_old_schema(head, size):
        raise ModelError(
            f"{path} has no identifier MSL2: it was made by a converter before 1.1, in a form that no current runtime loads.",
            remedy="Convert the original model again with a converter of 1.1 or later.",
        )
    raise ModelError(f"{path} is no .ms file: the identifier MSL2 is missing from its first 8 bytes.")


def _looks_like_old_schema(head: bytes, size: int) -> bool:
    """Files before ``MSL2`` were FlatBuffers as well: their first offset leads to a table that has a field list."""
    try:
        table = FlatBuffer(data=head, size=len(head)).root()
    except Damaged:
        return False
    return bool(table.slots) and size > table.length


def _read_graph(buffer: FlatBuffer) -> MsInfo:
    root = buffer.root()
    tensors = [_read_tensor(table, index) for index, table in _counted(root, 7, "tensor")]
    nodes = [_Node.read(table, index, len(tensors)) for index, table in _counted(root, 6, "node")]
    graphs = [_Graph.read(table) for _, table in _counted(root, 8, "sub-graph")]
    main = _Graph(inputs=root.numbers(3, "I"), outputs=root.numbers(4, "I"), nodes=())
    if graphs and not main.inputs and not main.outputs:
        main = graphs[0]
    if not nodes:
        raise Damaged("there is not one operator in it")
    if not main.outputs:
        raise Damaged("it names no output")
    inputs, outputs = _pick(tensors, main.inputs, "input"), _pick(tensors, main.outputs, "output")
    computed = [tensor for tensor in tensors if not tensor.constant]
    weights = [tensor for tensor in tensors if tensor.constant]
    return MsInfo(
        file_size=buffer.size,
        name=root.text(0),
        version=root.text(1),
        source_format=SOURCE_FORMATS.get(root.integer(2), "unknown"),
        inputs=inputs,
        outputs=outputs,
        operators=_count_operators(nodes),
        nodes=len(nodes),
        tensors=len(tensors),
        subgraphs=len(graphs),
        weight_bytes=sum(tensor.data_bytes for tensor in weights),
        weight_dtypes=_bytes_by_dtype(weights),
        activation_bytes=sum(t.size for t in computed) if all(t.size for t in computed) else 0,
        compressions=tuple(sorted({t.compression for t in tensors if t.compression})),
        external_files=tuple(sorted({t.external for t in tensors if t.external})),
        dynamic=tuple(t.name or f"tensor {t.index}" for t in (*inputs, *outputs) if t.dynamic),
        obfuscated=bool(root.scalar(9, "?")),
        problems=tuple(_find_problems(nodes, tensors, graphs, main)[:PROBLEM_LIMIT]),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Node:
    index: int
    name: str
    operator: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @classmethod
    def read(cls, table: Table, index: int, tensors: int) -> _Node:
        primitive = table.table(2, f"the operator of node {index}")
        if primitive is None:
            raise Damaged(f"node {index} has no operator")
        if primitive.table(1, f"the attributes of node {index}") is None:
            raise Damaged(f"node {index} has no attributes, not even empty ones")
        inputs, outputs = table.numbers(3, "I"), table.numbers(4, "I")
        for tensor in (*inputs, *outputs):
            if tensor >= tensors:
                raise Damaged(f"node {index} refers to tensor {tensor}, but there are {tensors}")
        return cls(index=index, name=table.text(0), operator=primitive.integer(0, "B"), inputs=inputs, outputs=outputs)

    @property
    def title(self) -> str:
        return f"node {self.index} ({self.name or find_operator(self.operator).name})"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Graph:
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    nodes: tuple[int, ...]

    @classmethod
    def read(cls, table: Table) -> _Graph:
        return cls(inputs=table.numbers(1, "I"), outputs=table.numbers(2, "I"), nodes=table.numbers(3, "I"))


def _counted(root: Table, slot: int, what: str) -> list[tuple[int, Table]]:
    tables: list[tuple[int, Table]] = []
    for index, table in enumerate(root.tables(slot, what)):
        if index >= TABLE_LIMIT:
            raise Damaged(f"it claims more than {TABLE_LIMIT} of {what}s")
        tables.append((index, table))
    return tables


def _read_tensor(table: Table, index: int) -> MsTensor:
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
    )


def _pick(tensors: list[MsTensor], indices: tuple[int, ...], what: str) -> tuple[MsTensor, ...]:
    for index in indices:
        if index >= len(tensors):
            raise Damaged(f"an {what} is tensor {index}, but there are {len(tensors)}")
    return tuple(tensors[index] for index in indices)


def _count_operators(nodes: list[_Node]) -> tuple[tuple[Operator, int], ...]:
    counts = Counter(node.operator for node in nodes)
    found = [(find_operator(number), count) for number, count in counts.items()]
    return tuple(sorted(found, key=lambda pair: (-pair[1], pair[0].name)))


def _bytes_by_dtype(weights: list[MsTensor]) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for tensor in weights:
        totals[tensor.dtype] += tensor.data_bytes
    return dict(totals.most_common())


def _find_problems(nodes: list[_Node], tensors: list[MsTensor], graphs: list[_Graph], main: _Graph) -> list[str]:
    problems = [
        f"{node.title} has the operator number {node.operator}, which no known schema has."
        for node in nodes
        if node.operator not in known_operators()
    ]
    problems += [
        f"The data of tensor {t.name or t.index} has {t.data_bytes} bytes, but {t.dtype} {list(t.shape)} needs {t.size}."
        for t in tensors
        if t.constant and not t.compression and not t.external and t.data_bytes < t.size
    ]
    for graph in graphs:
        if any(index >= len(nodes) for index in graph.nodes):
            raise Damaged(f"a sub-graph refers to a node that is not among the {len(nodes)}")
    filled = set(main.inputs).union(*(graph.inputs for graph in graphs))
    return problems + _find_disorder(nodes, tensors, filled, [graph.nodes for graph in graphs])


def _find_disorder(
    nodes: list[_Node], tensors: list[MsTensor], filled: set[int], parts: list[tuple[int, ...]]
) -> list[str]:
    """Sentences on nodes that read a tensor before it is computed: the engine runs them in the order of the file.

    `filled` are the tensors that the caller fills. A tensor that a node of another sub-graph computes is let pass.
    """
    writers: dict[int, _Node] = {}
    for node in nodes:
        for tensor in node.outputs:
            writers.setdefault(tensor, node)
    part_of = {index: number for number, part in enumerate(parts) for index in part}
    problems = []
    for node in nodes:
        for tensor in node.inputs:
            writer = writers.get(tensor)
            name = tensors[tensor].name or f"tensor {tensor}"
            if tensors[tensor].constant or tensor in filled:
                continue
            if writer is None:
                problems.append(f"{node.title} reads {name}, which nothing computes.")
            elif writer.index >= node.index and part_of.get(writer.index) == part_of.get(node.index):
                problems.append(f"{node.title} comes before {writer.title}, whose result {name} it reads.")
    return problems
