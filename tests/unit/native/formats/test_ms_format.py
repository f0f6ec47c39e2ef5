"""The reader of .ms files against files from an independent writer, bad ones and hostile ones among them."""

from __future__ import annotations

import dataclasses
import os
import struct
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.errors import ModelError
from native.formats.ms import MsInfo, read_ms, require_sound
from native.formats.ms_operators import known_operators
from tests.support.ms_flatbuffers import ModelToWrite, NodeToWrite, TensorToWrite, write_ms

ADD, SOFTMAX, CONV2D, GROUP_NORM = 5, 138, 35, 211
MODEL = ModelToWrite(
    name="add-softmax",
    tensors=(
        TensorToWrite(name="x", dims=(1, 2, 2, 4)),
        TensorToWrite(name="bias", dims=(4,), data=bytes(16), layout=0),
        TensorToWrite(name="sum", dims=(1, 2, 2, 4)),
        TensorToWrite(name="Softmax-65", dims=(1, 2, 2, 4)),
    ),
    nodes=(
        NodeToWrite(name="add", operator=ADD, inputs=(0, 1), outputs=(2,)),
        NodeToWrite(name="softmax", operator=SOFTMAX, inputs=(2,), outputs=(3,)),
    ),
    inputs=(0,),
    outputs=(3,),
)
GOOD = write_ms(MODEL)


def read(tmp_path: Path, content: bytes) -> MsInfo:
    path = tmp_path / "model.ms"
    path.write_bytes(content)
    return read_ms(path)


def changed(**changes: object) -> bytes:
    return write_ms(dataclasses.replace(MODEL, **changes))  # type: ignore[arg-type]


def with_tensor(index: int, **changes: object) -> bytes:
    tensors = list(MODEL.tensors)
    tensors[index] = dataclasses.replace(tensors[index], **changes)  # type: ignore[arg-type]
    return changed(tensors=tuple(tensors))


def test_a_small_model_is_described_as_it_was_written(tmp_path: Path) -> None:
    info = read(tmp_path, GOOD)
    assert info.name == "add-softmax"
    assert (info.version, info.converter, info.source_format) == ("MindSpore Lite 2.1.0", "2.1.0", "MindIR")
    [given_input], [output] = info.inputs, info.outputs
    assert (given_input.name, given_input.dtype, given_input.shape, given_input.layout) == (
        "x",
        "float32",
        (1, 2, 2, 4),
        "NHWC",
    )
    assert (output.name, output.size) == ("Softmax-65", 64)
    assert [(operator.number, operator.name, count) for operator, count in info.operators] == [
        (5, "AddFusion", 1),
        (138, "Softmax", 1),
    ]
    assert (info.nodes, info.tensors, info.file_size) == (2, 4, len(GOOD))
    assert (info.weight_bytes, dict(info.weight_dtypes)) == (16, {"float32": 16})
    assert info.activation_bytes == 3 * 64
    assert info.problems == ()
    require_sound(tmp_path / "model.ms", info)


def test_an_operator_that_the_reference_runtime_lacks_is_named(tmp_path: Path) -> None:
    nodes = (*MODEL.nodes, NodeToWrite(operator=GROUP_NORM, inputs=(3,), outputs=(3,)))
    info = read(tmp_path, changed(nodes=nodes))
    assert info.reference_lacks == ("GroupNormFusion",)


def test_operators_are_listed_by_how_often_they_occur(tmp_path: Path) -> None:
    more = (NodeToWrite(operator=SOFTMAX, inputs=(2,), outputs=(3,)),) * 2
    info = read(tmp_path, changed(nodes=(*MODEL.nodes, *more)))
    assert [(operator.name, count) for operator, count in info.operators] == [("Softmax", 3), ("AddFusion", 1)]


def test_a_dimension_that_is_set_at_run_time_is_reported(tmp_path: Path) -> None:
    info = read(tmp_path, with_tensor(0, dims=(-1, 2, 2, 4)))
    assert info.dynamic == ("x",)
    assert info.activation_bytes == 0


@pytest.mark.parametrize(("changes", "expected"), [({"huffman": True}, "Huffman"), ({"compression": 4}, "bit packing")])
def test_compressed_weights_are_reported(tmp_path: Path, changes: dict[str, object], expected: str) -> None:
    info = read(tmp_path, with_tensor(1, data=b"\1\2", **changes))
    assert info.compressions == (expected,)
    assert info.problems == ()


def test_weights_in_another_file_are_reported_and_counted(tmp_path: Path) -> None:
    info = read(tmp_path, with_tensor(1, data=b"", external="weights.bin", external_length=16))
    assert info.external_files == ("weights.bin",)
    assert info.weight_bytes == 16


def test_weights_shorter_than_their_shape_are_a_problem(tmp_path: Path) -> None:
    info = read(tmp_path, with_tensor(1, data=bytes(12)))
    assert info.problems == ("The data of tensor bias has 12 bytes, but float32 [4] needs 16.",)


def test_a_node_before_the_one_whose_result_it_reads_is_a_problem(tmp_path: Path) -> None:
    info = read(tmp_path, changed(nodes=tuple(reversed(MODEL.nodes))))
    assert info.problems == ("node 0 (softmax) comes before node 1 (add), whose result sum it reads.",)
    with pytest.raises(ModelError, match=r"model\.ms would not run as it should: node 0 \(softmax\) comes before"):
        require_sound(tmp_path / "model.ms", info)


def test_a_node_that_reads_its_own_result_is_a_problem(tmp_path: Path) -> None:
    nodes = (NodeToWrite(name="loop", operator=ADD, inputs=(0, 3), outputs=(3,)),)
    assert read(tmp_path, changed(nodes=nodes)).problems == (
        "node 0 (loop) comes before node 0 (loop), whose result Softmax-65 it reads.",
    )


def test_a_tensor_that_nothing_computes_is_a_problem(tmp_path: Path) -> None:
    info = read(tmp_path, changed(nodes=MODEL.nodes[1:]))
    assert info.problems == ("node 0 (softmax) reads sum, which nothing computes.",)


def test_the_order_of_nodes_in_different_sub_graphs_is_no_problem(tmp_path: Path) -> None:
    graphs = (((0,), (2,), (1,)), ((2,), (3,), (0,)))
    info = read(tmp_path, changed(nodes=tuple(reversed(MODEL.nodes)), graphs=graphs))
    assert (info.subgraphs, info.problems) == (2, ())


def test_inputs_of_the_first_sub_graph_serve_where_the_model_names_none(tmp_path: Path) -> None:
    info = read(tmp_path, changed(inputs=(), outputs=(), graphs=(((0,), (3,), (0, 1)),)))
    assert [tensor.name for tensor in info.inputs + info.outputs] == ["x", "Softmax-65"]


def test_an_operator_number_that_no_schema_has_is_a_problem(tmp_path: Path) -> None:
    nodes = (MODEL.nodes[0], NodeToWrite(operator=250, inputs=(2,), outputs=(3,)))
    info = read(tmp_path, changed(nodes=nodes))
    assert info.problems == ("node 1 (operator 250) has the operator number 250, which no known schema has.",)


def test_a_file_without_a_version_and_with_an_unknown_type_is_still_described(tmp_path: Path) -> None:
    tensors = (dataclasses.replace(MODEL.tensors[0], dtype=99, layout=77), *MODEL.tensors[1:])
    info = read(tmp_path, changed(version="", source_format=42, tensors=tensors))
    assert (info.version, info.converter, info.source_format) == ("", "", "unknown")
    assert (info.inputs[0].dtype, info.inputs[0].layout, info.activation_bytes) == ("type 99", "unknown", 0)


def test_control_characters_in_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    info = read(tmp_path, changed(name="evil\x1b[2Jname"))
    assert info.name == "evil\N{REPLACEMENT CHARACTER}[2Jname"


def test_every_operator_number_of_the_schema_has_a_name() -> None:
    operators = known_operators()
    assert sorted(operators) == list(range(1, 222))
    assert len({operator.name for operator in operators.values()}) == 221
    # Numbers that were seen in files of the real converter.
    seen = {35: "Conv2DFusion", 17: "AvgPoolFusion", 61: "Flatten", 89: "MatMulFusion", 162: "Transpose"}
    assert {number: operators[number].name for number in seen} == seen


FOREIGN = {
    "empty": (b"", "is empty"),
    "onnx": (b"\x08\x07\x12\x07pytorch\x1a\x051.8.1", "looks like an ONNX model"),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(32), "looks like a TensorFlow Lite model"),
    "gguf": (b"GGUF\x03\0\0\0" + bytes(32), "looks like a GGUF model"),
    "html": (b"<!DOCTYPE html><html><body>Sign in", "looks like a web page"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
    "zip": (b"PK\x03\x04" + bytes(32), "archive"),
    "mindir": (b"\x0a\x050.1.0\x12\x09MindSpore", "looks like a MindIR model"),
    "text": (b"hello, this is no model at all\n", "looks like a text file"),
    "zeros": (bytes(4096), "begins with zeros"),
    "short": (b"\x10\0\0", "identifier MSL2 is missing"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_of_another_kind_is_refused_with_what_it_is(tmp_path: Path, name: str) -> None:
    content, expected = FOREIGN[name]
    with pytest.raises(ModelError) as caught:
        read(tmp_path, content)
    assert expected in caught.value.message
    assert caught.value.remedy


def test_a_model_from_before_the_identifier_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"made by a converter before 1\.1"):
        read(tmp_path, changed(identifier=None))


@pytest.mark.parametrize("kept", [8, 12, len(GOOD) // 2, len(GOOD) - 4])
def test_a_file_that_ends_early_is_refused(tmp_path: Path, kept: int) -> None:
    with pytest.raises(ModelError, match="cut short or damaged"):
        read(tmp_path, GOOD[:kept])


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="There is no readable model file"):
        read_ms(tmp_path / "none.ms")
    with pytest.raises(ModelError, match="is not a file"):
        read_ms(tmp_path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.ms")
    with pytest.raises(ModelError, match="is not a file"):
        read_ms(tmp_path / "model.ms")


def test_a_file_above_two_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.ms"
    path.write_bytes(GOOD)
    os.truncate(path, 2**31)
    with pytest.raises(ModelError, match="cannot have more than 2147483647"):
        read_ms(path)


BAD_GRAPHS: dict[str, tuple[dict[str, object], str]] = {
    "no node": ({"nodes": ()}, "not one operator"),
    "no output": ({"outputs": ()}, "names no output"),
    "input index": ({"inputs": (4,)}, "an input is tensor 4, but there are 4"),
    "output index": ({"outputs": (2**32 - 1,)}, "an output is tensor 4294967295"),
    "node index": (
        {"nodes": (NodeToWrite(operator=ADD, inputs=(0, 9), outputs=(3,)),)},
        "node 0 refers to tensor 9, but there are 4",
    ),
    "no attributes": (
        {"nodes": (NodeToWrite(operator=ADD, inputs=(0, 1), outputs=(3,), attributes=False),)},
        "node 0 has no attributes",
    ),
    "node of a sub-graph": ({"graphs": (((0,), (3,), (0, 7)),)}, "refers to a node that is not among the 2"),
    "rank": ({"tensors": (TensorToWrite(name="x", dims=(2,) * 40), *MODEL.tensors[1:])}, "has 40 dimensions"),
}


@pytest.mark.parametrize("name", BAD_GRAPHS)
def test_a_graph_that_the_engine_would_not_load_is_refused(tmp_path: Path, name: str) -> None:
    changes, expected = BAD_GRAPHS[name]
    with pytest.raises(ModelError) as caught:
        read(tmp_path, changed(**changes))
    assert expected in caught.value.message


def test_a_small_file_that_asks_for_endless_work_is_refused(tmp_path: Path) -> None:
    """One list of nodes with 20,000 entries that all lead to one node with 20,000 inputs: 400 million items."""
    count = 20_000
    out = bytearray()

    def pad() -> int:
        out.extend(bytes(-len(out) % 4))
        return len(out)

    out += struct.pack("<I4s", 0, b"MSL2")
    root_vtable = pad()
    out += struct.pack("<10H", 20, 16, 0, 0, 0, 0, 4, 0, 8, 12)  # slots 4 (outputs), 6 (nodes), 7 (tensors)
    root = pad()
    out += struct.pack("<i3I", root - root_vtable, 0, 0, 0)
    struct.pack_into("<I", out, 0, root)
    nodes = pad()
    out += struct.pack("<I", count) + bytes(4 * count)
    node_vtable = pad()
    out += struct.pack("<7H", 14, 16, 0, 0, 4, 8, 12)
    node = pad()
    out += struct.pack("<i3I", node - node_vtable, 0, 0, 0)
    primitive_vtable = pad()
    out += struct.pack("<4H", 8, 12, 8, 4)
    primitive = pad()
    out += struct.pack("<iIB3x", primitive - primitive_vtable, 0, ADD)
    empty_vtable = pad()
    out += struct.pack("<HH", 4, 4)
    empty = pad()
    out += struct.pack("<i", empty - empty_vtable)
    struct.pack_into("<I", out, primitive + 4, empty - primitive - 4)
    numbers = pad()
    out += struct.pack("<I", count) + bytes(4 * count)
    tensors = pad()
    out += struct.pack("<II", 1, 4)
    out += struct.pack("<i", len(out) - empty_vtable)  # a tensor with no field at all
    for at, target in ((root + 4, numbers), (root + 8, nodes), (root + 12, tensors)):
        struct.pack_into("<I", out, at, target - at)
    for slot, target in enumerate((primitive, numbers, numbers)):
        struct.pack_into("<I", out, node + 4 + 4 * slot, target - (node + 4 + 4 * slot))
    for index in range(count):
        at = nodes + 4 + 4 * index
        struct.pack_into("<I", out, at, node - at)
    with pytest.raises(ModelError, match="number of items to more than"):
        read(tmp_path, bytes(out))


@settings(max_examples=400)
@given(
    kept=st.integers(0, len(GOOD)),
    patches=st.lists(
        st.tuples(
            st.integers(0, len(GOOD) - 1),
            st.one_of(
                st.binary(min_size=1, max_size=8),
                st.sampled_from(
                    [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\1\0", b"\xff\xff"]
                ),
            ),
        ),
        max_size=6,
    ),
)
@example(kept=len(GOOD), patches=[(0, b"\xff\xff\xff\x7f")])
@example(kept=len(GOOD), patches=[])
def test_any_damage_gives_a_description_or_a_model_error(
    tmp_path_factory: pytest.TempPathFactory, kept: int, patches: list[tuple[int, bytes]]
) -> None:
    content = bytearray(GOOD[:kept])
    for at, patch in patches:
        content[at : at + len(patch)] = patch
    path = tmp_path_factory.getbasetemp() / "fuzzed.ms"
    path.write_bytes(content)
    try:
        info = read_ms(path)
    except ModelError as error:
        assert error.message.endswith(".")
        assert error.remedy.endswith(".")
    else:
        assert info.nodes > 0
        assert info.file_size == len(content)
