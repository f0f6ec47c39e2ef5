"""What goes along with a model: inputs, labels, weights in files of their own. All is looked at before anything else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core.errors import ModelError, UsageError
from core.session import Session
from deploy.launch.model_inputs import accompany_model
from native.models.models import Model, find_model
from tests.shared import ms_ops as ops
from tests.shared.ms_writer import ModelWriter
from tests.unit.native.formats.test_ms_format import with_tensor


@pytest.fixture
def model(session: Session, tmp_path: Path) -> Model:
    writer = ModelWriter()
    writer.mark_output(ops.unary(writer, writer.add_input("x", [1, 4]), "abs"))
    path = tmp_path / "model.ms"
    path.write_bytes(writer.to_bytes())
    return find_model(session, str(path))


def test_inputs_and_labels_lie_in_a_folder_of_their_own(model: Model, tmp_path: Path) -> None:
    np.save(tmp_path / "0-x.npy", np.zeros((1, 4), np.float32))
    (tmp_path / "names.txt").write_text("a\nb\n")
    roles = {"inputs": [f"x={tmp_path}/0-x.npy"], "labels": [str(tmp_path / "names.txt")]}
    beside = accompany_model(model, roles, {"loops": 2}, tmp_path)
    # The recipe fetches outputs by the pattern [0-9]*-*.npy: an input of that name must not be among them.
    assert [file.name for file in beside.files] == ["inputs/0-x.npy", "inputs/labels/names.txt"]
    assert beside.arguments == ("--input", "x=inputs/0-x.npy")
    assert beside.parameters == {"loops": 2, "top": 5, "labels": "inputs/labels/names.txt"}
    said = accompany_model(model, {"labels": [str(tmp_path / "names.txt")]}, {"top": 1}, tmp_path)
    assert said.parameters["top"] == 1
    assert accompany_model(model, {}, {}, tmp_path).files == ()


def test_files_that_are_not_there_or_do_not_fit_are_refused(model: Model, tmp_path: Path) -> None:
    (tmp_path / "raw.bin").write_bytes(b"123")
    for roles, sentence in (
        ({"inputs": [f"{tmp_path}/nowhere.npy"]}, "There is no input file"),
        ({"inputs": [f"{tmp_path}/raw.bin"]}, r"has 3 bytes, but input x \(float32 1x4\) needs 16"),
        ({"labels": [f"{tmp_path}/nowhere.txt"]}, "There is no file of labels"),
    ):
        with pytest.raises(UsageError, match=sentence):
            accompany_model(model, roles, {}, tmp_path)
    # With other shapes the sizes of the model do not count.
    assert accompany_model(model, {"inputs": [f"{tmp_path}/raw.bin"]}, {"shape": "1x3"}, tmp_path).files


def test_weights_in_a_file_of_their_own_travel_along(session: Session, tmp_path: Path) -> None:
    def model_with(name: str) -> Model:
        path = tmp_path / "model.ms"
        path.write_bytes(with_tensor(1, data=b"", external=name, external_length=16))
        return find_model(session, str(path))

    (tmp_path / "weights.data").write_bytes(bytes(16))
    [file] = accompany_model(model_with("weights.data"), {}, {}, tmp_path).files
    assert (file.name, file.local) == ("weights.data", tmp_path / "weights.data")
    with pytest.raises(ModelError, match="which is not beside it"):
        accompany_model(model_with("gone.data"), {}, {}, tmp_path)
    with pytest.raises(ModelError, match="does not lie beside it"):
        accompany_model(model_with("../weights.data"), {}, {}, tmp_path)
