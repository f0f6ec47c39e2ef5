"""NDK libraries of the stand-in SDK: small ones of our own, and empty ones that only have the right names."""

from __future__ import annotations

import shutil
from pathlib import Path

from core.process import Runner
from tests.shared.standin_sdk.layout import FILES, TARGETS
from tests.shared.standin_sdk.releases import SdkRelease
from tests.shared.standin_sdk.runtimes import Tools

OWN = {
    # library: (source, header, the header's place below usr/include)
    "libhilog_ndk.z.so": ("hilog.c", "hilog.h", "hilog/log.h"),
    "libdeviceinfo_ndk.z.so": ("deviceinfo.c", "deviceinfo.h", "deviceinfo.h"),
}


def add_ndk_libraries(native: Path, release: SdkRelease, runner: Runner) -> None:
    """Links the libraries that programs name with -l into the sysroot of every arch."""
    tools = Tools(native=native, runner=runner)
    for target in TARGETS:
        lib = native / "sysroot/usr/lib" / target.triple
        for name, (source, header, place) in OWN.items():
            include = native / "sysroot/usr/include" / place
            include.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(FILES / header, include)
            arguments: list[str | Path] = [
                *target.flags,
                "-O2",
                "-fPIC",
                "-shared",
                f"-DAPI_LEVEL={release.api_level}",
                FILES / source,
            ]
            tools.clang(target, "clang", [*arguments, f"-Wl,-soname,{name}", "-o", lib / name])
        for name in _inference_libraries(release.api_level):
            tools.clang(target, "clang", ["-shared", "-xc", "/dev/null", f"-Wl,-soname,{name}", "-o", lib / name])


def make_host_library(native: Path, path: Path, runner: Runner) -> None:
    """An empty shared library for this machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    clang = native / "llvm/bin/clang"
    arguments: list[str | Path] = [
        "--target=x86_64-linux-gnu",
        "-shared",
        "-nostdlib",
        "-fuse-ld=lld",
        "-xc",
        "/dev/null",
        "-o",
        path,
    ]
    Tools(native=native, runner=runner).run([clang, *arguments])


def _inference_libraries(api_level: int) -> tuple[str, ...]:
    """MindSpore Lite's and NNRt's names changed with the API level; these have no functions in them yet."""
    lite = "libmindspore-lite.huawei.so" if api_level < 10 else "libmindspore_lite_ndk.so"
    if api_level < 11:
        return (lite, "libneural_network_runtime.z.so")
    return (lite, "libneural_network_core.so", "libneural_network_runtime.so")
