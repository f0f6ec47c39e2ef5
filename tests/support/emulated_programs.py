"""What the tests of the emulated board share."""

from __future__ import annotations

from pathlib import Path

from tests.support.emulated import Hdc

TMP = "/data/local/tmp"


def run_pushed(hdc: Hdc, program: Path, *words: str) -> str:
    remote = f"{TMP}/{program.name}"
    hdc.shell(f"rm -f {remote}")
    assert b"finish" in hdc.board("file", "send", str(program), remote)
    return hdc.shell(f"cd {TMP}; chmod 755 {program.name}; ./{program.name} {' '.join(words)}; echo =$?").decode()
