"""The reference runtime keeps the C API's contract: statuses, ownership, resizing, callbacks."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_int64, c_void_p
from pathlib import Path

import numpy as np
import pytest

from tests.shared import ms_ops as ops
from tests.shared.ms_models import add_softmax
from tests.shared.ms_writer import ModelWriter
from tests.shared.reference_runtime import CPU, ReferenceModel, TensorArray, load_library

ERROR, NULLPTR, PARAM_INVALID, INPUT_TENSOR = -1, -2, -3, -101
MINDIR, INVALID_TYPE = 0, 0xFFFFFFFF
FLOAT32, INT32 = 43, 34
GPU, NPU, NNRT, UNKNOWN = 1, 2, 60, 7
X = np.asarray([[0.5, -1, 2, 0]], np.float32)


class CallBackParam(ctypes.Structure):
    _fields_ = (("node_name", ctypes.c_char_p), ("node_type", ctypes.c_char_p))


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_bool, TensorArray, TensorArray, CallBackParam)


@pytest.fixture(scope="module")
def runtime(shared_cache: Path) -> ctypes.CDLL:
    return load_library(shared_cache)


def context(runtime: ctypes.CDLL) -> c_void_p:
    handle = runtime.OH_AI_ContextCreate()
    runtime.OH_AI_ContextAddDeviceInfo(handle, runtime.OH_AI_DeviceInfoCreate(CPU))
    return c_void_p(handle)


def user_tensor(runtime: ctypes.CDLL, shape: list[int], data_type: int, data: bytes | None) -> c_void_p:
    sizes = (c_int64 * len(shape))(*shape)
    return c_void_p(
        runtime.OH_AI_TensorCreate(b"mine", data_type, sizes, len(shape), data, 0 if data is None else len(data))
    )


def predict(runtime: ctypes.CDLL, model: ReferenceModel, *tensors: c_void_p) -> int:
    handles = (c_void_p * max(1, len(tensors)))(*(tensor.value for tensor in tensors))
    inputs = TensorArray(len(tensors), ctypes.cast(handles, POINTER(c_void_p)))
    return int(runtime.OH_AI_ModelPredict(model.handle, inputs, byref(TensorArray()), None, None))


def test_arguments_that_are_missing_or_invalid_have_their_statuses(runtime: ctypes.CDLL) -> None:
    model, ctx, content = c_void_p(runtime.OH_AI_ModelCreate()), context(runtime), add_softmax().to_bytes()
    build, from_file = runtime.OH_AI_ModelBuild, runtime.OH_AI_ModelBuildFromFile
    assert build(None, content, len(content), MINDIR, ctx) == NULLPTR
    assert build(model, None, 0, MINDIR, ctx) == NULLPTR
    assert build(model, content, len(content), MINDIR, None) == NULLPTR
    assert build(model, content, len(content), INVALID_TYPE, ctx) == PARAM_INVALID
    assert from_file(model, None, MINDIR, ctx) == NULLPTR
    assert from_file(model, b"/nowhere.ms", MINDIR, ctx) == ERROR
    runtime.OH_AI_ModelDestroy(byref(model))
    assert model.value is None


def test_a_model_is_built_once(runtime: ctypes.CDLL) -> None:
    content = add_softmax().to_bytes()
    with ReferenceModel(runtime, content) as model:
        ctx = context(runtime)
        assert runtime.OH_AI_ModelBuild(model.handle, content, len(content), MINDIR, ctx) == ERROR
        runtime.OH_AI_ContextDestroy(byref(ctx))  # It was not taken over.
        assert model.predict(X)[0].shape == (1, 4)


def test_a_model_that_was_not_built_has_no_inputs_and_does_not_run(runtime: ctypes.CDLL) -> None:
    model = c_void_p(runtime.OH_AI_ModelCreate())
    array = runtime.OH_AI_ModelGetInputs(model)
    assert (array.count, bool(array.handles)) == (0, False)
    assert runtime.OH_AI_ModelPredict(model, array, byref(TensorArray()), None, None) == ERROR
    runtime.OH_AI_ModelDestroy(byref(model))


def test_a_context_without_a_device_builds_nothing(runtime: ctypes.CDLL) -> None:
    content = add_softmax().to_bytes()
    model, ctx = c_void_p(runtime.OH_AI_ModelCreate()), c_void_p(runtime.OH_AI_ContextCreate())
    assert runtime.OH_AI_ModelBuild(model, content, len(content), MINDIR, ctx) == ERROR
    runtime.OH_AI_ModelDestroy(byref(model))


def test_destroying_nothing_is_harmless(runtime: ctypes.CDLL) -> None:
    nothing = c_void_p()
    for destroy in (runtime.OH_AI_ModelDestroy, runtime.OH_AI_ContextDestroy, runtime.OH_AI_TensorDestroy):
        destroy(byref(nothing))
        destroy(None)


def test_only_known_kinds_of_device_can_be_made(runtime: ctypes.CDLL) -> None:
    for kind in (CPU, GPU, NPU, NNRT):
        device = c_void_p(runtime.OH_AI_DeviceInfoCreate(kind))
        assert device.value
        runtime.OH_AI_DeviceInfoDestroy(byref(device))
    assert not runtime.OH_AI_DeviceInfoCreate(UNKNOWN)


def test_inputs_that_do_not_fit_have_their_statuses(runtime: ctypes.CDLL) -> None:
    with ReferenceModel(runtime, add_softmax().to_bytes()) as model:
        good = user_tensor(runtime, [1, 4], FLOAT32, X.tobytes())
        cases = {
            "type": (user_tensor(runtime, [1, 4], INT32, bytes(16)), INPUT_TENSOR),
            "no data": (user_tensor(runtime, [1, 4], FLOAT32, None), INPUT_TENSOR),
            "size": (user_tensor(runtime, [1, 5], FLOAT32, bytes(20)), INPUT_TENSOR),
            "good": (good, 0),
        }
        for tensor, status in cases.values():
            assert predict(runtime, model, tensor) == status
            runtime.OH_AI_TensorDestroy(byref(tensor))
        assert predict(runtime, model) == ERROR
        [result] = model.results()
        np.testing.assert_allclose(result, add_softmax().evaluate(X)[0], atol=1e-6)


def test_a_tensor_made_with_too_little_data_is_none(runtime: ctypes.CDLL) -> None:
    assert user_tensor(runtime, [1, 4], FLOAT32, bytes(12)).value is None


def test_an_input_without_data_gets_room_when_it_is_asked_for(runtime: ctypes.CDLL) -> None:
    with ReferenceModel(runtime, add_softmax().to_bytes()) as model:
        tensor = model.inputs().handles[0]
        assert runtime.OH_AI_TensorGetData(tensor) is None
        assert model.run() == INPUT_TENSOR
        assert runtime.OH_AI_TensorGetMutableData(tensor) is not None
        assert model.run() == 0


def test_borrowed_data_must_have_the_exact_size(runtime: ctypes.CDLL) -> None:
    with ReferenceModel(runtime, add_softmax().to_bytes()) as model:
        tensor, data = model.inputs().handles[0], X.copy()
        assert runtime.OH_AI_TensorSetUserData(tensor, data.ctypes.data, 12) == PARAM_INVALID
        assert runtime.OH_AI_TensorSetUserData(tensor, data.ctypes.data, 16) == 0
        assert model.run() == 0
        np.testing.assert_allclose(model.results()[0], add_softmax().evaluate(X)[0], atol=1e-6)


def test_a_clone_belongs_to_the_caller_and_a_models_tensor_to_the_model(runtime: ctypes.CDLL) -> None:
    with ReferenceModel(runtime, add_softmax().to_bytes()) as model:
        model.fill(X)
        own = c_void_p(model.inputs().handles[0])
        clone = c_void_p(runtime.OH_AI_TensorClone(own))
        assert clone.value != own.value
        assert runtime.OH_AI_TensorGetName(clone) == b"x"
        raw = ctypes.string_at(runtime.OH_AI_TensorGetData(clone), 16)
        assert raw == X.tobytes()
        runtime.OH_AI_TensorDestroy(byref(clone))
        runtime.OH_AI_TensorDestroy(byref(own))
        assert model.run() == 0


def test_tensors_are_found_by_name(runtime: ctypes.CDLL) -> None:
    with ReferenceModel(runtime, add_softmax().to_bytes()) as model:
        found = runtime.OH_AI_ModelGetInputByTensorName(model.handle, b"x")
        assert found == model.inputs().handles[0]
        assert runtime.OH_AI_ModelGetInputByTensorName(model.handle, b"y") is None


def test_outputs_stay_valid_until_the_next_run(runtime: ctypes.CDLL) -> None:
    with ReferenceModel(runtime, add_softmax().to_bytes()) as model:
        [first] = model.predict(X)
        np.testing.assert_array_equal(first, model.results()[0])
        assert model.shape_of(model.outputs().handles[0]) == (1, 4)


def test_open_dimensions_need_a_resize_before_the_run(runtime: ctypes.CDLL) -> None:
    writer = ModelWriter()
    x = writer.add_input("x", [-1, 3])
    doubled = ops.concat(writer, [x, x], 0)
    writer.mark_output(ops.softmax(writer, ops.reshape_as(writer, doubled, ops.doubled_shape(writer, x))))
    with ReferenceModel(runtime, writer.to_bytes()) as model:
        assert runtime.OH_AI_TensorGetMutableData(model.inputs().handles[0]) is None
        assert model.run() == INPUT_TENSOR
        for rows in (4, 1, 6):
            value = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3) / 7
            assert model.resize([rows, 3]) == 0
            assert model.shape_of(model.outputs().handles[0]) == (2 * rows, 3)
            np.testing.assert_allclose(model.predict(value)[0], writer.evaluate(value)[0], atol=1e-6)
        assert model.resize([0, 3]) == PARAM_INVALID
        assert model.resize([2**31, 3]) == PARAM_INVALID


def test_shapes_that_the_model_cannot_take_are_refused(runtime: ctypes.CDLL) -> None:
    with ReferenceModel(runtime, add_softmax().to_bytes()) as model:
        assert model.resize([1, 5]) == ERROR
        assert model.resize([3, 4]) == 0
        assert model.shape_of(model.outputs().handles[0]) == (3, 4)


def test_callbacks_see_every_node_in_order_and_may_stop_the_run(runtime: ctypes.CDLL) -> None:
    seen: list[tuple[str, bytes, bytes]] = []
    stop_after: set[bytes] = set()

    def before(inputs: TensorArray, outputs: TensorArray, node: CallBackParam) -> bool:
        seen.append(("before", node.node_name, node.node_type))
        return True

    def after(inputs: TensorArray, outputs: TensorArray, node: CallBackParam) -> bool:
        seen.append(("after", node.node_name, node.node_type))
        return node.node_type not in stop_after

    calls = [CALLBACK(before), CALLBACK(after)]
    predict_with = runtime["OH_AI_ModelPredict"]
    predict_with.argtypes = [c_void_p, TensorArray, POINTER(TensorArray), c_void_p, c_void_p]
    with ReferenceModel(runtime, add_softmax().to_bytes()) as model:
        model.fill(X)
        for stopping, status in ((set(), 0), ({b"AddFusion"}, ERROR)):
            stop_after |= stopping
            both = [ctypes.cast(call, c_void_p) for call in calls]
            assert predict_with(model.handle, model.inputs(), byref(TensorArray()), *both) == status
        one_only = (ctypes.cast(calls[0], c_void_p), None)
        assert predict_with(model.handle, model.inputs(), byref(TensorArray()), *one_only) == 0
    adding = [("before", b"sum", b"AddFusion"), ("after", b"sum", b"AddFusion")]
    softmax = [("before", b"probabilities", b"Softmax"), ("after", b"probabilities", b"Softmax")]
    assert seen == [*adding, *softmax, *adding]


def test_the_library_says_that_it_is_the_reference_runtime(runtime: ctypes.CDLL) -> None:
    assert b"reference runtime" in runtime.ohforge_reference_mslite()
