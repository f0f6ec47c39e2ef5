"""Turns ONNX test models into ``.ms`` with MindSpore Lite's own converter, and what is published with them into ``.npy``.

For the Python that the wheel mindspore-lite 2.0.0 is for, which is 3.7, with onnx 1.12 beside it: usage FROM TO, folders.
A folder NAME in FROM has ``model.onnx`` and ``test_data_set_0``; TO gets ``NAME/model.ms``, ``NAME/input_0.npy``, …, or
``NAME/refused.txt``.
"""

from __future__ import annotations

import argparse
from multiprocessing import Process
from pathlib import Path

import mindspore_lite
import numpy as np
import onnx
from onnx import numpy_helper


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    asked = parser.parse_args()
    for model in sorted(asked.source.rglob("model.onnx")):
        target = asked.target / model.parent.relative_to(asked.source)
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted((model.parent / "test_data_set_0").glob("*.pb")):
            tensor = onnx.TensorProto()
            tensor.ParseFromString(file.read_bytes())
            np.save(target / file.with_suffix(".npy").name, numpy_helper.to_array(tensor))
        # A process for each: after one that it refuses, the converter refuses others that it would have taken.
        worker = Process(target=convert, args=(model, target))
        worker.start()
        worker.join()


def convert(model: Path, target: Path) -> None:
    converter = mindspore_lite.Converter()
    converter.save_type = mindspore_lite.ModelType.MINDIR_LITE
    try:
        converter.convert(
            fmk_type=mindspore_lite.FmkType.ONNX, model_file=str(model), output_file=str(target / "model")
        )
    except RuntimeError as error:
        (target / "refused.txt").write_text(str(error) + "\n")


if __name__ == "__main__":
    main()
