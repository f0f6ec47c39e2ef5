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
from core.files import CHUNK
from native.formats.flatbuffer import Damaged, FlatBuffer
from native.formats.foreign import FETCH_AGAIN, HEAD_BYTES, recognise
from native.formats.ms_graph import Graph, MsTensor, Node, read_counted, read_tensor
from native.formats.ms_operators import Operator, find_operator, known_operators
from native.formats.ms_reference import find_lacks

IDENTIFIER = b"MSL2"
SIZE_LIMIT = 2**31 - 1
"""Offsets of a FlatBuffer have 32 bits, and the runtime takes no larger file."""
PROBLEM_LIMIT = 20

CUSTOM = "Custom"
NOTED_ZEROS = 4096
"""Zeros at the end of a file from which on they are told."""
SOURCE_FORMATS = {1: "Caffe", 2: "ONNX", 3: "MindIR", 4: "TFLite", 6: "third party"}


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
    reference_lacks: tuple[str, ...]
    """What our reference runtime does not compute, each beginning with the operator's name; empty when it can run it."""
    zero_tail: int
    """Bytes of zeros at the end of the file: what was reserved and never written, or weights that are zero."""
    problems: tuple[str, ...]

    @property
    def converter(self) -> str:
        """The converter's version number, for example ``2.1.0``; empty when it is not known."""
        words = self.version.removeprefix("MindSpore Lite").split()
        return words[0] if words and words[0][:1].isdigit() else ""

    @property
    def training(self) -> tuple[str, ...]:
        """Operators that only a graph for training holds."""
        return tuple(operator.name for operator, _ in self.operators if operator.trains)

    @property
    def offline(self) -> bool:
        """Whether all of it is custom operators: compiled for one kind of device, which alone can run it."""
        return all(operator.name == CUSTOM for operator, _ in self.operators)


def read_ms(path: Path) -> MsInfo:
    """Reads the description of a ``.ms`` file; weights are not touched, so size does not matter.

    Raises ModelError when it is no such file, or one that the engine would not load.
    """
    size = _size_of(path)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _require_identifier(path, data[:HEAD_BYTES], size)
            return _read_whole(path, FlatBuffer(data=data, size=size), _count_zeros(data))
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from error


def _read_whole(path: Path, buffer: FlatBuffer, zero_tail: int) -> MsInfo:
    try:
        return _read_graph(buffer, zero_tail)
    except Damaged as error:
        if zero_tail >= NOTED_ZEROS:
            raise ModelError(
                f"{path} ends in {zero_tail} zeros of its {buffer.size} bytes: its space was reserved, but it was not "
                f"written to the end ({error}).",
                remedy=FETCH_AGAIN,
            ) from error
        raise ModelError(f"{path} is cut short or damaged: {error}.") from error


def _count_zeros(data: mmap.mmap) -> int:
    """Zeros at the end."""
    end = len(data)
    while end and not any(chunk := data[max(0, end - CHUNK) : end]):
        end -= len(chunk)
    last = data[max(0, end - CHUNK) : end]
    return len(data) - end + len(last) - len(last.rstrip(b"\0"))


def require_sound(path: Path, info: MsInfo) -> None:
    """Raises ModelError when the engine would fail on the model, or compute nonsense without saying so."""
    if info.training:
        raise ModelError(
            f"{path} is a graph for training ({', '.join(info.training[:3])} …), which is not run for its outputs.",
            remedy="Export the graph for inference from it, or convert the model without the converter's --trainModel.",
        )
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


def _read_graph(buffer: FlatBuffer, zero_tail: int) -> MsInfo:
    root = buffer.root()
    tensors = [read_tensor(table, index) for index, table in read_counted(root, 7, "tensor")]
    nodes = [Node.read(table, index, len(tensors)) for index, table in read_counted(root, 6, "node")]
    graphs = [Graph.read(table) for _, table in read_counted(root, 8, "sub-graph")]
    main = Graph(inputs=root.numbers(3, "I"), outputs=root.numbers(4, "I"), nodes=())
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
        reference_lacks=find_lacks(nodes, tensors, main.inputs),
        zero_tail=zero_tail if zero_tail >= NOTED_ZEROS else 0,
        problems=tuple(_find_problems(nodes, tensors, graphs, main)[:PROBLEM_LIMIT]),
    )


def _pick(tensors: list[MsTensor], indices: tuple[int, ...], what: str) -> tuple[MsTensor, ...]:
    for index in indices:
        if index >= len(tensors):
            raise Damaged(f"an {what} is tensor {index}, but there are {len(tensors)}")
    return tuple(tensors[index] for index in indices)


def _count_operators(nodes: list[Node]) -> tuple[tuple[Operator, int], ...]:
    counts = Counter(node.operator for node in nodes)
    found = [(find_operator(number), count) for number, count in counts.items()]
    return tuple(sorted(found, key=lambda pair: (-pair[1], pair[0].name)))


def _bytes_by_dtype(weights: list[MsTensor]) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for tensor in weights:
        totals[tensor.dtype] += tensor.data_bytes
    return dict(totals.most_common())


def _find_problems(nodes: list[Node], tensors: list[MsTensor], graphs: list[Graph], main: Graph) -> list[str]:
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
    nodes: list[Node], tensors: list[MsTensor], filled: set[int], parts: list[tuple[int, ...]]
) -> list[str]:
    """Sentences on nodes that read a tensor before it is computed: the engine runs them in the order of the file.

    `filled` are the tensors that the caller fills. A tensor that a node of another sub-graph computes is let pass.
    """
    writers: dict[int, Node] = {}
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
