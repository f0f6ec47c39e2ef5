"""The real MindSpore Lite, from its wheels: natively, and for arm64 under qemu. `scripts/fetch_real_engine.py` prepares it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.shared.ms_numpy import Array

VARIABLE = "OHFORGE_MINDSPORE_LITE"
SOURCE = Path(__file__).parent / "real_engine.cpp"
FLAGS = ["-std=c++17", "-O1", "-w", "-D_GLIBCXX_USE_CXX11_ABI=0"]
"""The wheels' libraries have the old ABI of libstdc++, so zig's libc++ does not fit them."""
TRIPLE = "aarch64-linux-gnu"


@dataclass(frozen=True, kw_only=True)
class RealEngine:
    """A program that runs one model. `prefix` comes before it."""

    program: Path
    prefix: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def run(
        self, model: Path, values: Sequence[Array], folder: Path, *, loops: int = 1, threads: int = 1
    ) -> tuple[list[Array], float]:
        """The outputs, and the median time of one inference in milliseconds. `folder` takes files in between."""
        files = [folder / f"in{number}.raw" for number in range(len(values))]
        for file, value in zip(files, values, strict=True):
            file.write_bytes(np.ascontiguousarray(value).tobytes())
        done = subprocess.run(
            [*self.prefix, self.program, model, folder, *files],
            env={**self.environment, "ENGINE_LOOPS": str(loops), "ENGINE_THREADS": str(threads)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        *lines, time = done.stdout.splitlines()
        return [self._read(folder, line) for line in lines], float(time.split()[1])

    @staticmethod
    def _read(folder: Path, line: str) -> Array:
        number, _, _, *shape = line.split()
        sizes = [int(size) for size in shape[0].split(",") if size] if shape else []
        return np.frombuffer((folder / f"{number}.raw").read_bytes(), np.float32).reshape(sizes)


def native_engine(prepared: Path, folder: Path) -> RealEngine | None:
    """The engine for this machine; None without g++ or without the wheel."""
    compiler, wheel = shutil.which("g++"), prepared / "x86_64" / "mindspore_lite"
    if compiler is None or not wheel.is_dir():
        return None
    program = folder / "engine-x86_64"
    _compile([compiler], wheel, program)
    return RealEngine(program=program, environment={"LD_LIBRARY_PATH": str(wheel / "lib")})


def arm64_engine(prepared: Path, folder: Path) -> RealEngine | None:
    """The engine for arm64 under qemu; None without the wheel, Debian's cross compiler (only unpacked) or qemu."""
    qemu, wheel, root = shutil.which("qemu-aarch64-static"), prepared / "arm64" / "mindspore_lite", prepared / "cross"
    libraries = root / "usr" / TRIPLE
    compilers = sorted((root / "usr" / "bin").glob(f"{TRIPLE}-g++-*"))
    if qemu is None or not wheel.is_dir() or not compilers:
        return None
    program = folder / "engine-arm64"
    search = [f"--sysroot={root}", "-idirafter", libraries / "include", "-L", libraries / "lib"]
    search += [f"-B{place}" for place in (*(root / "usr/lib/gcc-cross" / TRIPLE).iterdir(), libraries / "lib")]
    search += [f"-B{root / 'usr/bin' / TRIPLE}-"]
    host = {"LD_LIBRARY_PATH": str(root / "usr/lib/x86_64-linux-gnu"), "PATH": f"{root}/usr/bin:{os.environ['PATH']}"}
    _compile([compilers[-1], *search], wheel, program, host)
    prefix = (qemu, "-L", str(libraries), "-E", f"LD_LIBRARY_PATH={wheel / 'lib'}")
    return RealEngine(program=program, prefix=prefix)


def converter_python(prepared: Path) -> Path | None:
    """The Python 3.7 that has the converter; None when it was not prepared."""
    path = prepared / "python" / "bin" / "python"
    return path if path.exists() else None


def _compile(
    compiler: Sequence[str | Path], wheel: Path, program: Path, environment: dict[str, str] | None = None
) -> None:
    words = [*compiler, *FLAGS, f"-I{wheel}", SOURCE, f"-L{wheel / 'lib'}", "-l:libmindspore-extendrt_python.so"]
    subprocess.run(
        [*words, "-Wl,--allow-shlib-undefined", "-o", program],
        check=True,
        timeout=300,
        env={**os.environ, **(environment or {})},
    )
