"""The program mslite with the reference runtime, on this machine: what it reads, prints and writes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from native.recipe.exit_status import explain_exit
from native.recipe.recipe import load_recipe
from tests.shared import ms_ops as ops
from tests.shared.ms_models import add_softmax, mobilenet_v2, seeded_image
from tests.shared.ms_numpy import Array
from tests.shared.ms_writer import ModelWriter
from tests.shared.reference_runtime import build_mslite

HEAD = re.compile(r"^Tensor name: (.+), tensor size is (\d+) ,elements num: (\d+)\.$", re.MULTILINE)
"""The line of the quick-start program, blank before the comma included: other people's scripts read it."""


@dataclass(frozen=True, kw_only=True)
class Ran:
    status: int
    stdout: str
    stderr: str

    def numbers(self, output: int = 0) -> list[float]:
        lines = self.stdout.split("output data is:\n")[output + 1].splitlines()
        return [float(word) for word in lines[0].split()]


Mslite = Callable[..., Ran]


@pytest.fixture(scope="module")
def program(shared_cache: Path) -> Path:
    return build_mslite(shared_cache)


@pytest.fixture
def mslite(program: Path, tmp_path: Path) -> Mslite:
    def run(*words: str | Path, devices: int = 0) -> Ran:
        done = subprocess.run(
            [program, *map(str, words)],
            cwd=tmp_path,
            env={**os.environ, "OHFORGE_NNRT_DEVICES": str(devices)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        return Ran(status=done.returncode, stdout=done.stdout, stderr=done.stderr)

    return run


def write_model(folder: Path, model: ModelWriter, name: str = "model.ms") -> Path:
    path = folder / name
    path.write_bytes(model.to_bytes())
    return path


def two_inputs() -> ModelWriter:
    model = ModelWriter()
    a, b = model.add_input("first=a", [2, 3]), model.add_input("b", [3])
    model.mark_output(ops.binary(model, "sub", a, b, name="Default/head-Sub:0"))
    return model


def splitmix(seed: int, count: int) -> list[int]:
    """The generator as its author describes it (Steele, Lea, Flood: Fast splittable pseudorandom number generators)."""
    mask, numbers = 2**64 - 1, []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        numbers.append(z ^ (z >> 31))
    return numbers


def test_the_generator_is_the_published_one() -> None:
    # The first outputs for seed 1234567, as given with the public-domain C code of splitmix64.
    assert splitmix(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]


# the way through -----------------------------------------------------------------------------


def test_an_npy_file_goes_in_and_npy_files_come_out(mslite: Mslite, tmp_path: Path) -> None:
    model = mobilenet_v2(size=32)
    image = seeded_image(32)
    np.save(tmp_path / "in.npy", image)
    ran = mslite("--input", "in.npy", "--output", "outputs", write_model(tmp_path, model))
    assert ran.status == 0, ran.stderr
    [expected] = model.evaluate(image)
    written = np.load(tmp_path / "outputs" / "0-Softmax-65.npy")
    assert (written.dtype, written.shape) == (np.float32, (1, 1001))
    np.testing.assert_allclose(written, expected, rtol=1e-5, atol=1e-5)
    described = json.loads((tmp_path / "outputs" / "outputs.json").read_text())
    assert described["reference"] is True
    [output] = described["outputs"]
    assert (output["name"], output["file"], output["shape"]) == ("Softmax-65", "0-Softmax-65.npy", [1, 1001])
    raw = (tmp_path / "outputs" / output["file"]).read_bytes()[output["offset"] :]
    assert len(raw) == output["bytes"] == 4004
    np.testing.assert_array_equal(np.frombuffer(raw, "<f4"), written.ravel())


def test_the_lines_of_the_quick_start_program_are_there(mslite: Mslite, tmp_path: Path) -> None:
    model = mobilenet_v2(size=32)
    np.save(tmp_path / "in.npy", seeded_image(32))
    ran = mslite("--input", "in.npy", write_model(tmp_path, model))
    assert HEAD.findall(ran.stdout) == [("Softmax-65", "4004", "1001")]
    assert len(ran.numbers()) == 51
    np.testing.assert_allclose(ran.numbers(), model.evaluate(seeded_image(32))[0][0, :51], atol=1e-5)
    assert "output data is:\n" in ran.stdout


def test_the_recipe_reads_what_the_program_prints(mslite: Mslite, tmp_path: Path) -> None:
    spec = load_recipe("mslite").run_for("ms")
    write_model(tmp_path, add_softmax())
    ran = mslite(*spec.command("model.ms", {"loops": 5, "warmup": 2, "top": 1}))
    assert ran.status == 0, ran.stderr
    assert spec.missing_proof(ran.stdout) == []
    metrics = spec.read_metrics(ran.stdout)
    times = [float(time) for time in re.findall(r"^loop \d+: ([\d.]+) ms$", ran.stdout, re.MULTILINE)]
    assert (len(times), metrics["loops"].value) == (5, 5)
    assert metrics["predict_mean_ms"].value == pytest.approx(sum(times) / 5, abs=2e-3)
    assert metrics["predict_median_ms"].value == pytest.approx(sorted(times)[2], abs=2e-3)
    assert metrics["predict_least_ms"].value == pytest.approx(min(times), abs=2e-3)
    assert metrics["load_ms"].value > 0
    assert len(re.findall(r"^warmup \d+: ", ran.stdout, re.MULTILINE)) == 2
    assert {path.name for pattern in spec.outputs for path in tmp_path.glob(pattern)} == {
        "0-probabilities.npy",
        "outputs.json",
    }


def test_a_cut_output_lacks_its_proof(mslite: Mslite, tmp_path: Path) -> None:
    spec = load_recipe("mslite").run_for("ms")
    ran = mslite(write_model(tmp_path, add_softmax()))
    assert spec.missing_proof(ran.stdout[: ran.stdout.index("result:")])


def test_the_reference_runtime_is_named_in_every_output(mslite: Mslite, tmp_path: Path) -> None:
    ran = mslite(write_model(tmp_path, add_softmax()))
    assert "engine: ohforge reference runtime" in ran.stdout
    assert "REFERENCE RUNTIME: this is not MindSpore Lite" in ran.stdout


def test_inputs_without_a_file_come_from_the_seed(mslite: Mslite, tmp_path: Path) -> None:
    model = two_inputs()
    path = write_model(tmp_path, model)
    values = [
        np.asarray([(number >> 40) / 2**24 for number in splitmix(seed, count)], np.float32)
        for seed, count in ((41, 6), (42, 3))
    ]
    [expected] = model.evaluate(values[0].reshape(2, 3), values[1])
    ran = mslite("--seed", 41, path)
    np.testing.assert_allclose(ran.numbers(), expected.ravel(), atol=1e-6)
    assert mslite("--seed", 41, path).numbers() == ran.numbers()
    assert mslite("--seed", 7, path).numbers() != ran.numbers()


def test_whole_numbers_from_the_seed_fit_their_type(mslite: Mslite, tmp_path: Path) -> None:
    model = ModelWriter()
    x = model.add_input("x", [100], data_type=np.uint8)
    model.mark_output(ops.cast(model, x, np.float32, 43))
    ran = mslite("--values", 100, write_model(tmp_path, model))
    assert ran.numbers() == [float(number >> 56) for number in splitmix(1, 100)]


def test_inputs_can_be_named_numbered_or_in_order(mslite: Mslite, tmp_path: Path) -> None:
    path = write_model(tmp_path, two_inputs())
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.asarray([1, 1, 1], np.float32)
    np.save(tmp_path / "a.npy", a)
    (tmp_path / "b=b.raw").write_bytes(b.tobytes())
    wanted = (a - b).ravel().tolist()
    for words in (("a.npy", "b=b.raw"), ("0=a.npy", "1=b=b.raw"), ("b=b=b.raw", "0=a.npy")):
        ran = mslite(*(word for name in words for word in ("--input", name)), path)
        assert ran.numbers() == wanted, ran.stderr


def test_an_image_without_its_batch_is_taken(mslite: Mslite, tmp_path: Path) -> None:
    model = mobilenet_v2(size=32)
    np.save(tmp_path / "image.npy", seeded_image(32)[0])
    ran = mslite("--input", "image.npy", write_model(tmp_path, model))
    np.testing.assert_allclose(ran.numbers(), model.evaluate(seeded_image(32))[0][0, :51], atol=1e-5)


def test_names_of_outputs_become_names_of_files(mslite: Mslite, tmp_path: Path) -> None:
    ran = mslite("--output", "out", write_model(tmp_path, two_inputs()))
    assert ran.status == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["0-Default_head-Sub_0.npy", "outputs.json"]


def test_open_dimensions_are_given_by_shape(mslite: Mslite, tmp_path: Path) -> None:
    model = ModelWriter()
    x = model.add_input("x", [-1, 4])
    model.mark_output(ops.softmax(model, x))
    path = write_model(tmp_path, model)
    refused = mslite(path)
    assert (refused.status, "--shape" in refused.stderr) == (64, True)
    ran = mslite("--shape", "3x4", path)
    assert ran.status == 0, ran.stderr
    assert HEAD.findall(ran.stdout)[0][1:] == ("48", "12")
    for words in (("--shape", "3x"), ("--shape", "y=3x4"), ("--shape", "3x4", "--shape", "1x1")):
        assert mslite(*words, path).status == 64


def test_the_largest_values_get_their_labels(mslite: Mslite, tmp_path: Path) -> None:
    path = write_model(tmp_path, add_softmax())
    np.save(tmp_path / "x.npy", np.zeros((1, 4), np.float32))
    (tmp_path / "labels.txt").write_text("zero\none\ntwo\nthree\n")
    ran = mslite("--input", "x.npy", "--top", 2, "--labels", "labels.txt", path)
    assert re.findall(r"^top (\d): class (\d), [\d.]+, (\w+)$", ran.stdout, re.MULTILINE) == [
        ("1", "2", "two"),
        ("2", "0", "zero"),
    ]
    (tmp_path / "labels.txt").write_text("one\ntwo\nthree")
    ran = mslite("--input", "x.npy", "--top", 2, "--labels", "labels.txt", path)
    assert "background" in ran.stdout
    assert re.findall(r"^top \d: class (\d), [\d.]+(?:, (\w+))?$", ran.stdout, re.MULTILINE) == [
        ("2", "two"),
        ("0", ""),
    ]


# devices -------------------------------------------------------------------------------------


def test_a_device_that_is_not_there_is_an_error_not_a_silent_fallback(mslite: Mslite, tmp_path: Path) -> None:
    path = write_model(tmp_path, add_softmax())
    for words, devices in ((("--device", "nnrt"), 0), (("--device", "nnrt:no such"), 1)):
        ran = mslite(*words, path, devices=devices)
        assert ran.status == 69
        assert "not available" in ran.stdout
        assert "does not exist" in explain_exit("mslite", ran.status, ran.stdout).sentence


def test_nnrt_devices_are_listed_and_used_by_name(mslite: Mslite, tmp_path: Path) -> None:
    path = write_model(tmp_path, add_softmax())
    listed = mslite("--list-devices", devices=2)
    names = re.findall(r"^nnrt device: (\S+) \((\w+), id \d+\)$", listed.stdout, re.MULTILINE)
    assert (listed.status, [kind for _, kind in names]) == (0, ["cpu", "accelerator"])
    for name in ("nnrt", f"nnrt:{names[1][0]}"):
        ran = mslite("--device", name, "--performance", "high", "--priority", "low", path, devices=2)
        assert ran.status == 0
        assert "requested=nnrt device=nnrt" in ran.stderr
    none = mslite("--list-devices")
    assert (none.status, "nnrt devices: none" in none.stdout) == (69, True)


def test_what_the_reference_runtime_cannot_do_is_said(mslite: Mslite, tmp_path: Path) -> None:
    ran = mslite("--fp16", "--affinity", "big", write_model(tmp_path, add_softmax()))
    assert ran.status == 0
    assert "fp16 was asked for, computing in float32" in ran.stderr
    assert "ignores thread affinity" in ran.stderr


# what goes wrong -----------------------------------------------------------------------------


def test_no_model_and_a_missing_model_end_as_in_the_quick_start_program(mslite: Mslite) -> None:
    none = mslite()
    assert (none.status, none.stdout) == (255, "Model file must be provided.\n")
    missing = mslite("nowhere.ms")
    assert missing.status == 255
    assert "OH_AI_ModelBuildFromFile failed, ret: -1.\n" in missing.stdout
    assert explain_exit("mslite", 255, missing.stdout).function == "OH_AI_ModelBuildFromFile"


@pytest.mark.parametrize("content", [b"", b"\x08\x07\x12\x07pytorch", b"\x10\0\0\0MSL2"], ids=["empty", "ONNX", "cut"])
def test_a_file_that_is_no_model_gives_the_common_error(mslite: Mslite, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.ms").write_bytes(content)
    ran = mslite("bad.ms")
    assert (ran.status, "result:" in ran.stdout) == (255, False)
    assert "cannot load the model" in ran.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--loops", "0"], "--loops"),
        (["--loops", "2x"], "--loops"),
        (["--threads", "65"], "--threads"),
        (["--seed", "-1"], "--seed"),
        (["--affinity", "fast"], "--affinity"),
        (["--device", "gpu"], "cpu, nnrt or nnrt:NAME"),
        (["--device", "nnrt:"], "cpu, nnrt or nnrt:NAME"),
        (["--lops", "3"], "unknown option"),
        (["--output"], "nothing follows"),
        (["second.ms"], "second model"),
        (["--input", "x="], "nothing after"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    mslite: Mslite, tmp_path: Path, words: list[str], complaint: str
) -> None:
    ran = mslite(write_model(tmp_path, add_softmax()), *words)
    assert ran.status == 64
    assert complaint in ran.stderr


def npy(value: Array, **changes: str) -> bytes:
    """The bytes of a .npy file whose header was changed."""
    import io

    stream = io.BytesIO()
    np.save(stream, value)
    raw = stream.getvalue()
    for old, new in changes.items():
        old = {"magic": "\x93NUMPY", "order": "False", "closing": ")"}[old]
        raw = raw.replace(old.encode("latin-1"), new.ljust(len(old)).encode("latin-1"), 1)
    return raw


X = np.zeros((1, 3, 2, 2), np.float32)
BAD_INPUTS: Sequence[tuple[str, bytes | None, str]] = (
    ("missing", None, "No such file"),
    ("raw too short", bytes(47), "has 47 bytes, but input x needs 48"),
    ("empty", b"", "has 0 bytes"),
    ("another type", npy(X.astype(np.float64)), "holds <f8, but input x needs <f4 (float32)"),
    ("another shape", npy(X.reshape(1, 12)), "has shape 1x12, but input x needs 1x3x2x2"),
    ("channels first", npy(X.transpose(0, 3, 1, 2)), "the file is NCHW, the model takes NHWC"),
    ("cut", npy(X)[:-4], "cut short"),
    ("too long", npy(X) + b"more", "cut short or has more"),
    ("by columns", npy(X, order="True"), "column by column"),
    ("cut in the header", npy(X)[:40], "damaged header"),
    ("header without an end", npy(X, closing=""), "damaged header"),
    ("big-endian", npy(X.astype(">f4")), "holds >f4"),
)


@pytest.mark.parametrize(("content", "complaint"), [row[1:] for row in BAD_INPUTS], ids=[row[0] for row in BAD_INPUTS])
def test_an_input_that_does_not_fit_is_refused(
    mslite: Mslite, tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    model = ModelWriter()
    model.mark_output(ops.unary(model, model.add_input("x", [1, 3, 2, 2]), "abs"))
    if content is not None:
        (tmp_path / "in").write_bytes(content)
    ran = mslite("--input", "in", write_model(tmp_path, model))
    assert ran.status == 66
    assert complaint in ran.stderr
    assert "does not fit the model" in explain_exit("mslite", ran.status, ran.stdout).sentence


def test_a_file_for_an_input_that_is_not_there_is_refused(mslite: Mslite, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 4), np.float32))
    ran = mslite("--input", "y=x.npy", write_model(tmp_path, add_softmax()))
    assert (ran.status, "fits none of the model's 1 inputs" in ran.stderr) == (64, True)


def test_outputs_that_cannot_be_written_are_an_error(mslite: Mslite, tmp_path: Path) -> None:
    path = write_model(tmp_path, add_softmax())
    (tmp_path / "file").write_text("")
    for folder in ("file", "nowhere/deeper"):
        ran = mslite("--output", folder, path)
        assert (ran.status, "result: complete" in ran.stdout) == (73, False)
