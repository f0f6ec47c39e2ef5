"""Fetches the real MindSpore Lite for the opt-in tests: the wheels, a cross compiler for arm64, and the converter.

    python scripts/fetch_real_engine.py FOLDER [--python37 PATH]

Nothing is installed: wheels and Debian packages are unpacked below FOLDER (1.2 GB). Without apt-get the part for arm64 is
left out, without a Python 3.7 the converter; the tests then say what they skip. Docs: docs/mindspore.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from core.deadline import Deadline
from core.process import RealRunner

VERSION = "2.0.0"
WHEELS = {"x86_64": ("cp37m", "manylinux1_x86_64"), "arm64": ("none", "any")}
"""By arch: ABI and platform tag. The second is for arm64, although its tag says any."""
PACKAGES = (
    *("g++-12-aarch64-linux-gnu", "gcc-12-aarch64-linux-gnu", "cpp-12-aarch64-linux-gnu", "binutils-aarch64-linux-gnu"),
    *("libc6-arm64-cross", "libc6-dev-arm64-cross", "linux-libc-dev-arm64-cross", "libgcc-s1-arm64-cross"),
    *("libstdc++6-arm64-cross", "libstdc++-12-dev-arm64-cross", "libgcc-12-dev-arm64-cross"),
)
"""Debian 12's; on a release with another GCC the number is another."""
CONVERTER_NEEDS = ("numpy<1.22", "onnx==1.12.0", "protobuf<4")
RUNNER = RealRunner(echo=print)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python37", default=shutil.which("python3.7") or "")
    asked = parser.parse_args()
    folder = asked.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    wheels = {arch: fetch_wheel(folder, arch) for arch in WHEELS}
    if shutil.which("apt-get") and shutil.which("dpkg-deb"):
        unpack_packages(folder)
    else:
        print("no apt-get: without the compiler for arm64")
    if asked.python37:
        make_python(folder, asked.python37, wheels["x86_64"])
    else:
        print("no Python 3.7: without the converter")
    print(f"\nOHFORGE_MINDSPORE_LITE={folder} pytest tests/integration/native/programs/test_real_engine.py")


def fetch_wheel(folder: Path, arch: str) -> Path:
    """Downloads a wheel and unpacks it to `folder`/`arch`."""
    abi, platform = WHEELS[arch]
    place = folder / "wheels" / arch
    if not list(place.glob("*.whl")):
        options = ["--no-deps", "--only-binary=:all:", "--python-version", "3.7", "--implementation", "cp"]
        options += ["--abi", abi, "--platform", platform, f"mindspore-lite=={VERSION}", "-d", str(place)]
        run(sys.executable, "-m", "pip", "download", "-q", *options)
    [wheel] = place.glob("*.whl")
    if not (folder / arch).is_dir():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / arch)
    return wheel


def unpack_packages(folder: Path) -> None:
    """Unpacks Debian's cross compiler to `folder`/cross; it is not installed."""
    packages = folder / "packages"
    packages.mkdir(exist_ok=True)
    if len(list(packages.glob("*.deb"))) < len(PACKAGES):
        run("apt-get", "download", "-q", *PACKAGES, folder=packages)
    for package in sorted(packages.glob("*.deb")):
        run("dpkg-deb", "-x", package, folder / "cross")


def make_python(folder: Path, python37: str, wheel: Path) -> None:
    """A virtual environment with the converter and what it needs."""
    python = folder / "python" / "bin" / "python"
    if not python.exists():
        run(python37, "-m", "venv", folder / "python")
    run(python, "-m", "pip", "install", "-q", *CONVERTER_NEEDS)
    run(python, "-m", "pip", "install", "-q", "--no-deps", wheel)


def run(*words: str | Path, folder: Path | None = None) -> None:
    result = RUNNER.run(words, deadline=Deadline.after(1800, str(words[0])), cwd=folder)
    if not result.ok:
        sys.exit(f"{words[0]} ended with {result.exit_code}:\n{result.last_lines()}")


if __name__ == "__main__":
    main()
