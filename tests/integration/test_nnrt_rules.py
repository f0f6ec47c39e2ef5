"""The reference runtime of NNRt keeps the real one's order of calls and gives its return codes, by API level.

Levels 9 and 12 stand for OpenHarmony 3.2 and 5.0. Where both are tested with one table, the first number is 3.2's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_bool, c_char_p, c_int32, c_size_t, c_uint32, c_void_p
from pathlib import Path

import numpy as np
import pytest

from tests.support.nnrt_runtime import (
    BAD_FILE,
    DYNAMIC,
    FAILED,
    FORBIDDEN,
    INVALID,
    SUCCESS,
    Graph,
    Memory,
    Nnrt,
    QuantParam,
    addition,
    array,
    run_graph,
    tensor,
)

ADD, CONV2D, RELU, SOFTMAX, TOP_K = 1, 8, 47, 30, 53
UNKNOWN_DEVICE = c_size_t(12345)


@pytest.fixture(scope="module", params=[9, 12], ids=["api9", "api12"])
def nnrt(request: pytest.FixtureRequest, shared_cache: Path) -> Nnrt:
    return Nnrt(shared_cache, request.param)


@pytest.fixture(scope="module")
def modern(shared_cache: Path) -> Nnrt:
    return Nnrt(shared_cache, 12)


@pytest.fixture(autouse=True)
def one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_NNRT_DEVICES", "1")


def by_level(nnrt: Nnrt, old: int, new: int) -> int:
    return new if nnrt.modern else old


def compiled(nnrt: Nnrt, graph: Graph) -> c_void_p:
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == SUCCESS
    assert nnrt.Compilation_Build(compilation) == SUCCESS
    return c_void_p(compilation.value)


# devices -------------------------------------------------------------------------------------


def test_no_device_is_a_success_with_nothing_in_it(nnrt: Nnrt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_NNRT_DEVICES", "0")
    ids, count = POINTER(c_size_t)(), c_uint32(9)
    assert nnrt.Device_GetAllDevicesID(byref(ids), byref(count)) == SUCCESS
    assert (bool(ids), count.value) == (False, 0)


def test_a_device_has_a_name_and_a_kind(nnrt: Nnrt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_NNRT_DEVICES", "2")
    ids, count = POINTER(c_size_t)(), c_uint32()
    assert nnrt.Device_GetAllDevicesID(byref(ids), byref(count)) == SUCCESS
    names, kinds = [], []
    for index in range(count.value):
        name, kind = c_char_p(), ctypes.c_int()
        assert nnrt.Device_GetName(c_size_t(ids[index]), byref(name)) == SUCCESS
        assert nnrt.Device_GetType(c_size_t(ids[index]), byref(kind)) == SUCCESS
        names.append(name.value)
        kinds.append(kind.value)
    assert (count.value, len(set(names)), kinds) == (2, 2, [1, 3])


def test_pointers_that_are_set_already_are_refused(nnrt: Nnrt) -> None:
    ids, count = POINTER(c_size_t)(c_size_t(1)), c_uint32()
    assert nnrt.Device_GetAllDevicesID(byref(ids), byref(count)) == INVALID
    assert nnrt.Device_GetAllDevicesID(None, byref(count)) == INVALID
    name = c_char_p(b"set")
    assert nnrt.Device_GetName(nnrt.device(), byref(name)) == INVALID


def test_an_unknown_device_has_no_name_and_no_kind(nnrt: Nnrt) -> None:
    name, kind = c_char_p(), ctypes.c_int()
    assert nnrt.Device_GetName(UNKNOWN_DEVICE, byref(name)) == FAILED
    assert nnrt.Device_GetType(UNKNOWN_DEVICE, byref(kind)) == INVALID


# models --------------------------------------------------------------------------------------


def test_null_handles_are_refused_and_destroying_nothing_is_harmless(nnrt: Nnrt) -> None:
    assert nnrt.Model_AddTensor(None, byref(tensor([1]))) == INVALID
    assert nnrt.Model_Finish(None) == INVALID
    assert nnrt.Compilation_Build(None) == INVALID
    assert nnrt.Executor_Run(None) == INVALID
    nothing = c_void_p()
    for destroy in (nnrt.Model_Destroy, nnrt.Compilation_Destroy, nnrt.Executor_Destroy):
        destroy(byref(nothing))
        destroy(None)


def test_a_finished_model_takes_nothing_more(nnrt: Nnrt) -> None:
    graph = addition(nnrt)
    assert nnrt.Model_AddTensor(graph.model, byref(tensor([1]))) == FORBIDDEN
    assert graph.set_data(0, np.zeros(12, np.float32)) == FORBIDDEN
    assert graph.operation(ADD, [], [0, 1], [3]) == FORBIDDEN
    assert graph.specify([0], [3]) == FORBIDDEN
    assert graph.finish() == FORBIDDEN
    graph.close()


def test_a_model_without_parts_cannot_be_finished(nnrt: Nnrt) -> None:
    graph = Graph(nnrt)
    assert graph.finish() == FORBIDDEN
    graph.add([1])
    graph.add([1])
    assert graph.operation(RELU, [], [0], [1]) == SUCCESS
    assert graph.finish() == FORBIDDEN
    assert graph.specify([0], [1]) == SUCCESS
    assert graph.specify([0], [1]) == FORBIDDEN
    assert graph.finish() == SUCCESS
    graph.close()


@pytest.mark.parametrize(("shape", "data_type"), [([0], 11), ([-2], 11), ([1], 13), ([1], -1), ([70000, 70000], 11)])
def test_a_tensor_that_cannot_be_is_refused(nnrt: Nnrt, shape: list[int], data_type: int) -> None:
    graph = Graph(nnrt)
    assert nnrt.Model_AddTensor(graph.model, byref(tensor(shape, data_type))) == INVALID
    graph.close()


def test_quantisation_has_eight_bits(nnrt: Nnrt) -> None:
    graph = Graph(nnrt)
    scale, zero = (ctypes.c_double * 1)(1.0), (c_int32 * 1)(0)
    for bits, code in ((8, SUCCESS), (4, INVALID)):
        described = tensor([1])
        quantisation = QuantParam(1, (c_uint32 * 1)(bits), ctypes.cast(scale, c_void_p), ctypes.cast(zero, c_void_p))
        described.quantisation = ctypes.pointer(quantisation)
        assert nnrt.Model_AddTensor(graph.model, byref(described)) == code
    graph.close()


def test_data_must_have_the_exact_size_and_come_once(nnrt: Nnrt) -> None:
    graph = Graph(nnrt)
    graph.add([2, 2])
    graph.add([2, -1])
    four = np.ones(4, np.float32)
    assert graph.set_data(0, four, 12) == INVALID
    assert graph.set_data(9, four) == INVALID
    assert graph.set_data(0, four) == SUCCESS
    assert graph.set_data(0, four) == INVALID
    assert graph.set_data(1, four) == FORBIDDEN
    graph.close()


@pytest.mark.parametrize(
    ("kind", "parameters", "inputs", "outputs"),
    [
        (0, [2], [0, 1], [3]),
        (109, [2], [0, 1], [3]),
        (ADD, [2], [0, 7], [3]),
        (ADD, [2], [], [3]),
        (ADD, [2], [0, 1], []),
        (ADD, [2], [0, 1], [1]),
        (ADD, [2], [0, 2], [3]),
        (ADD, [2, 2], [0, 1], [3]),
        (ADD, [4], [0, 1], [3]),
        (ADD, [5], [0, 1], [3]),
        (ADD, [6], [0, 1], [3]),
        (ADD, [0], [0, 1], [3]),
        (ADD, [2], [0], [3]),
    ],
    ids=[
        "operation 0",
        "operation beyond the last",
        "index beyond the tensors",
        "no inputs",
        "no outputs",
        "one tensor as input and output",
        "a parameter as input",
        "a parameter twice",
        "another operation's parameter",
        "parameter of the wrong data type",
        "activation that does not exist",
        "a tensor as parameter",
        "one operand",
    ],
)
def test_an_operation_that_does_not_add_up_is_refused(
    nnrt: Nnrt, kind: int, parameters: list[int], inputs: list[int], outputs: list[int]
) -> None:
    graph = Graph(nnrt)
    graph.add([1])
    graph.add([1])
    graph.parameter(1, 0, "int8")
    graph.add([1])
    graph.parameter(46, 0, "int64")
    graph.parameter(1, 0, "int32")
    graph.parameter(1, 3, "int8")
    assert graph.operation(kind, parameters, inputs, outputs) == INVALID
    graph.close()


def test_an_operation_without_its_optional_parameters_is_taken(nnrt: Nnrt) -> None:
    graph = Graph(nnrt)
    for _ in range(3):
        graph.add([1])
    assert graph.operation(ADD, [], [0, 1], [2]) == SUCCESS
    graph.close()


def test_surplus_parameters_are_refused_from_5_0_on_only(nnrt: Nnrt) -> None:
    graph = Graph(nnrt)
    graph.add([1])
    graph.add([1])
    surplus = graph.parameter(1, 0, "int8")
    assert graph.operation(RELU, [surplus], [0], [1]) == by_level(nnrt, SUCCESS, INVALID)
    graph.close()


def test_an_array_with_a_pointer_but_no_size_is_refused(nnrt: Nnrt) -> None:
    graph = Graph(nnrt)
    graph.add([1])
    graph.add([1])
    odd = array(0)
    odd._obj.size = 0
    assert nnrt.Model_AddOperation(graph.model, RELU, odd, array(0), array(1)) == INVALID
    graph.close()


def test_which_operations_a_device_takes(nnrt: Nnrt, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = addition(nnrt, finish=False)
    supported, count = POINTER(c_bool)(), c_uint32()
    ask = (byref(supported), byref(count))
    assert nnrt.Model_GetAvailableOperations(graph.model, nnrt.device(), *ask) == FORBIDDEN
    assert graph.finish() == SUCCESS
    assert nnrt.Model_GetAvailableOperations(graph.model, UNKNOWN_DEVICE, *ask) == FAILED
    assert nnrt.Model_GetAvailableOperations(graph.model, nnrt.device(), *ask) == SUCCESS
    assert (count.value, supported[0]) == (1, True)
    assert nnrt.Model_GetAvailableOperations(graph.model, nnrt.device(), *ask) == INVALID
    monkeypatch.setenv("OHFORGE_NNRT_UNSUPPORTED", f"{CONV2D},{ADD}")
    again = POINTER(c_bool)()
    assert nnrt.Model_GetAvailableOperations(graph.model, nnrt.device(), byref(again), byref(count)) == SUCCESS
    assert again[0] is False
    graph.close()


# compilations --------------------------------------------------------------------------------


def test_an_unfinished_model_is_not_compiled(nnrt: Nnrt) -> None:
    graph = addition(nnrt, finish=False)
    compilation = nnrt.Compilation_Construct(graph.model)
    if nnrt.modern:
        assert nnrt.Compilation_Build(compilation) == INVALID
        nnrt.Compilation_Destroy(byref(compilation))
    else:
        assert compilation.value is None
    graph.close()


def test_an_unknown_device_shows_at_once_or_when_built(nnrt: Nnrt) -> None:
    graph = addition(nnrt)
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, UNKNOWN_DEVICE) == by_level(nnrt, INVALID, SUCCESS)
    assert nnrt.Compilation_Build(compilation) == by_level(nnrt, FORBIDDEN, FAILED)
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_an_operation_that_the_device_lacks_shows_at_once_or_when_built(
    nnrt: Nnrt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OHFORGE_NNRT_UNSUPPORTED", str(ADD))
    graph = addition(nnrt)
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == by_level(nnrt, FAILED, SUCCESS)
    assert nnrt.Compilation_Build(compilation) == by_level(nnrt, FORBIDDEN, FAILED)
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_an_operation_that_is_known_by_its_number_only_is_taken_but_not_compiled(nnrt: Nnrt) -> None:
    graph = Graph(nnrt)
    graph.add([4])
    graph.add([2])
    assert graph.operation(TOP_K, [], [0], [1]) == SUCCESS
    assert graph.specify([0], [1]) == SUCCESS
    assert graph.finish() == SUCCESS
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == by_level(nnrt, FAILED, SUCCESS)
    assert nnrt.Compilation_Build(compilation) != SUCCESS
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


SETTERS: dict[str, Callable[[Nnrt, c_void_p], int]] = {
    "performance": lambda nnrt, c: nnrt.Compilation_SetPerformanceMode(c, 3),
    "priority": lambda nnrt, c: nnrt.Compilation_SetPriority(c, 3),
    "fp16": lambda nnrt, c: nnrt.Compilation_EnableFloat16(c, c_bool(True)),
}


@pytest.mark.parametrize("capability", SETTERS)
def test_options_before_the_device_are_forbidden_in_3_2(nnrt: Nnrt, capability: str) -> None:
    graph = addition(nnrt)
    compilation = nnrt.Compilation_Construct(graph.model)
    assert SETTERS[capability](nnrt, compilation) == by_level(nnrt, FORBIDDEN, SUCCESS)
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


@pytest.mark.parametrize("capability", SETTERS)
@pytest.mark.parametrize("able", [True, False])
def test_an_option_that_the_device_lacks_is_forbidden_at_once_or_when_built(
    nnrt: Nnrt, capability: str, able: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OHFORGE_NNRT_CAPABILITIES", "performance,priority,fp16" if able else "cache")
    graph = addition(nnrt)
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == SUCCESS
    refused = SUCCESS if able else FORBIDDEN
    assert SETTERS[capability](nnrt, compilation) == by_level(nnrt, refused, SUCCESS)
    assert nnrt.Compilation_Build(compilation) == by_level(nnrt, SUCCESS, refused)
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_the_guides_high_priority_fails_on_the_example_driver(nnrt: Nnrt) -> None:
    # Its driver has fp16, performance modes, cache and dynamic shapes, but no priorities: the default here.
    graph = addition(nnrt)
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == SUCCESS
    codes = [nnrt.Compilation_SetPriority(compilation, 3), nnrt.Compilation_Build(compilation)]
    assert codes == ([SUCCESS, FORBIDDEN] if nnrt.modern else [FORBIDDEN, SUCCESS])
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_a_compilation_without_a_device_takes_the_first_from_5_0_on(
    nnrt: Nnrt, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = addition(nnrt)
    for devices, code in (("1", by_level(nnrt, FORBIDDEN, SUCCESS)), ("0", by_level(nnrt, FORBIDDEN, FAILED))):
        monkeypatch.setenv("OHFORGE_NNRT_DEVICES", devices)
        compilation = nnrt.Compilation_Construct(graph.model)
        assert nnrt.Compilation_Build(compilation) == code
        nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_a_second_build_is_refused(nnrt: Nnrt) -> None:
    graph = addition(nnrt)
    compilation = compiled(nnrt, graph)
    assert nnrt.Compilation_Build(compilation) == by_level(nnrt, FORBIDDEN, INVALID)
    assert nnrt.Compilation_SetPerformanceMode(compilation, 1) == by_level(nnrt, FORBIDDEN, SUCCESS)
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_shapes_that_do_not_fit_show_when_it_is_built(nnrt: Nnrt) -> None:
    graph = Graph(nnrt)
    graph.add([2, 3])
    graph.add([4])
    graph.add([2, 3])
    assert graph.operation(ADD, [], [0, 1], [2]) == SUCCESS
    assert graph.specify([0, 1], [2]) == SUCCESS
    assert graph.finish() == SUCCESS
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == SUCCESS
    assert nnrt.Compilation_Build(compilation) == FAILED
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


# the cache -----------------------------------------------------------------------------------


def build_with_cache(nnrt: Nnrt, folder: Path, version: int) -> int:
    graph = addition(nnrt)
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == SUCCESS
    path = c_char_p(str(folder).encode())  # It must live until Build.
    code = int(nnrt.Compilation_SetCache(compilation, path, c_uint32(version)))
    code = code or int(nnrt.Compilation_Build(compilation))
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()
    return code


def test_a_cache_is_written_used_and_outgrown(nnrt: Nnrt, tmp_path: Path) -> None:
    assert build_with_cache(nnrt, tmp_path, 2) == SUCCESS
    assert {path.name for path in tmp_path.iterdir()} == {"0.nncache", "cache_info.nncache"}
    before = (tmp_path / "cache_info.nncache").read_bytes()
    assert build_with_cache(nnrt, tmp_path, 2) == SUCCESS
    assert (tmp_path / "cache_info.nncache").read_bytes() == before
    assert build_with_cache(nnrt, tmp_path, 1) == FORBIDDEN
    assert build_with_cache(nnrt, tmp_path, 3) == SUCCESS
    assert (tmp_path / "cache_info.nncache").read_bytes() != before


@pytest.mark.parametrize("content", [b"", b"something else"])
def test_a_damaged_cache_is_an_error_in_3_2_and_rebuilt_later(nnrt: Nnrt, tmp_path: Path, content: bytes) -> None:
    assert build_with_cache(nnrt, tmp_path, 1) == SUCCESS
    (tmp_path / "0.nncache").write_bytes(content)
    assert build_with_cache(nnrt, tmp_path, 1) == by_level(nnrt, BAD_FILE, SUCCESS)


def test_a_cache_of_another_device_is_an_error_in_3_2_and_rebuilt_later(nnrt: Nnrt, tmp_path: Path) -> None:
    assert build_with_cache(nnrt, tmp_path, 1) == SUCCESS
    info = bytearray((tmp_path / "cache_info.nncache").read_bytes())
    info[16] ^= 1  # count, version, device: eight bytes each
    (tmp_path / "cache_info.nncache").write_bytes(info)
    assert build_with_cache(nnrt, tmp_path, 1) == by_level(nnrt, INVALID, SUCCESS)


def test_a_cache_folder_must_exist_and_the_highest_version_is_reserved(nnrt: Nnrt, tmp_path: Path) -> None:
    assert build_with_cache(nnrt, tmp_path / "nowhere", 1) == INVALID
    assert build_with_cache(nnrt, tmp_path, 0xFFFFFFFF) == INVALID


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
