"""Begins a build on a build host: finds or makes a Python with the packages that ohforge's build engine needs.

It runs in whatever Python the host has, so it uses the standard library only.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.build_host.helper import explain, locked, make_folder, write_json

ENVIRONMENT_BYTES = 650_000_000
"""What an environment takes up, zig's 400 MB among them. venv does not say that a disk is full."""


def main(base: Path, attempt: Path) -> None:
    """Becomes the engine, in a Python that has what it needs; else the reason is the result of the attempt."""
    wanted = json.loads((attempt / "request.json").read_text())
    try:
        python = sys.executable if has_packages(wanted["packages"]) else make_environment(base, wanted["packages"])
    except Unfit as unfit:
        write_json(attempt / "result.json", {"error": unfit.error})
        return
    except OSError as error:
        write_json(attempt / "result.json", {"error": explain(error, base)})
        return
    os.environ["OHFORGE_CACHE_DIR"] = str(base / "cache")
    os.execv(python, [python, "-P", "-m", "deploy.build_host.engine", str(base), str(attempt)])  # noqa: S606


def has_packages(packages: Mapping[str, str]) -> bool:
    """Whether this Python has all of them in these versions."""
    try:
        return all(importlib.metadata.version(name) == version for name, version in packages.items())
    except importlib.metadata.PackageNotFoundError:
        return False


class Unfit(Exception):
    """This computer cannot build, and why: the error as ohforge tells it."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "remedy": remedy}


def make_environment(base: Path, packages: Mapping[str, str]) -> str:
    """The interpreter of an environment with these packages, from the index that pip is configured for here."""
    pins = [f"{name}=={version}" for name, version in sorted(packages.items())]
    name = hashlib.sha256("\n".join([sys.version, *pins]).encode()).hexdigest()[:12]
    folder = base / "python" / name
    make_folder(folder.parent)
    with locked(folder.with_name(f".{name}.lock")):
        python, whole = str(folder / "bin/python"), folder / "whole"
        if whole.exists():
            return python
        shutil.rmtree(folder, ignore_errors=True)
        free = shutil.disk_usage(base).free
        if free < ENVIRONMENT_BYTES:
            raise Unfit(
                "OHF7501",
                f"The disk of the build host has {free / 1e6:.0f} MB free in {base}; the environment for builds needs "
                f"{ENVIRONMENT_BYTES / 1e6:.0f} MB.",
                f"Make room there, or give its Python {' '.join(pins)}.",
            )
        say("stage", f"Making a Python environment with {', '.join(pins)}, once")
        made = _run([sys.executable, "-m", "venv", str(folder)])
        if made:
            shutil.rmtree(folder, ignore_errors=True)
            version = f"{sys.version_info[0]}.{sys.version_info[1]}"
            raise Unfit(
                "OHF7701",
                f"Python {version} of the build host cannot make an environment (venv):\n{made}",
                f"Install it there: `sudo apt-get install python{version}-venv`; or a Python with {' '.join(pins)}.",
            )
        said = _run([python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet", *pins])
        if said:
            code = "OHF7501" if "No space left" in said else "OHF7701"
            raise Unfit(
                code,
                f"pip of the build host could not install what builds need:\n{said}",
                "pip must reach a package index from there (its pip.conf counts); or install these there: "
                + " ".join(pins),
            )
        whole.touch()
    return python


def _run(words: Sequence[str]) -> str:
    """Nothing when a program ends well, else the end of what it printed."""
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode == 0:
        return ""
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return "\n".join(lines[-8:]) or f"status {done.returncode}"


def say(kind: str, text: str) -> None:
    """A line of the events, as `deploy.build_host.journal` writes them."""
    sys.stdout.write(json.dumps({"kind": kind, "text": text}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
