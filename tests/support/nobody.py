"""An ordinary user, who has emulated boards of his own while the tests run as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.emulator.board.boards import SANDBOX
from tests.support.emulated import ROOT

NUMBER = 65534
PYTHON = "/usr/bin/python3"


@dataclass(frozen=True, kw_only=True)
class Nobody:
    """What he calls; `folder` is his home, where he has a copy of the code."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def settled(cls, kind: str) -> Iterator[Nobody]:
        """Gives him a home and boards of that kind of sandbox, and takes both away; skips where that is impossible."""
        if os.geteuid() != 0:
            pytest.skip("the tests run as an ordinary user already")
        if kind == "proot" and shutil.which("proot") is None:
            pytest.skip("proot is not installed")
        asked = [PYTHON, "-c", "import sys; print(sys.version_info[:2])"]
        version = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        if version != str(sys.version_info[:2]):
            pytest.skip(f"needs {PYTHON} of this Python's version, because this one lies where nobody may read")
        packages = next(path for path in sys.path if path.endswith("site-packages"))
        looked = [PYTHON, "-c", "import os, sys; sys.exit(not os.access(sys.argv[1], os.R_OK))", packages]
        if subprocess.run(looked, user=NUMBER, group=NUMBER, extra_groups=[], check=False).returncode != 0:
            pytest.skip(f"nobody may read {packages}")
        # The folders of pytest are closed to other users.
        with tempfile.TemporaryDirectory(dir="/tmp") as home:
            folder = Path(home)
            for part in ("core", "deploy", "toolchains"):
                shutil.copytree(ROOT / part, folder / "code" / part)
            environment = {
                **os.environ,
                "PYTHONPATH": f"{folder}/code:{packages}",
                "HOME": home,
                "TMPDIR": home,
                "OHFORGE_EMULATOR_HOME": str(folder / "boards"),
                SANDBOX: kind,
            }
            subprocess.run(["chown", "-R", f"{NUMBER}:{NUMBER}", folder], check=True)
            nobody = cls(folder=folder, environment=environment)
            try:
                yield nobody
            finally:
                assert "stopped" in nobody.manage("stop")

    def hdc(self, *words: str) -> str:
        """What the stand-in prints."""
        return self._call("deploy.emulator.stand_in.cli", *words)

    def manage(self, *words: str) -> str:
        return self._call("deploy.emulator.manage", *words)

    def _call(self, module: str, *words: str) -> str:
        done = subprocess.run(
            [PYTHON, "-m", module, *words],
            user=NUMBER,
            group=NUMBER,
            extra_groups=[],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return done.stdout + done.stderr
