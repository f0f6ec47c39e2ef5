"""The reference runtime of `.ms` models as a library in this very process: compiled for the host, called by ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.shared.ms_writer import DATA_TYPES, Array

RUNTIME = Path(__file__).resolve().parents[2] / "native" / "programs" / "runtime"
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Werror")
CPU = 0
NUMPY_TYPES = {number: data_type for data_type, number in DATA_TYPES.items()}


class TensorArray(ctypes.Structure):
    _fields_ = (("count", ctypes.c_size_t), ("handles", ctypes.POINTER(ctypes.c_void_p)))


class ShapeInfo(ctypes.Structure):
    _fields_ = (("rank", ctypes.c_size_t), ("sizes", ctypes.c_int64 * 32))


SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "OH_AI_ContextCreate": (ctypes.c_void_p, []),
    "OH_AI_ContextDestroy": (None, [ctypes.c_void_p]),
    "OH_AI_ContextSetThreadNum": (None, [ctypes.c_void_p, ctypes.c_int32]),
    "OH_AI_ContextAddDeviceInfo": (None, [ctypes.c_void_p, ctypes.c_void_p]),
    "OH_AI_DeviceInfoCreate": (ctypes.c_void_p, [ctypes.c_int]),
    "OH_AI_ModelCreate": (ctypes.c_void_p, []),
    "OH_AI_ModelDestroy": (None, [ctypes.c_void_p]),
    "OH_AI_ModelBuild": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_void_p],
    ),
    "OH_AI_ModelBuildFromFile": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint, ctypes.c_void_p],
    ),
    "OH_AI_ModelResize": (
        ctypes.c_int,
        [ctypes.c_void_p, TensorArray, ctypes.POINTER(ShapeInfo), ctypes.c_size_t],
    ),
    "OH_AI_ModelPredict": (
        ctypes.c_int,
        [ctypes.c_void_p, TensorArray, ctypes.POINTER(TensorArray), ctypes.c_void_p, ctypes.c_void_p],
    ),
    "OH_AI_ModelGetInputs": (TensorArray, [ctypes.c_void_p]),
    "OH_AI_ModelGetOutputs": (TensorArray, [ctypes.c_void_p]),
    "OH_AI_ModelGetInputByTensorName": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]),
    "OH_AI_TensorGetName": (ctypes.c_char_p, [ctypes.c_void_p]),
    "OH_AI_TensorGetDataType": (ctypes.c_int, [ctypes.c_void_p]),
    "OH_AI_TensorGetShape": (ctypes.POINTER(ctypes.c_int64), [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]),
    "OH_AI_TensorGetMutableData": (ctypes.c_void_p, [ctypes.c_void_p]),
    "OH_AI_TensorGetData": (ctypes.c_void_p, [ctypes.c_void_p]),
    "OH_AI_TensorGetDataSize": (ctypes.c_size_t, [ctypes.c_void_p]),
    "OH_AI_TensorGetElementNum": (ctypes.c_int64, [ctypes.c_void_p]),
    "OH_AI_TensorSetUserData": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]),
    "OH_AI_TensorCreate": (
        ctypes.c_void_p,
        [
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.POINTER(ctypes.c_int64),
            ctypes.c_size_t,
            ctypes.c_char_p,
            ctypes.c_size_t,
        ],
    ),
    "OH_AI_TensorDestroy": (None, [ctypes.c_void_p]),
    "OH_AI_TensorClone": (ctypes.c_void_p, [ctypes.c_void_p]),
    "ohforge_reference_mslite": (ctypes.c_char_p, []),
}


def mslite_sources() -> list[Path]:
    return [*sorted(RUNTIME.glob("kernels/*.c")), *sorted(RUNTIME.glob("mslite/*.c")), RUNTIME / "devices.c"]


def include_flags() -> list[str]:
    return [f"-I{RUNTIME / folder}" for folder in ("include", "kernels", "mslite", ".")]


def compile_with(
    compiler: Sequence[str], cache: Path, name: str, sources: Sequence[Path], flags: Sequence[str]
) -> Path:
    """Compiles and links `sources` into one file, kept in `cache` under a hash of all that it is made from."""
    digest = hashlib.sha256(repr((compiler, flags)).encode())
    headers = {header for folder in {path.parent for path in sources} for header in folder.glob("*.h*")}
    for path in [*sources, *sorted(headers | set(RUNTIME.rglob("*.h*")))]:
        digest.update(path.read_bytes())
    stem, suffix = Path(name).stem, Path(name).suffix
    target = cache / f"{stem}-{digest.hexdigest()[:16]}{suffix}"
    if not target.exists():
        temporary = target.with_name(f"{os.getpid()}-{target.name}")
        libraries = [] if "-r" in flags else ["-lm", "-lpthread"]
        words = ["-D_GNU_SOURCE", *include_flags(), *flags, *map(str, sources), *libraries, "-o", str(temporary)]
        subprocess.run([*compiler, *words], check=True, timeout=600)
        temporary.rename(target)
    return target


def compiler_with_sanitizers() -> tuple[str, ...] | None:
    """A compiler of this machine that has AddressSanitizer; None when there is none (zig has no such)."""
    for name in ("gcc", "clang"):
        path = shutil.which(name)
        if path is None:
            continue
        probe = subprocess.run(
            [path, "-fsanitize=address,undefined", "-x", "c", "-", "-o", "/dev/null"],
            input=b"int main(void) { return 0; }",
            capture_output=True,
            timeout=120,
        )
        if probe.returncode == 0:
            return (path,)
    return None


def build_mslite(cache: Path) -> Path:
    """The program mslite for this machine; with sanitizers where there are some, so that a leak or a stray access fails."""
    sources = [*sorted((RUNTIME.parent / "mslite" / "src").glob("*.c")), *mslite_sources()]
    flags = ["-std=gnu11", "-O1", "-g", "-DOHFORGE_API_LEVEL=12", *WARNINGS]
    compiler = compiler_with_sanitizers()
    if compiler is None:
        return compile_with((sys.executable, "-m", "ziglang", "cc"), cache, "mslite", sources, flags)
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    return compile_with(compiler, cache, "mslite", sources, flags)


def load_library(cache: Path) -> ctypes.CDLL:
    """The reference runtime for this machine, with the C library of this Python."""
    zig = (sys.executable, "-m", "ziglang", "cc")
    path = compile_with(zig, cache, "mslite.so", mslite_sources(), ["-std=gnu11", "-O3", "-shared", "-fPIC", *WARNINGS])
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class BuildRefused(Exception):
    """The runtime did not take the model; the argument is the status."""


class ReferenceModel:
    """A model in the reference runtime. Use as a context manager."""

    def __init__(self, library: ctypes.CDLL, content: bytes, *, threads: int = 1) -> None:
        self._library = library
        context = library.OH_AI_ContextCreate()
        library.OH_AI_ContextSetThreadNum(context, threads)
        library.OH_AI_ContextAddDeviceInfo(context, library.OH_AI_DeviceInfoCreate(CPU))
        self.handle = ctypes.c_void_p(library.OH_AI_ModelCreate())
        status = library.OH_AI_ModelBuild(self.handle, content, len(content), 0, context)
        if status != 0:
            self.close()
            raise BuildRefused(status)

    def __enter__(self) -> ReferenceModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._library.OH_AI_ModelDestroy(ctypes.byref(self.handle))

    def inputs(self) -> TensorArray:
        array: TensorArray = self._library.OH_AI_ModelGetInputs(self.handle)
        return array

    def outputs(self) -> TensorArray:
        array: TensorArray = self._library.OH_AI_ModelGetOutputs(self.handle)
        return array

    def shape_of(self, tensor: int | None) -> tuple[int, ...]:
        rank = ctypes.c_size_t()
        sizes = self._library.OH_AI_TensorGetShape(tensor, ctypes.byref(rank))
        return tuple(sizes[: rank.value])

    def resize(self, *shapes: Sequence[int]) -> int:
        infos = (ShapeInfo * len(shapes))()
        for info, shape in zip(infos, shapes, strict=True):
            info.rank = len(shape)
            info.sizes[: len(shape)] = list(shape)
        status: int = self._library.OH_AI_ModelResize(self.handle, self.inputs(), infos, len(shapes))
        return status

    def fill(self, *values: Array) -> None:
        inputs = self.inputs()
        for index, value in enumerate(values):
            value = np.ascontiguousarray(value)
            tensor = inputs.handles[index]
            assert self._library.OH_AI_TensorGetDataSize(tensor) == value.nbytes
            ctypes.memmove(self._library.OH_AI_TensorGetMutableData(tensor), value.ctypes.data, value.nbytes)

    def run(self) -> int:
        results = TensorArray()
        status: int = self._library.OH_AI_ModelPredict(self.handle, self.inputs(), ctypes.byref(results), None, None)
        return status

    def results(self) -> list[Array]:
        outputs = self.outputs()
        arrays = []
        for index in range(outputs.count):
            tensor = outputs.handles[index]
            size = self._library.OH_AI_TensorGetDataSize(tensor)
            raw = ctypes.string_at(self._library.OH_AI_TensorGetData(tensor), size)
            data_type = NUMPY_TYPES[self._library.OH_AI_TensorGetDataType(tensor)]
            arrays.append(np.frombuffer(raw, data_type).reshape(self.shape_of(tensor)))
        return arrays

    def predict(self, *values: Array) -> list[Array]:
        """The outputs for these inputs; the run must succeed."""
        self.fill(*values)
        status = self.run()
        assert status == 0, f"predict gave {status}"
        return self.results()
