"""The reference runtime of NNRt as a library in this very process, for one API level, called by ctypes."""

from __future__ import annotations

import ctypes
import shutil
import sys
from collections.abc import Sequence
from ctypes import POINTER, byref, c_int, c_int32, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.shared.ms_writer import Array
from tests.shared.reference_runtime import RUNTIME, WARNINGS, compile_with

SUCCESS, FAILED, INVALID, MEMORY, FORBIDDEN, NULL, BAD_FILE = range(7)
DYNAMIC = 13
TENSOR = 0
TYPES = {"bool": 1, "int8": 2, "int32": 4, "int64": 5, "float32": 11}
POINTERS = (
    "OH_NNModel_Construct",
    "OH_NNCompilation_Construct",
    "OH_NNCompilation_ConstructForCache",
    "OH_NNCompilation_ConstructWithOfflineModelFile",
    "OH_NNCompilation_ConstructWithOfflineModelBuffer",
    "OH_NNExecutor_Construct",
    "OH_NNExecutor_AllocateInputMemory",
    "OH_NNExecutor_AllocateOutputMemory",
    "OH_NNExecutor_CreateInputTensorDesc",
    "OH_NNExecutor_CreateOutputTensorDesc",
    "OH_NNTensorDesc_Create",
    "OH_NNTensor_Create",
    "OH_NNTensor_CreateWithSize",
    "OH_NNTensor_CreateWithFd",
    "OH_NNTensor_GetTensorDesc",
    "OH_NNTensor_GetDataBuffer",
    "OH_NNQuantParam_Create",
)


def host_compilers() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Compilers of C and C++ for this machine: GNU's when they are there, as zig would first build a whole libc++."""
    gcc, gxx = shutil.which("gcc"), shutil.which("g++")
    if gcc and gxx:
        return (gcc,), (gxx,)
    zig = (sys.executable, "-m", "ziglang")
    return (*zig, "cc"), (*zig, "c++")


PROGRAM = RUNTIME.parent / "nnrt" / "src"


def program_sources(level: int) -> list[Path]:
    """The sources of the program nnrt in the style of that API level."""
    other = "engine_api9.cpp" if level >= 11 else "engine_api11.cpp"
    return [path for path in sorted(PROGRAM.glob("*.cpp")) if path.name != other]


def build_nnrt(cache: Path, level: int) -> Path:
    """The program nnrt with the reference runtime, for this machine."""
    cc, cxx = host_compilers()
    flags = [f"-DOHFORGE_API_LEVEL={level}", "-O1", *WARNINGS]
    kernels = [*sorted(RUNTIME.glob("kernels/*.c")), RUNTIME / "devices.c"]
    half = compile_with(cc, cache, "kernels-program.o", kernels, ["-std=gnu11", "-r", *flags])
    sources = [*program_sources(level), *sorted(RUNTIME.glob("nnrt/*.cpp"))]
    more = ["-std=c++17", "-Wno-unused-parameter", str(half)]
    return compile_with(cxx, cache, f"nnrt-{level}", sources, [*more, *flags])


class UInt32Array(ctypes.Structure):
    _fields_ = (("data", POINTER(c_uint32)), ("size", c_uint32))


class QuantParam(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("bits", POINTER(c_uint32)), ("scale", c_void_p), ("zero_point", c_void_p))


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data_type", c_int),
        ("rank", c_uint32),
        ("shape", POINTER(c_int32)),
        ("quantisation", POINTER(QuantParam)),
        ("role", c_int),
    )


class Memory(ctypes.Structure):
    _fields_ = (("data", c_void_p), ("length", c_size_t))


def array(*indices: int) -> Any:
    return byref(UInt32Array((c_uint32 * len(indices))(*indices) if indices else None, len(indices)))


def tensor(shape: Sequence[int], data_type: str | int = "float32", role: int = TENSOR) -> Tensor:
    number = TYPES[data_type] if isinstance(data_type, str) else data_type
    return Tensor(number, len(shape), (c_int32 * len(shape))(*shape) if shape else None, None, role)


class Nnrt:
    """The library of one API level. Functions are reached by their names without ``OH_NN``."""

    def __init__(self, cache: Path, level: int) -> None:
        self.level = level
        cc, cxx = host_compilers()
        flags = [f"-DOHFORGE_API_LEVEL={level}", "-O2", "-fPIC", *WARNINGS]
        kernels = [*sorted(RUNTIME.glob("kernels/*.c")), RUNTIME / "devices.c"]
        # One relocatable object of the C half: a C++ compiler takes no C sources.
        half = compile_with(cc, cache, "kernels.o", kernels, ["-std=gnu11", "-r", *flags])
        sources = sorted(RUNTIME.glob("nnrt/*.cpp"))
        more = ["-std=c++17", "-shared", "-Wno-unused-parameter", str(half)]
        self.library = ctypes.CDLL(str(compile_with(cxx, cache, f"nnrt-{level}.so", sources, [*more, *flags])))

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.library, f"OH_NN{name}")
        if f"OH_NN{name}" in POINTERS:
            function.restype = c_void_p
            return lambda *arguments: c_void_p(function(*arguments))
        return function

    @property
    def modern(self) -> bool:
        return self.level >= 11

    def device(self) -> c_size_t:
        ids, count = POINTER(c_size_t)(), c_uint32()
        assert self.Device_GetAllDevicesID(byref(ids), byref(count)) == SUCCESS
        assert count.value > 0
        return c_size_t(ids[0])


@dataclass
class Graph:
    """A graph in the making, in whichever style the level has."""

    nnrt: Nnrt

    def __post_init__(self) -> None:
        self.model = self.nnrt.Model_Construct()
        self.count = 0

    def add(self, shape: Sequence[int], value: Array | None = None, *, role: int = TENSOR, code: int = SUCCESS) -> int:
        """Adds a tensor, of `value`'s data type or float32; `value` becomes its data."""
        data_type = "float32" if value is None else value.dtype.name
        assert self.nnrt.Model_AddTensor(self.model, byref(tensor(shape, data_type, role))) == code
        index = self.count
        self.count += code == SUCCESS
        if value is not None:
            assert self.set_data(index, value) == SUCCESS
        return index

    def set_data(self, index: int, value: Array, length: int | None = None) -> int:
        raw = np.ascontiguousarray(value).tobytes()
        size = len(raw) if length is None else length
        return int(self.nnrt.Model_SetTensorData(self.model, c_uint32(index), raw, c_size_t(size)))

    def parameter(self, role: int, value: Any, data_type: str) -> int:
        numbers = np.atleast_1d(np.asarray(value, data_type))
        return self.add(numbers.shape, numbers, role=role)

    def operation(self, kind: int, parameters: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> int:
        return int(self.nnrt.Model_AddOperation(self.model, kind, array(*parameters), array(*inputs), array(*outputs)))

    def specify(self, inputs: Sequence[int], outputs: Sequence[int]) -> int:
        return int(self.nnrt.Model_SpecifyInputsAndOutputs(self.model, array(*inputs), array(*outputs)))

    def finish(self) -> int:
        return int(self.nnrt.Model_Finish(self.model))

    def close(self) -> None:
        self.nnrt.Model_Destroy(byref(self.model))
        assert self.model.value is None


def addition(nnrt: Nnrt, shape: Sequence[int] = (1, 2, 2, 3), *, finish: bool = True, activation: int = 0) -> Graph:
    """a + b, with both inputs and the result of that shape."""
    graph = Graph(nnrt)
    for _ in range(2):
        graph.add(shape)
    act = graph.parameter(1, activation, "int8")
    result = graph.add(shape)
    assert graph.operation(1, [act], [0, 1], [result]) == SUCCESS
    assert graph.specify([0, 1], [result]) == SUCCESS
    if finish:
        assert graph.finish() == SUCCESS
    return graph


def run_graph(nnrt: Nnrt, graph: Graph, values: Sequence[Array], shape: Sequence[int]) -> Array:
    """Compiles and runs a finished graph with one output of `shape`, in the style of API level 9."""
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == SUCCESS
    assert nnrt.Compilation_Build(compilation) == SUCCESS
    executor = nnrt.Executor_Construct(compilation)
    keep = [np.ascontiguousarray(value) for value in values]
    for index, value in enumerate(keep):
        data = c_void_p(value.ctypes.data)
        description = tensor(value.shape, value.dtype.name)
        code = nnrt.Executor_SetInput(executor, c_uint32(index), byref(description), data, c_size_t(value.nbytes))
        assert code == SUCCESS
    result = np.full(shape, np.nan, np.float32)
    place = c_void_p(result.ctypes.data)
    assert nnrt.Executor_SetOutput(executor, c_uint32(0), place, c_size_t(result.nbytes)) == SUCCESS
    assert nnrt.Executor_Run(executor) == SUCCESS
    nnrt.Executor_Destroy(byref(executor))
    nnrt.Compilation_Destroy(byref(compilation))
    return result
