"""The Windows Subsystem for Linux, as far as an hdc.exe is called from it: stand-ins for wslpath, cmd.exe and hdc.exe."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.hdc.program import Hdc

COMMON = """\
#!{python}
import os, re, subprocess, sys
DRIVE = {drive!r}

def to_linux(path):
    if not re.match(r"[Cc]:\\\\", path):
        return None
    return DRIVE + path[2:].replace("\\\\", "/")
"""
WSLPATH = """
flag, path = sys.argv[1:]
if flag == "-u":
    print(to_linux(path))
elif not os.path.exists(path):
    sys.exit(f"wslpath: {path}")
elif os.path.realpath(path).startswith(DRIVE):
    print("C:" + (os.path.realpath(path)[len(DRIVE):] or "/").replace("/", "\\\\"))
else:
    print("\\\\\\\\wsl.localhost\\\\Debian" + os.path.realpath(path).replace("/", "\\\\"))
"""
CMD = """
line = sys.argv[-1]
said = ["Active code page: 936"] if line == "chcp" else [r"{temp}", r"C:\\Users\\Public"]
sys.stdout.write("".join(text + "\\r\\n" for text in said))
"""
HDC = """
words = sys.argv[1:]
for verb, place in (("send", -2), ("recv", -1)):
    if words[-4:-2] == ["file", verb]:
        path = to_linux(words[place])
        if path is None:
            reason = "\\u7cfb\\u7edf\\u627e\\u4e0d\\u5230".encode("cp936")
            sys.stdout.buffer.write(b"[Fail]Error opening file: " + reason + b", path:" + words[place].encode() + b"\\r\\n")
            sys.exit(0)
        words[place] = path
passed = os.environ.get("WSLENV", "").split(":")
environment = {{name: value for name, value in os.environ.items() if not name.startswith("OHOS_") or name in passed}}
process = subprocess.Popen({hdc!r} + words, env=environment, stdout=subprocess.PIPE)
while chunk := os.read(process.stdout.fileno(), 65536):
    sys.stdout.buffer.write(chunk.replace(b"\\n", b"\\r\\n"))
    sys.stdout.buffer.flush()
sys.exit(process.wait())
"""


@dataclass(frozen=True, kw_only=True)
class Wsl:
    """`drive` is Windows' disk C, as Linux sees it; `hdc` a program that takes paths of Windows only."""

    drive: Path
    hdc: Path

    @property
    def temporary(self) -> Path:
        return self.drive / "Users/Ana/AppData/Local/Temp"


def make_wsl(folder: Path, hdc: Hdc, monkeypatch: pytest.MonkeyPatch, temp: str = "") -> Wsl:
    """Puts the stand-ins on PATH, with an hdc.exe around `hdc`. `temp` is Windows' folder for such files."""
    wsl = Wsl(drive=(folder / "mnt/c").resolve(), hdc=folder / "windows/hdc.exe")
    wsl.temporary.mkdir(parents=True)
    (wsl.drive / "Users/Public").mkdir()
    values = {"python": sys.executable, "drive": str(wsl.drive), "hdc": list(hdc.argv)}
    values["temp"] = temp or r"C:\Users\Ana\AppData\Local\Temp"
    _write(folder / "linux/wslpath", COMMON.format(**values) + WSLPATH)
    _write(folder / "windows/cmd.exe", COMMON.format(**values) + CMD.format(**values))
    _write(wsl.hdc, COMMON.format(**values) + HDC.format(**values))
    monkeypatch.setenv("PATH", f"{folder / 'linux'}:{folder / 'windows'}:{os.environ['PATH']}")
    monkeypatch.setenv("WSL_INTEROP", "/run/WSL/1_interop")
    return wsl


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
