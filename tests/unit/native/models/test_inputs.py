"""Pictures become the numbers that a classifier wants; other files go as they are."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from core.errors import ModelError, UsageError
from native.formats.ms import MsInfo, read_ms
from native.models.inputs import describe_npy, npy_header, prepare_inputs
from tests.shared import ms_ops as ops
from tests.shared.ms_writer import ModelWriter


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
        (tmp_path / name).write_bytes(b"sixteen bytes ok")
    prepared = prepare_inputs(info, [f"1={tmp_path}/b.bin", f"{tmp_path}/a.npy"], tmp_path)
    assert prepared.arguments == ("--input", "1=b.bin", "--input", "a.npy")
    assert [path.name for path in prepared.files] == ["b.bin", "a.npy"]
    assert prepare_inputs(info, [f"{tmp_path}/c=d.npy"], tmp_path).arguments == ("--input", "c=d.npy")
    named = prepare_inputs(info, [f"in1={tmp_path}/a.npy"], tmp_path)
    assert named.arguments == ("--input", "in1=a.npy")


def test_what_cannot_be_an_input_is_named(tmp_path: Path) -> None:
    info, alike = model(tmp_path, [1, 4, 4, 3], [2]), model(tmp_path, [1], [1])
    good = picture(tmp_path / "good.png", (1, 2, 3))
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xffnot really")
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.npy").write_bytes(b"1234")
    (tmp_path / "x.npy").write_bytes(b"5678")
    cases: list[tuple[list[str], type[Exception], str]] = [
        (["nowhere.npy"], UsageError, "no input file nowhere.npy"),
        ([f"{tmp_path}/bad.jpg"], UsageError, "cannot be read as a picture"),
        ([f"{tmp_path}/empty.png"], UsageError, "cannot be read as a picture"),
        ([f"in7={good}"], UsageError, "no input in7; it has: 0 in0, 1 in1"),
        ([f"in1={good}"], ModelError, "Input in1 is float32 2; a picture needs"),
    ]
    for given, error, message in cases:
        with pytest.raises(error, match=message):
            prepare_inputs(info, given, tmp_path)
    with pytest.raises(UsageError, match="no input 2"):
        prepare_inputs(alike, [f"{tmp_path}/x.npy"] * 3, tmp_path)
    with pytest.raises(UsageError, match=r"Two input files are called x\.npy"):
        prepare_inputs(alike, [f"{tmp_path}/x.npy", f"{tmp_path}/a/x.npy"], tmp_path)


def test_a_file_that_does_not_fit_its_input_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    info = model(tmp_path, [1, 4, 6, 3])
    good = np.zeros((1, 4, 6, 3), np.float32)
    cases: list[tuple[object, str, str]] = [
        (np.zeros((1, 3, 4, 6), np.float32), "has shape 1x3x4x6, but input in0 is float32 1x4x6x3", "NCHW"),
        (good.astype(np.float64), "holds <f8, but input in0 is float32", ""),
        (good.astype(">f4"), "holds >f4", ""),
        (np.asfortranarray(np.zeros((4, 6, 3), np.float32)), "stored column by column", "C-contiguous"),
        (np.zeros((2, 4, 6, 3), np.float32), "has shape 2x4x6x3", ""),
        (np.array([{}]), "holds |O", ""),
        (b"\0" * 287, "has 287 bytes, but input in0 (float32 1x4x6x3) needs 288", ""),
        (b"\x93NUMPY\1\0\x0a\0{'descr': ", "damaged header", ""),
        (b"\x93NUMPY", "damaged header", ""),
        (npy_header("<f4", (1, 4, 6, 3)) + bytes(287), "cut short", ""),
    ]
    path = tmp_path / "in.npy"
    for content, message, remedy in cases:
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            np.save(path, content)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=re.escape(message)) as caught:
            prepare_inputs(info, [str(path)], tmp_path)
        assert remedy in caught.value.remedy
    for fitting in (good, good[0]):  # One picture stands for a batch of one.
        np.save(path, fitting)
        assert prepare_inputs(info, [str(path)], tmp_path, place="inputs/").arguments == ("--input", "inputs/in.npy")
    np.save(path, np.zeros((1, 2, 2, 3), np.float32))
    assert prepare_inputs(info, [str(path)], tmp_path, resized=True).files == (path,)


def test_what_an_output_file_holds_is_said_in_words(tmp_path: Path) -> None:
    np.save(tmp_path / "0-x.npy", np.zeros((1, 1001), np.float32))
    (tmp_path / "no.npy").write_bytes(b"text")
    assert describe_npy(tmp_path / "0-x.npy") == "f4 1x1001"
    assert describe_npy(tmp_path / "no.npy") == describe_npy(tmp_path / "nowhere.npy") == ""


def test_the_header_is_numpys_own() -> None:
    for shape in ((1, 224, 224, 3), (5,), ()):
        stream = io.BytesIO()
        np.save(stream, np.zeros(shape, "<f4"))
        read = np.load(io.BytesIO(npy_header("<f4", shape) + bytes(4 * int(np.prod(shape)))))
        assert read.shape == shape
        assert len(npy_header("<f4", shape)) % 64 == 0
