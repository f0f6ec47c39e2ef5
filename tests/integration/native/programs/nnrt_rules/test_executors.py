"""The rules of executors, and of the descriptions and tensors of level 11, in the reference runtime of NNRt."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_int32, c_size_t, c_uint32, c_void_p

import numpy as np
import pytest

from tests.support.nnrt_rules import RELU, UNKNOWN_DEVICE, by_level, compiled
from tests.support.nnrt_runtime import (
    DYNAMIC,
    FAILED,
    FORBIDDEN,
    INVALID,
    SUCCESS,
    Graph,
    Memory,
    Nnrt,
    addition,
    run_graph,
    tensor,
)

# executors -----------------------------------------------------------------------------------


def test_an_executor_needs_a_built_compilation(nnrt: Nnrt) -> None:
    graph = addition(nnrt)
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Executor_Construct(compilation).value is None
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_the_sum_of_the_guides(nnrt: Nnrt) -> None:
    graph = addition(nnrt)
    values = [np.arange(start, start + 12, dtype=np.float32).reshape(1, 2, 2, 3) for start in (0, 11)]
    result = run_graph(nnrt, graph, values, (1, 2, 2, 3))
    assert result.ravel().tolist() == list(range(11, 35, 2))
    graph.close()


@pytest.mark.parametrize(
    ("index", "shape", "data_type", "length"),
    [
        (2, [4], "float32", 16),
        (0, [4], "int32", 16),
        (0, [2, 2], "float32", 16),
        (0, [3], "float32", 16),
        (0, [-1], "float32", 16),
        (0, [4], "float32", 15),
    ],
    ids=["index", "data type", "rank", "dimension", "open dimension", "short buffer"],
)
def test_an_input_that_does_not_fit_is_refused(
    nnrt: Nnrt, index: int, shape: list[int], data_type: str, length: int
) -> None:
    graph = addition(nnrt, [4])
    compilation = compiled(nnrt, graph)
    executor = nnrt.Executor_Construct(compilation)
    data = (ctypes.c_float * 4)()
    described = tensor(shape, data_type)
    code = nnrt.Executor_SetInput(executor, c_uint32(index), byref(described), data, c_size_t(length))
    assert code == INVALID
    nnrt.Executor_Destroy(byref(executor))
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_a_run_needs_every_input_and_output(nnrt: Nnrt) -> None:
    graph = addition(nnrt, [4])
    compilation = compiled(nnrt, graph)
    executor = nnrt.Executor_Construct(compilation)
    data, described = (ctypes.c_float * 4)(), tensor([4])
    shape, length = POINTER(c_int32)(), c_uint32()
    assert nnrt.Executor_Run(executor) == INVALID
    for index in range(2):
        assert nnrt.Executor_SetInput(executor, c_uint32(index), byref(described), data, c_size_t(16)) == SUCCESS
    assert nnrt.Executor_Run(executor) == INVALID
    assert nnrt.Executor_SetOutput(executor, c_uint32(0), data, c_size_t(12)) == INVALID
    assert nnrt.Executor_SetOutput(executor, c_uint32(0), data, c_size_t(16)) == SUCCESS
    early = nnrt.Executor_GetOutputShape(executor, c_uint32(0), byref(shape), byref(length))
    assert early == by_level(nnrt, FORBIDDEN, SUCCESS)
    assert nnrt.Executor_Run(executor) == SUCCESS
    shape = POINTER(c_int32)()
    assert nnrt.Executor_GetOutputShape(executor, c_uint32(0), byref(shape), byref(length)) == SUCCESS
    assert (shape[0], length.value) == (4, 1)
    nnrt.Executor_Destroy(byref(executor))
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_memory_of_the_executor_serves_as_input_and_output(nnrt: Nnrt) -> None:
    graph = addition(nnrt, [4], activation=2)
    compilation = compiled(nnrt, graph)
    executor = nnrt.Executor_Construct(compilation)
    described = tensor([4])
    memories = []
    for index, values in enumerate(([-3, 1, 2, 9], [1, 1, 1, 1])):
        memory = nnrt.Executor_AllocateInputMemory(executor, c_uint32(index), c_size_t(16))
        ctypes.memmove(Memory.from_address(memory.value).data, np.asarray(values, np.float32).tobytes(), 16)
        assert nnrt.Executor_SetInputWithMemory(executor, c_uint32(index), byref(described), memory) == SUCCESS
        memories.append(memory)
    out = nnrt.Executor_AllocateOutputMemory(executor, c_uint32(0), c_size_t(16))
    assert nnrt.Executor_SetOutputWithMemory(executor, c_uint32(0), memories[0]) == INVALID
    assert nnrt.Executor_SetOutputWithMemory(executor, c_uint32(0), out) == SUCCESS
    assert nnrt.Executor_Run(executor) == SUCCESS
    raw = ctypes.string_at(Memory.from_address(out.value).data, 16)
    assert np.frombuffer(raw, np.float32).tolist() == [0, 2, 3, 6]
    assert nnrt.Executor_AllocateInputMemory(executor, c_uint32(7), c_size_t(16)).value is None
    nnrt.Executor_DestroyInputMemory(executor, c_uint32(0), byref(memories[0]))
    assert memories[0].value is None
    assert nnrt.Executor_Run(executor) == INVALID
    nnrt.Executor_Destroy(byref(executor))
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_open_dimensions_get_their_size_with_the_input(nnrt: Nnrt) -> None:
    graph = Graph(nnrt)
    graph.add([-1, 2])
    graph.add([-1, 2])
    assert graph.operation(RELU, [], [0], [1]) == SUCCESS
    assert graph.specify([0], [1]) == SUCCESS
    assert graph.finish() == SUCCESS
    result = run_graph(nnrt, graph, [np.asarray([[-1, 2], [3, -4], [5, 6]], np.float32)], (3, 2))
    assert result.tolist() == [[0, 2], [3, 0], [5, 6]]
    graph.close()


# descriptions and tensors (level 11) ------------------------------------------------------------


def described(nnrt: Nnrt, *shape: int, data_type: int = 11) -> c_void_p:
    description = nnrt.TensorDesc_Create()
    assert nnrt.TensorDesc_SetDataType(description, data_type) == SUCCESS
    assert nnrt.TensorDesc_SetShape(description, (c_int32 * len(shape))(*shape), c_size_t(len(shape))) == SUCCESS
    return c_void_p(description.value)


def test_a_description_knows_its_cells_and_bytes(modern: Nnrt) -> None:
    count, size = c_size_t(7), c_size_t(7)
    empty = modern.TensorDesc_Create()
    assert modern.TensorDesc_GetElementCount(empty, byref(count)) == INVALID
    assert modern.TensorDesc_SetShape(empty, None, c_size_t(0)) == INVALID
    whole, open_ended = described(modern, 2, 3), described(modern, 2, -1)
    assert modern.TensorDesc_GetElementCount(whole, byref(count)) == SUCCESS
    assert modern.TensorDesc_GetByteSize(whole, byref(size)) == SUCCESS
    assert (count.value, size.value) == (6, 24)
    assert modern.TensorDesc_GetElementCount(open_ended, byref(count)) == DYNAMIC
    assert modern.TensorDesc_GetByteSize(open_ended, byref(size)) == SUCCESS
    assert (count.value, size.value) == (0, 0)
    for description in (empty, whole, open_ended):
        assert modern.TensorDesc_Destroy(byref(description)) == SUCCESS
    assert modern.TensorDesc_Destroy(byref(whole)) == INVALID


def test_a_tensor_copies_its_description_and_has_room(modern: Nnrt) -> None:
    description = described(modern, 4)
    made = modern.Tensor_Create(modern.device(), description)
    assert modern.TensorDesc_SetShape(description, (c_int32 * 1)(9), c_size_t(1)) == SUCCESS
    shape, rank, size = POINTER(c_int32)(), c_size_t(), c_size_t()
    own = modern.Tensor_GetTensorDesc(made)
    assert modern.TensorDesc_GetShape(own, byref(shape), byref(rank)) == SUCCESS
    assert modern.Tensor_GetSize(made, byref(size)) == SUCCESS
    assert (rank.value, shape[0], size.value) == (1, 4, 16)
    assert modern.Tensor_Create(UNKNOWN_DEVICE, description).value is None
    assert modern.Tensor_CreateWithSize(modern.device(), description, c_size_t(35)).value is None
    assert modern.Tensor_CreateWithSize(modern.device(), description, c_size_t(2**30 + 1)).value is None
    larger = modern.Tensor_CreateWithSize(modern.device(), description, c_size_t(64))
    assert modern.Tensor_Destroy(byref(larger)) == SUCCESS
    assert modern.Tensor_Destroy(byref(made)) == SUCCESS
    assert modern.TensorDesc_Destroy(byref(description)) == SUCCESS


def test_a_run_with_tensors_wants_the_right_number_of_them(modern: Nnrt) -> None:
    graph = addition(modern, [4])
    compilation = compiled(modern, graph)
    executor = modern.Executor_Construct(compilation)
    description = described(modern, 4)
    tensors = [modern.Tensor_Create(modern.device(), description) for _ in range(3)]
    for made, values in zip(tensors, ([1, 2, 3, 4], [10, 20, 30, 40]), strict=False):
        ctypes.memmove(modern.Tensor_GetDataBuffer(made).value, np.asarray(values, np.float32).tobytes(), 16)
    ins, outs = (c_void_p * 2)(*(t.value for t in tensors[:2])), (c_void_p * 1)(tensors[2].value)
    two, one = c_size_t(2), c_size_t(1)
    assert modern.Executor_RunSync(executor, ins, one, outs, one) == INVALID
    assert modern.Executor_RunSync(executor, ins, two, (c_void_p * 1)(None), one) == INVALID
    assert modern.Executor_RunSync(executor, ins, two, outs, one) == SUCCESS
    raw = ctypes.string_at(modern.Tensor_GetDataBuffer(tensors[2]).value, 16)
    assert np.frombuffer(raw, np.float32).tolist() == [11, 22, 33, 44]
    assert modern.Executor_RunAsync(executor, ins, two, outs, one, c_int32(100), None) == INVALID
    assert modern.Executor_RunAsync(executor, ins, two, outs, one, c_int32(100), byref(one)) == FORBIDDEN
    for made in tensors:
        assert modern.Tensor_Destroy(byref(made)) == SUCCESS
    assert modern.TensorDesc_Destroy(byref(description)) == SUCCESS
    modern.Executor_Destroy(byref(executor))
    modern.Compilation_Destroy(byref(compilation))
    graph.close()


def test_offline_models_are_taken_and_never_built(modern: Nnrt) -> None:
    for compilation in (
        modern.Compilation_ConstructForCache(),
        modern.Compilation_ConstructWithOfflineModelFile(b"model.om"),
        modern.Compilation_ConstructWithOfflineModelBuffer(b"model", c_size_t(5)),
    ):
        assert modern.Compilation_SetDevice(compilation, modern.device()) == SUCCESS
        assert modern.Compilation_Build(compilation) == FAILED
        modern.Compilation_Destroy(byref(compilation))


def test_a_cache_cannot_be_exported_to_a_buffer(modern: Nnrt) -> None:
    graph = addition(modern)
    buffer, size = (ctypes.c_char * 64)(), c_size_t()
    compilation = modern.Compilation_Construct(graph.model)
    ask = (buffer, c_size_t(64), byref(size))
    assert modern.Compilation_ExportCacheToBuffer(compilation, *ask) == INVALID
    assert modern.Compilation_Build(compilation) == SUCCESS
    assert modern.Compilation_ExportCacheToBuffer(compilation, *ask) == 10
    modern.Compilation_Destroy(byref(compilation))
    graph.close()
