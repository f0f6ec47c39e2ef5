"""Pictures become the numbers that a classifier wants; other files go as they are."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from core.errors import ModelError, UsageError
from native.formats.ms import MsInfo, read_ms
from native.inputs import npy_header, prepare_inputs
from tests.support import ms_ops as ops
from tests.support.ms_writer import ModelWriter


def model(tmp_path: Path, *shapes: list[int]) -> MsInfo:
    writer = ModelWriter()
    inputs = [writer.add_input(f"in{number}", shape) for number, shape in enumerate(shapes)]
    writer.mark_output(*(ops.unary(writer, x, "abs") for x in inputs))
    path = tmp_path / "model.ms"
    path.write_bytes(writer.to_bytes())
    return read_ms(path)


def picture(path: Path, colour: tuple[int, ...], size: tuple[int, int] = (40, 30), mode: str = "RGB") -> Path:
    Image.new(mode, size, colour).save(path)
    return path


def test_a_picture_of_one_colour_becomes_its_normalised_numbers(tmp_path: Path) -> None:
    path = picture(tmp_path / "red.png", (255, 0, 51))
    prepared = prepare_inputs(model(tmp_path, [1, 6, 8, 3]), [str(path)], tmp_path / "made")
    [file] = prepared.files
    assert prepared.arguments == ("--input", file.name)
    numbers = np.load(file)
    assert (numbers.dtype, numbers.shape) == (np.float32, (1, 6, 8, 3))
    # (1 - 0.485) / 0.229, (0 - 0.456) / 0.224, (0.2 - 0.406) / 0.225
    np.testing.assert_allclose(numbers, np.broadcast_to([2.2489083, -2.0357143, -0.9155556], numbers.shape), atol=1e-6)


def test_the_middle_is_cut_out_after_shrinking_to_256(tmp_path: Path) -> None:
    size = 256
    x, y = np.meshgrid(np.arange(size), np.arange(size))
    levels = np.stack([x, y, np.zeros_like(x)], axis=-1).astype(np.uint8)
    Image.fromarray(levels).save(tmp_path / "ramp.png")
    prepared = prepare_inputs(model(tmp_path, [1, 224, 224, 3]), [str(tmp_path / "ramp.png")], tmp_path)
    numbers = np.load(prepared.files[0])[0]
    red, green = numbers[..., 0] * 0.229 + 0.485, numbers[..., 1] * 0.224 + 0.456
    np.testing.assert_allclose(red[0] * 255, np.arange(16, 240), atol=1e-3)
    np.testing.assert_allclose(green[:, 0] * 255, np.arange(16, 240), atol=1e-3)


@pytest.mark.parametrize(
    ("mode", "colour"), [("RGBA", (255, 0, 51, 0)), ("L", (128,)), ("P", (3,)), ("CMYK", (0, 0, 0, 9))]
)
def test_pictures_of_every_kind_have_three_channels_then(tmp_path: Path, mode: str, colour: tuple[int, ...]) -> None:
    suffix = "tif" if mode == "CMYK" else "png"
    path = picture(tmp_path / f"a.{suffix}", colour if len(colour) > 1 else colour[0], mode=mode)  # type: ignore[arg-type]
    prepared = prepare_inputs(model(tmp_path, [1, 4, 4, 3]), [str(path)], tmp_path)
    assert np.isfinite(np.load(prepared.files[0])).all()


def test_a_camera_picture_is_turned_the_right_way_up(tmp_path: Path) -> None:
    image = Image.new("RGB", (64, 64), (0, 0, 0))
    image.paste((255, 255, 255), (0, 0, 64, 32))  # The upper half is white …
    exif = Image.Exif()
    exif[0x0112] = 3  # … but the camera was held upside down.
    image.save(tmp_path / "photo.jpg", exif=exif)
    prepared = prepare_inputs(model(tmp_path, [1, 16, 16, 3]), [str(tmp_path / "photo.jpg")], tmp_path)
    numbers = np.load(prepared.files[0])[0]
    assert numbers[0].mean() < 0 < numbers[-1].mean()


def test_other_files_go_as_they_are_and_keep_their_order(tmp_path: Path) -> None:
    info = model(tmp_path, [2, 2], [4])
    for name in ("a.npy", "b.bin", "c=d.npy"):
        (tmp_path / name).write_bytes(b"anything")
    prepared = prepare_inputs(info, [f"1={tmp_path}/b.bin", f"{tmp_path}/a.npy"], tmp_path)
    assert prepared.arguments == ("--input", "1=b.bin", "--input", "a.npy")
    assert [path.name for path in prepared.files] == ["b.bin", "a.npy"]
    assert prepare_inputs(info, [f"{tmp_path}/c=d.npy"], tmp_path).arguments == ("--input", "c=d.npy")
    named = prepare_inputs(info, [f"in1={tmp_path}/a.npy"], tmp_path)
    assert named.arguments == ("--input", "in1=a.npy")


def test_what_cannot_be_an_input_is_named(tmp_path: Path) -> None:
    info = model(tmp_path, [1, 4, 4, 3], [2])
    good = picture(tmp_path / "good.png", (1, 2, 3))
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xffnot really")
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.npy").write_bytes(b"1")
    (tmp_path / "x.npy").write_bytes(b"2")
    cases: list[tuple[list[str], type[Exception], str]] = [
        (["nowhere.npy"], UsageError, "no input file nowhere.npy"),
        ([f"{tmp_path}/bad.jpg"], UsageError, "cannot be read as a picture"),
        ([f"{tmp_path}/empty.png"], UsageError, "cannot be read as a picture"),
        ([f"in7={good}"], UsageError, "no input in7; it has: 0 in0, 1 in1"),
        ([f"{tmp_path}/x.npy"] * 3, UsageError, "no input 2"),
        ([f"in1={good}"], ModelError, "Input in1 is float32 2; a picture needs"),
        ([f"{tmp_path}/x.npy", f"{tmp_path}/a/x.npy"], UsageError, "Two input files are called x.npy"),
    ]
    for given, error, message in cases:
        with pytest.raises(error, match=message):
            prepare_inputs(info, given, tmp_path)


def test_the_header_is_numpys_own() -> None:
    for shape in ((1, 224, 224, 3), (5,), ()):
        stream = io.BytesIO()
        np.save(stream, np.zeros(shape, "<f4"))
        read = np.load(io.BytesIO(npy_header("<f4", shape) + bytes(4 * int(np.prod(shape)))))
        assert read.shape == shape
        assert len(npy_header("<f4", shape)) % 64 == 0
