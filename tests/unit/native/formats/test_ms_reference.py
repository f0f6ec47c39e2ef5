"""Whether the reference runtime can run a model: how many inputs, which types and how it is quantised, not names alone.

tests/integration/native/programs/test_mslite_operators.py holds the same against the runtime itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import ModelError
from core.session import Session
from native.formats.ms import read_ms
from native.models.inspect import describe_lines, inspect_model
from native.models.models import find_model
from tests.shared import ms_ops as ops
from tests.shared.ms_writer import ModelWriter, i8, i32, i64, i64s, quantised

ACTIVATION, PRELU = 2, 112
SIZES = np.asarray([1, 3], np.int32)
WEIGHTS = np.arange(-12, 12, dtype=np.int8).reshape(6, 4)


def split_of(sizes: int) -> ModelWriter:
    """Split with so many inputs for its sizes, as ONNX 13 has one."""
    model = ModelWriter()
    x = model.add_input("x", (2, 4))
    further = [model.add_constant(SIZES) for _ in range(sizes)]
    model.mark_output(*model.add_node(145, [x, *further], {0: i64(2), 2: i64(1)}, output_count=2))
    return model


def product_of(
    weights: np.ndarray[tuple[int, ...], np.dtype[np.generic]],
    *,
    data_type: type = np.float32,
    scales: int = 0,
    made: bool = True,
) -> ModelWriter:
    model = ModelWriter()
    x = model.add_input("x", (2, 6), data_type)
    w = model.add_constant(weights)
    if scales:
        model.tensors[w].extra = quantised([0.5] * scales, [0] * scales, made=made)
    model.mark_output(ops.matmul(model, x, w))
    return model


def compressed() -> ModelWriter:
    model = product_of(WEIGHTS.astype(np.float32))
    model.tensors[1].extra = {11: i32(4)}
    return model


def after_a_product_in_half(act: str = "relu") -> ModelWriter:
    """What comes after a float operator is float, whatever the file declares."""
    model = product_of(WEIGHTS.astype(np.float16))
    model.tensors[model.outputs[0]].data_type = 42
    model.outputs = model.add_node(2, [model.outputs[0]], {0: i8(1)})
    return model


def of_one_node(operator: int, attributes: dict[int, Any], *shape: int) -> ModelWriter:
    model = ModelWriter()
    x = model.add_input("x", shape)
    slopes = [model.add_constant(np.ones(1, np.float32))] if operator == PRELU else []
    model.mark_output(*model.add_node(operator, [x, *slopes], attributes))
    return model


MODELS: dict[str, tuple[Callable[[], ModelWriter], tuple[str, ...]]] = {
    "Split with its sizes in a second input": (lambda: split_of(1), ()),
    "Split with three inputs": (lambda: split_of(2), ("Split with 3 inputs and 2 outputs",)),
    "weights in half precision": (lambda: product_of(WEIGHTS.astype(np.float16)), ()),
    "weights in int8, one scale": (lambda: product_of(WEIGHTS, scales=1), ()),
    "weights in int8, scales that are not marked as made": (lambda: product_of(WEIGHTS, scales=4, made=False), ()),
    "weights in int16, a scale for each column": (lambda: product_of(WEIGHTS.astype(np.int16), scales=4), ()),
    "weights in int8 without a scale": (
        lambda: product_of(WEIGHTS),
        ("MatMulFusion with constants in int8 that have no scale",),
    ),
    "weights in double precision": (
        lambda: product_of(WEIGHTS.astype(np.float64)),
        ("MatMulFusion with constants in float64",),
    ),
    "input in half precision": (
        lambda: product_of(WEIGHTS.astype(np.float32), data_type=np.float16),
        ("MatMulFusion in float16",),
    ),
    "an activation that it has": (lambda: of_one_node(ACTIVATION, {0: i8(19)}, 2, 3), ()),
    "an activation that it lacks": (lambda: of_one_node(ACTIVATION, {0: i8(15)}, 2, 3), ("Activation of kind 15",)),
    "slopes for four dimensions": (lambda: of_one_node(PRELU, {}, 1, 2, 2, 3), ()),
    "slopes for three dimensions": (lambda: of_one_node(PRELU, {}, 1, 2, 3), ("PReLUFusion of 3 dimensions",)),
    "bit packing": (compressed, ("MatMulFusion with compressed weights (bit packing)",)),
    "declared half, computed single": (after_a_product_in_half, ()),
}


@pytest.mark.parametrize("what", MODELS)
def test_a_model_is_looked_at_as_the_runtime_would(tmp_path: Path, what: str) -> None:
    make, lacks = MODELS[what]
    path = tmp_path / "model.ms"
    path.write_bytes(make().to_bytes())
    assert read_ms(path).reference_lacks == lacks
    (line,) = [line for line in describe_lines(inspect_model(path)) if line.startswith("reference runtime")]
    assert line.endswith(f"lacks {lacks[0]}" if lacks else "can run it")


def test_an_activation_that_is_quantised_is_told_apart_from_weights_that_are(tmp_path: Path) -> None:
    model = product_of(WEIGHTS, data_type=np.int8, scales=4)
    model.tensors[0].extra = quantised([0.1], [3])
    path = tmp_path / "model.ms"
    path.write_bytes(model.to_bytes())
    assert read_ms(path).reference_lacks == ("MatMulFusion in int8 (quantised)",)


def test_a_graph_for_training_is_named_and_not_run(session: Session, tmp_path: Path) -> None:
    model = product_of(WEIGHTS.astype(np.float32))
    model.outputs = model.add_node(3, [model.outputs[0], model.outputs[0]], {0: i8(1)})
    path = tmp_path / "train.ms"
    path.write_bytes(model.to_bytes())
    assert [note for note in inspect_model(path)["notes"] if "graph for training (ActivationGrad" in note]
    with pytest.raises(ModelError, match="is a graph for training") as caught:
        find_model(session, str(path))
    assert "--trainModel" in caught.value.remedy


def test_a_model_that_was_compiled_for_a_device_is_named(tmp_path: Path) -> None:
    model = ModelWriter()
    x = model.add_input("x", (1, 4))
    model.mark_output(*model.add_node(191, [x], {0: "ThirdPartyModel"}))
    path = tmp_path / "offline.ms"
    path.write_bytes(model.to_bytes())
    description = inspect_model(path)
    assert description["offline"] and description["reference_runtime_lacks"] == ["Custom"]
    assert [note for note in description["notes"] if "compiled offline for one kind of device" in note]


def test_a_file_whose_end_was_never_written_is_told_apart_from_one_that_is_padded(tmp_path: Path) -> None:
    good = product_of(np.ones((6, 4), np.float32)).to_bytes()
    path = tmp_path / "model.ms"
    path.write_bytes(good + bytes(8192))
    padded = inspect_model(path)
    # What follows the last byte that is not zero in the file itself counts too.
    ends = len(good) - len(good.rstrip(b"\0"))
    assert [
        note for note in padded["notes"] if f"The last {8192 + ends} of its {len(good) + 8192} bytes are zeros" in note
    ]
    path.write_bytes(good[: len(good) // 2] + bytes(8192))
    with pytest.raises(ModelError, match="its space was reserved, but it was not written to the end") as caught:
        read_ms(path)
    assert "Fetch the file again" in caught.value.remedy


def test_lists_and_shapes_may_be_whole_numbers(tmp_path: Path) -> None:
    """Reshape and Concat move cells of any type; the sizes of an operator are int32 by nature."""
    model = ModelWriter()
    x = model.add_input("x", (2, 6), np.int8)
    (y,) = model.add_node(119, [x, model.add_constant(np.asarray([3, 4], np.int32))], {}, data_type=np.int8)
    model.mark_output(*model.add_node(31, [y, y], {0: i64(0)}, data_type=np.int8))
    model.mark_output(*model.add_node(138, [x], {0: i64s([-1])}))
    path = tmp_path / "model.ms"
    path.write_bytes(model.to_bytes())
    assert read_ms(path).reference_lacks == ("Softmax in int8",)
