"""Running here what a build has made for the board."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from core.files import write_atomic
from native.build.render import render_build

if TYPE_CHECKING:
    from toolchains.host_toolchain import HostToolchain


def write_emulator(folder: Path, toolchain: HostToolchain) -> str:
    """A script in `folder` that runs a program for the board here; empty when that cannot be done.

    A dynamic one finds the loader and the libraries of the SDK and of the prefixes.
    """
    arch, sdk = toolchain.arch, toolchain.sdk
    qemu = shutil.which(arch.qemu) if arch.qemu else None
    if qemu is None:
        return ""
    root, places = folder / "emulated-root", [prefix / "lib" for prefix in toolchain.prefixes]
    if sdk is not None:
        libraries = sdk.native / "sysroot/usr/lib" / arch.ohos_triple
        places += [libraries, *(path.parent for path in toolchain.runtime_libraries)]
        loader = root / arch.loader.lstrip("/")
        loader.parent.mkdir(parents=True, exist_ok=True)
        loader.unlink(missing_ok=True)
        loader.symlink_to(libraries / "libc.so")
    script = folder / "run-for-board"
    text = render_build(
        "emulator.sh.jinja", qemu=qemu, root=root, libraries=":".join(map(str, places)), dynamic=bool(sdk)
    )
    write_atomic(script, text, mode=0o755)
    return str(script)
