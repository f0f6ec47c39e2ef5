"""Input files for a ``.ms`` model: images are turned into numbers here, all else goes to the board as it is.

The steps for an image are those of OpenHarmony's application guide for image classification: shrink so that 256 of
each 224 cells of the model remain, cut out the middle, drop transparency, scale to 0…1, subtract the mean and divide
by the deviation of the ImageNet colours, one picture as NHWC float32.
"""

from __future__ import annotations

import array
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import ModelError, UsageError
from core.files import write_atomic

if TYPE_CHECKING:
    from PIL.Image import Image

    from native.formats.ms import MsInfo
    from native.formats.ms_graph import MsTensor

IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)
"""Of the red, green and blue of ImageNet's pictures, on a scale of 0 to 1."""
NPY_MAGIC = b"\x93NUMPY"
MAX_HEADER = 64 * 1024
MARGIN = 256 / 224
"""How much larger than the model's input the picture is before its middle is cut out."""


@dataclass(frozen=True, kw_only=True)
class PreparedInputs:
    """What must lie in the working directory of mslite, and the words that name it."""

    files: tuple[Path, ...]
    arguments: tuple[str, ...]


def prepare_inputs(
    info: MsInfo, given: Sequence[str], folder: Path, *, place: str = "", resized: bool = False
) -> PreparedInputs:
    """Makes the inputs of a model ready for mslite; `given` are ``FILE`` or ``WHICH=FILE`` (a name or a number).

    `place` is the folder on the board, with a slash at its end, where they will lie; `resized` says that the run gives
    the inputs other shapes than the model's.

    Images are written to `folder` as ``.npy``. Raises UsageError for a file that is not there, does not fit its input,
    is no readable image, or has the name of another; ModelError when the model's input is not an image.
    """
    files: list[Path] = []
    arguments: list[str] = []
    in_order = 0
    for entry in given:
        which, path = _split(entry)
        if not path.is_file():
            raise UsageError(f"There is no input file {path}.")
        tensor = _find_input(info, which, in_order)
        in_order += not which
        if path.suffix.lower() in IMAGES:
            local = folder / f"input-{tensor.index}-{path.stem}.npy"
            write_atomic(local, image_to_npy(path, tensor))
            path = local
        if not resized:
            check_fit(path, tensor)
        if path.name in {file.name for file in files if file != path}:
            raise UsageError(f"Two input files are called {path.name}; on the board they lie in one folder.")
        files.append(path)
        arguments += ["--input", f"{which}={place}{path.name}" if which else f"{place}{path.name}"]
    return PreparedInputs(files=tuple(dict.fromkeys(files)), arguments=tuple(arguments))


def image_to_npy(path: Path, tensor: MsTensor) -> bytes:
    """A picture as the ``.npy`` file that `tensor`, an input of shape 1 x height x width x 3, takes."""
    shape = tensor.shape
    if tensor.dtype != "float32" or len(shape) != 4 or shape[0] != 1 or shape[3] != 3 or min(shape) < 1:
        raise ModelError(
            f"Input {tensor.name} is {tensor.dtype} {'x'.join(map(str, shape))}; a picture needs float32 1xHxWx3.",
            remedy="Give the input as a .npy file of the model's own type and shape.",
        )
    picture = _cut_middle(_open_picture(path), height=shape[1], width=shape[2])
    tables = [
        [(level / 255 - mean) / deviation for level in range(256)]
        for mean, deviation in zip(MEAN, DEVIATION, strict=True)
    ]
    levels = picture.tobytes()
    numbers = array.array("f", bytes(4 * len(levels)))
    for channel, table in enumerate(tables):
        numbers[channel::3] = array.array("f", [table[level] for level in levels[channel::3]])
    if sys.byteorder == "big":
        numbers.byteswap()
    return npy_header("<f4", shape) + numbers.tobytes()


def check_fit(path: Path, tensor: MsTensor) -> None:
    """Raises UsageError unless a ``.npy`` or raw file has the type, shape and size of `tensor`, as mslite demands it.

    A shape that is set only when the model runs, and an item size that we do not know, are left to mslite.
    """
    with path.open("rb") as file:
        head = file.read(MAX_HEADER)
        size = file.seek(0, 2)
    if not tensor.size:
        return
    if not head.startswith(NPY_MAGIC):
        if size != tensor.size:
            raise UsageError(
                f"{path} has {size} bytes, but input {tensor.name} ({_type_and_shape(tensor)}) needs {tensor.size}."
            )
        return
    kind, fortran, shape, offset = _read_npy_header(path, head)
    if fortran:
        raise UsageError(f"{path} is stored column by column.", remedy="Save a C-contiguous array.")
    if kind.lstrip("<|=") != np_kind(tensor):
        raise UsageError(f"{path} holds {kind}, but input {tensor.name} is {_type_and_shape(tensor)}.")
    if _without_leading_ones(shape) != _without_leading_ones(tensor.shape):
        turned = len(shape) == len(tensor.shape) == 4 and shape == tuple(tensor.shape[axis] for axis in (0, 3, 1, 2))
        raise UsageError(
            f"{path} has shape {'x'.join(map(str, shape))}, but input {tensor.name} is {_type_and_shape(tensor)}.",
            remedy="The file is NCHW, the model takes NHWC: transpose it with axes (0, 2, 3, 1)." if turned else None,
        )
    if size - offset != tensor.size:
        raise UsageError(f"{path} is cut short or has more numbers than its header says.")


def describe_npy(path: Path) -> str:
    """Type and shape of a ``.npy`` file in words, such as ``f4 1x1001``; empty when it is none."""
    try:
        with path.open("rb") as file:
            kind, _, shape, _ = _read_npy_header(path, file.read(MAX_HEADER))
    except (OSError, UsageError):
        return ""
    return f"{kind.lstrip('<|=')} {'x'.join(map(str, shape))}".rstrip()


def np_kind(tensor: MsTensor) -> str:
    """The type as ``.npy`` headers write it, without the byte order: ``f4``, ``i8``, ``b1`` …"""
    letter = {"bool": "b", "float": "f", "int": "i", "uint": "u"}[tensor.dtype.rstrip("0123456789")]
    return f"{letter}{tensor.item_size}"


def npy_header(data_type: str, shape: Sequence[int]) -> bytes:
    """The beginning of a ``.npy`` file, version 1.0: magic, length, a dict as text, padded to a multiple of 64."""
    sizes = "".join(f"{size}, " for size in shape)
    text = f"{{'descr': '{data_type}', 'fortran_order': False, 'shape': ({sizes.rstrip()}), }}"
    padded = text + " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode("latin-1")


def _read_npy_header(path: Path, head: bytes) -> tuple[str, bool, tuple[int, ...], int]:
    """Data type, whether it is column by column, shape, and where the numbers begin."""
    import ast

    start = 10 if head[6:7] == b"\x01" else 12
    offset = start + int.from_bytes(head[8:start], "little")
    try:
        said = ast.literal_eval(head[start:offset].decode("latin-1").strip())
        shape = tuple(int(size) for size in said["shape"])
        return str(said["descr"]), bool(said["fortran_order"]), shape, offset
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError) as error:
        raise UsageError(f"{path} is a .npy file with a damaged header.") from error


def _without_leading_ones(shape: Sequence[int]) -> tuple[int, ...]:
    """One picture may stand for a batch of one."""
    ones = next((index for index, size in enumerate(shape) if size != 1), len(shape))
    return tuple(shape[ones:])


def _type_and_shape(tensor: MsTensor) -> str:
    return f"{tensor.dtype} {'x'.join(map(str, tensor.shape))}"


def _split(entry: str) -> tuple[str, Path]:
    """``WHICH=FILE`` in two; a file whose own name has an equals sign is taken whole."""
    if "=" in entry and not Path(entry).expanduser().is_file():
        # Names of tensors may have the sign too; those of files given so rarely do.
        which, _, name = entry.rpartition("=")
        return which, Path(name).expanduser()
    return "", Path(entry).expanduser()


def _find_input(info: MsInfo, which: str, in_order: int) -> MsTensor:
    for number, tensor in enumerate(info.inputs):
        if tensor.name == which or (which or str(in_order)) == str(number):
            return tensor
    names = ", ".join(f"{number} {tensor.name}" for number, tensor in enumerate(info.inputs))
    raise UsageError(f"The model has no input {which or in_order}; it has: {names or 'none'}.")


def _open_picture(path: Path) -> Image:
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            # Cameras store the picture as the sensor lay, and which way is up beside it.
            return ImageOps.exif_transpose(picture).convert("RGB")
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as a picture: {error}") from error


def _cut_middle(picture: Image, *, height: int, width: int) -> Image:
    from PIL.Image import Resampling

    whole = (round(width * MARGIN), round(height * MARGIN))
    left, top = (whole[0] - width) // 2, (whole[1] - height) // 2
    return picture.resize(whole, Resampling.BILINEAR).crop((left, top, left + width, top + height))
