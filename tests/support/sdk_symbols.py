"""Functions of the NNRt and MindSpore Lite C APIs by API level, as OpenHarmony's API reference lists them.

Written down by hand from there: the code has lists of its own, and the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from elftools.elf.elffile import ELFFile


def _names(**families: str) -> frozenset[str]:
    return frozenset(f"OH_NN{family}_{name}" for family, names in families.items() for name in names.split())


NNRT_9 = _names(
    Model="Construct Finish Destroy AddTensor SetTensorData AddOperation SpecifyInputsAndOutputs GetAvailableOperations",
    Compilation="Construct Destroy SetDevice Build SetCache SetPerformanceMode SetPriority EnableFloat16",
    Executor="Construct Destroy SetInput SetOutput Run GetOutputShape AllocateInputMemory AllocateOutputMemory "
    "DestroyInputMemory DestroyOutputMemory SetInputWithMemory SetOutputWithMemory",
    Device="GetAllDevicesID GetName GetType",
)
"""The 31 functions of level 9, in one library."""
NNRT_NEW_IN_11 = _names(
    QuantParam="Create Destroy SetScales SetZeroPoints SetNumBits",
    Model="AddTensorToModel SetTensorQuantParams SetTensorType",
    Compilation="ConstructWithOfflineModelFile ConstructWithOfflineModelBuffer ConstructForCache ExportCacheToBuffer "
    "ImportCacheFromBuffer AddExtensionConfig",
    TensorDesc="Create Destroy SetName GetName SetDataType GetDataType SetShape GetShape SetFormat GetFormat "
    "GetElementCount GetByteSize",
    Tensor="Create Destroy CreateWithSize CreateWithFd GetTensorDesc GetDataBuffer GetFd GetSize GetOffset",
    Executor="GetInputCount GetOutputCount CreateInputTensorDesc CreateOutputTensorDesc GetInputDimRange SetOnRunDone "
    "SetOnServiceDied RunSync RunAsync",
)
"""The 44 that level 11 adds; the 31 are still there."""
NNRT_OLD_EXECUTOR = _names(
    Executor="SetInput SetOutput Run AllocateInputMemory AllocateOutputMemory DestroyInputMemory DestroyOutputMemory "
    "SetInputWithMemory SetOutputWithMemory"
)
"""Deprecated from level 11 on, as is Model_AddTensor; they stayed in the library of models."""


def nnrt_functions(level: int) -> frozenset[str]:
    """All functions of NNRt at that API level."""
    return NNRT_9 | NNRT_NEW_IN_11 if level >= 11 else NNRT_9


def nnrt_libraries(level: int) -> dict[str, frozenset[str]]:
    """The functions of each library of that API level (9 and 10: one; from 11 on: two)."""
    if level < 11:
        return {f"libneural_network_runtime{'.z' if level == 9 else ''}.so": NNRT_9}
    everything = nnrt_functions(level)
    runtime = {name for name in everything if name.startswith(("OH_NNModel_", "OH_NNQuantParam_"))} | NNRT_OLD_EXECUTOR
    return {
        "libneural_network_core.so": everything - runtime,
        "libneural_network_runtime.so": frozenset(runtime),
    }


_COMMON = _names(
    Model="Construct SetTensorData AddOperation SpecifyInputsAndOutputs Finish GetAvailableOperations Destroy",
    Compilation="Construct SetDevice SetCache SetPerformanceMode SetPriority EnableFloat16 Build Destroy",
    Executor="Construct Destroy",
    Device="GetAllDevicesID GetName GetType",
)
NNRT_IMPORTS = {
    9: _COMMON | _names(Model="AddTensor", Executor="SetInput SetOutput Run GetOutputShape"),
    12: _COMMON
    | _names(
        Model="AddTensorToModel SetTensorType",
        TensorDesc="Create Destroy SetDataType SetShape SetFormat GetShape",
        Tensor="Create Destroy GetTensorDesc GetDataBuffer GetSize",
        Executor="GetInputCount GetOutputCount CreateInputTensorDesc CreateOutputTensorDesc RunSync",
    ),
}
"""What the program nnrt calls in each style: none of another level, and none that its level deprecates."""


def _lite(*names: str) -> frozenset[str]:
    return frozenset(f"OH_AI_{name}" for text in names for name in text.split())


LITE_QUICK_START = _lite(
    "ContextCreate ContextDestroy ContextSetThreadNum ContextSetThreadAffinityMode ContextAddDeviceInfo",
    "DeviceInfoCreate DeviceInfoSetEnableFP16 ModelCreate ModelDestroy ModelBuildFromFile ModelGetInputs ModelPredict",
    "TensorGetName TensorGetData TensorGetMutableData TensorGetElementNum TensorGetDataSize",
)
"""The 17 that the quick-start program of MindSpore Lite imports at level 9."""
_LITE_SHAPES = _lite("ModelResize TensorGetShape TensorGetDataType TensorGetFormat")
_LITE_DEVICES = _lite(
    "GetAllNNRTDeviceDescs DestroyAllNNRTDeviceDescs GetElementOfNNRTDeviceDescs CreateNNRTDeviceInfoByName",
    "GetNameFromNNRTDeviceDesc GetTypeFromNNRTDeviceDesc GetDeviceIdFromNNRTDeviceDesc",
    "DeviceInfoSetPerformanceMode DeviceInfoSetPriority",
)
"""New at API level 10."""
LITE_IMPORTS = {
    9: LITE_QUICK_START | _LITE_SHAPES,
    10: LITE_QUICK_START | _LITE_SHAPES | _LITE_DEVICES,
}
"""What the program mslite calls at level 9, and from 10 on."""


def imported_functions(program: Path) -> frozenset[str]:
    """The functions of both APIs that a program or an object wants from elsewhere."""
    with program.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".dynsym") or elf.get_section_by_name(".symtab")
        return _of_the_apis(symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF")


def exported_functions(library: Path) -> frozenset[str]:
    """The functions of both APIs that a shared library has."""
    with library.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        return _of_the_apis(symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF")


def _of_the_apis(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name in names if name.startswith("OH_"))
