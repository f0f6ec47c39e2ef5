"""What is downloaded in tests, and what is left of it."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

CONTENT = random.Random(7).randbytes(3_000_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))
