"""The test models themselves: what the writer writes, read by another's reader; NumPy's answers, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from native.formats.ms import MsInfo, read_ms, require_sound
from tests.shared import ms_numpy as known
from tests.shared import ms_ops as ops
from tests.shared.ms_models import add_softmax, mobilenet_v2
from tests.shared.ms_writer import ModelWriter


def read(tmp_path: Path, model: ModelWriter) -> MsInfo:
    path = tmp_path / "model.ms"
    path.write_bytes(model.to_bytes())
    return read_ms(path)


def test_a_reader_of_its_own_finds_what_the_writer_wrote(tmp_path: Path) -> None:
    info = read(tmp_path, add_softmax())
    require_sound(tmp_path / "model.ms", info)
    assert info.version == "MindSpore Lite 2.0.0"
    assert [(t.name, t.dtype, t.shape, t.layout) for t in info.inputs] == [("x", "float32", (1, 4), "NHWC")]
    assert [(t.name, t.shape) for t in info.outputs] == [("probabilities", (1, 4))]
    assert {operator.name: count for operator, count in info.operators} == {"AddFusion": 1, "Softmax": 1}
    assert info.weight_bytes == 16


def test_the_small_model_has_the_answer_that_a_pocket_calculator_gives() -> None:
    [result] = add_softmax().evaluate(np.zeros((1, 4), np.float32))
    e = [1.6487212707, 0.6065306597, 2.7182818285, 1.0]
    np.testing.assert_allclose(result, [[value / sum(e) for value in e]], atol=1e-9)


def test_mobilenet_has_the_operators_of_the_converted_original(tmp_path: Path) -> None:
    info = read(tmp_path, mobilenet_v2())
    require_sound(tmp_path / "model.ms", info)
    assert {operator.name: count for operator, count in info.operators} == {
        "Conv2DFusion": 52,
        "AddFusion": 10,
        "AvgPoolFusion": 1,
        "Transpose": 1,
        "Flatten": 1,
        "MatMulFusion": 1,
        "Softmax": 1,
    }
    assert (info.nodes, info.tensors) == (67, 175)
    # 3,504,872 parameters for 1000 classes (torchvision's figure, batch norms folded: 3,487,816), 1281 for one more.
    assert info.weight_bytes == 4 * (3_487_816 + 1281) + 4 * 4
    assert mobilenet_v2().to_bytes() == mobilenet_v2().to_bytes()


def test_half_precision_weights_take_half_the_room() -> None:
    whole, half = (len(mobilenet_v2(size=32, half=half).to_bytes()) for half in (False, True))
    assert half == pytest.approx(whole / 2, rel=0.01)


def test_same_padding_puts_the_odd_cell_after() -> None:
    assert known.same_padding(224, 3, 2, 1) == (0, 1)
    assert known.same_padding(7, 3, 1, 1) == (1, 1)
    assert known.same_padding(5, 2, 1, 1) == (0, 1)
    assert known.same_padding(9, 3, 1, 2) == (2, 2)


def test_a_convolution_worked_out_by_hand() -> None:
    x = np.arange(9.0).reshape(1, 3, 3, 1)
    weight = np.asarray([[[[1.0], [2.0]], [[3.0], [4.0]]]])
    expected = [[0 + 2 + 9 + 16, 1 + 4 + 12 + 20], [3 + 8 + 18 + 28, 4 + 10 + 21 + 32]]
    np.testing.assert_array_equal(known.conv2d(x, weight, np.asarray([0.0]))[0, :, :, 0], expected)


def test_a_depthwise_convolution_keeps_its_channels_apart() -> None:
    x = np.asarray([1.0, 10.0]).reshape(1, 1, 1, 2)
    weight = np.asarray([2.0, 3.0]).reshape(2, 1, 1, 1)
    np.testing.assert_array_equal(known.conv2d(x, weight, group=2).ravel(), [2, 30])


def test_a_transposed_convolution_is_the_convolutions_adjoint() -> None:
    random = np.random.default_rng(3)
    x, y = random.standard_normal((1, 7, 6, 2)), random.standard_normal((1, 4, 3, 3))
    weight = random.standard_normal((3, 3, 2, 2))
    there = known.conv2d(x, weight, stride=(2, 2), pads=(1, 1, 0, 0))
    back = known.conv2d_transpose(y, weight, stride=(2, 2), pads=(1, 1, 0, 0))
    assert there.shape == (1, 4, 3, 3)
    assert back.shape == (1, 7, 6, 2)
    assert np.vdot(there, y) == pytest.approx(np.vdot(x, back))


def test_padding_is_not_counted_in_a_mean() -> None:
    x = np.asarray([[4.0, 8.0], [12.0, 16.0]]).reshape(1, 2, 2, 1)
    pooled = known.pool2d(x, kind="mean", kernel=(2, 2), stride=(2, 2), pads=(1, 1, 1, 1))
    np.testing.assert_array_equal(pooled.ravel(), [4, 8, 12, 16])


def test_rounding_up_gives_one_more_cell_at_the_border() -> None:
    x = np.arange(5.0).reshape(1, 1, 5, 1)
    for ceil, expected in ((False, [0.5, 2.5]), (True, [0.5, 2.5, 4.0])):
        pooled = known.pool2d(x, kind="mean", kernel=(1, 2), stride=(1, 2), ceil=ceil)
        np.testing.assert_array_equal(pooled.ravel(), expected)


def test_activations_at_points_that_are_known() -> None:
    x = np.asarray([-4.0, -1.0, 0.0, 1.0, 7.0])
    np.testing.assert_allclose(known.activation(x, "relu6"), [0, 0, 0, 1, 6])
    np.testing.assert_allclose(known.activation(x, "hswish"), [0, -1 / 3, 0, 2 / 3, 7])
    np.testing.assert_allclose(known.activation(x, "leaky", 0.1), [-0.4, -0.1, 0, 1, 7])
    np.testing.assert_allclose(known.activation(x, "gelu")[[1, 3]], [-0.15865525, 0.84134475], atol=1e-8)


def test_bilinear_resize_of_two_cells_to_four() -> None:
    x = np.asarray([0.0, 1.0]).reshape(1, 1, 2, 1)
    for coordinates, expected in (
        ("asymmetric", [0, 0.5, 1, 1]),
        ("align_corners", [0, 1 / 3, 2 / 3, 1]),
        ("half_pixel", [0, 0.25, 0.75, 1]),
    ):
        np.testing.assert_allclose(known.resize_bilinear(x, 1, 4, coordinates).ravel(), expected)


def test_full_connection_takes_weights_by_output(tmp_path: Path) -> None:
    model = ModelWriter()
    x = model.add_input("x", [2, 3])
    weight = model.add_constant(np.asarray([[1, 2, 3], [4, 5, 6]], np.float32))
    model.mark_output(ops.full_connection(model, x, weight, model.add_constant(np.asarray([10, 20], np.float32))))
    [result] = model.evaluate(np.asarray([[1, 0, 0], [0, 0, 1]], np.float32))
    np.testing.assert_array_equal(result, [[11, 24], [13, 26]])
    assert read(tmp_path, model).nodes == 1
