"""The rules of models and devices in the reference runtime of NNRt, of both API levels."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_bool, c_char_p, c_int32, c_size_t, c_uint32, c_void_p

import numpy as np
import pytest

from tests.support.nnrt_rules import ADD, CONV2D, RELU, UNKNOWN_DEVICE, by_level
from tests.support.nnrt_runtime import (
    FAILED,
    FORBIDDEN,
    INVALID,
    SUCCESS,
    Graph,
    Nnrt,
    QuantParam,
    addition,
    array,
    tensor,
)

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
