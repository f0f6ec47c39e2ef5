"""Published test models: what is read, fed and compared."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from tests.shared.ms_numpy import Array
from tests.shared.published_models import Model, as_stated, compare, read_output


def model(*outputs: Array, relative: float = 0.0, absolute: float = 0.0) -> Model:
    return Model(name="model", path=Path("model.ms"), inputs=[], outputs=outputs, relative=relative, absolute=absolute)


def test_an_output_file_of_openharmony_has_its_shape_in_front() -> None:
    read = read_output(struct.pack("<3I2f", 2, 1, 2, 0.75, 0.25))
    assert read.tolist() == [[0.75, 0.25]]


def test_a_published_picture_in_nchw_order_gets_its_channels_last() -> None:
    published = np.float32([[[[1, 2]], [[3, 4]], [[5, 6]]]])  # one picture, three channels, one line, two columns
    fed = as_stated(published, {"shape": [1, 1, 2, 3], "layout": "NHWC", "dtype": "float32"})
    assert fed.tolist() == [[[[1, 3, 5], [2, 4, 6]]]]
    assert as_stated(published.reshape(-1), {"shape": [1, 1, 2, 3], "layout": "NHWC", "dtype": "float32"}).tolist() == (
        fed.tolist()
    )


def test_a_picture_that_is_published_with_its_channels_last_stays_so() -> None:
    stated = {"shape": [1, 1, 2, 3], "layout": "NHWC", "dtype": "float32"}
    assert as_stated(np.float32([1, 3, 5, 2, 4, 6]), stated, channels_last=True).tolist() == [[[[1, 3, 5], [2, 4, 6]]]]


def test_what_is_no_picture_is_fed_as_it_is() -> None:
    published = np.arange(6, dtype=np.int64).reshape(2, 3)
    fed = as_stated(published, {"shape": [2, 3], "layout": "NHWC", "dtype": "int32"})
    assert (fed.tolist(), fed.dtype) == ([[0, 1, 2], [3, 4, 5]], np.int32)


def test_outputs_agree_within_the_tolerance_of_who_published_them_and_no_further() -> None:
    found = [np.float32([1.0, 2.01])]
    published = np.float32([1.0, 2.0])
    assert compare(found, model(published, relative=0.006)) == "largest difference 1.0e-02"
    assert compare(found, model(published, relative=0.004)) == "differs: by 1.0e-02"
    assert compare(found, model(published, absolute=0.02)) == "largest difference 1.0e-02"


def test_not_a_number_agrees_with_itself_and_a_shape_with_none_other() -> None:
    nothing = np.float32([np.nan, 1])
    assert compare([nothing], model(nothing)) == "largest difference 0.0e+00"
    assert compare([nothing], model(np.float32([0, 1]))).startswith("differs")
    assert compare([nothing], model(np.float32([1]))) == "differs: (2,), not (1,)"
