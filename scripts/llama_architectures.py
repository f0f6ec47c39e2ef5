"""Writes native/programs/llama/architectures.yaml from a llama.cpp source tree: which architectures it knows.

    python scripts/llama_architectures.py TREE [FILE]

TREE is the unpacked source of the recipe's pin (`ohforge build --target llama` leaves it in the cache, under sources/).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from native.recipe.recipe import load_recipe  # noqa: E402

FILE = ROOT / "native/programs/llama/architectures.yaml"
NAME = re.compile(r'\{\s*LLM_ARCH_(\w+),\s*"([^"]+)"\s*\}')
PATTERN = re.compile(r"load_swa_pattern\(ml,\s*(\d+)(,\s*(?:/\*.*?\*/\s*)?true)?\)")
NO_MODEL = ("clip", "(unknown)")
"""In the table for llama-quantize's sake, and as its end."""


def architectures_file(tree: Path) -> str:
    """The content of the file."""
    table = (tree / "src/llama-arch.cpp").read_text(encoding="utf-8").partition("LLM_KV_NAMES")[0]
    windows = read_windows(tree / "src/models")
    commit = load_recipe("llama").commit
    lines = [
        "# The architectures of models that llama.cpp knows; made by scripts/llama_architectures.py.",
        "# window: every so many-th layer sees the whole context, the others a sliding window, unless the model says which;",
        "# first: the first of each group is the one that sees all, not the last.",
        f"commit: {commit}",
        "architectures:",
    ]
    for constant, name in NAME.findall(table):
        if name not in NO_MODEL:
            window = windows.get(constant.lower())
            lines.append(f"  {name}: {{}}" if window is None else f"  {name}: {window}")
    return "\n".join(lines) + "\n"


def read_windows(folder: Path) -> dict[str, str]:
    """By the name of the model's class: how its layers take turns."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.cpp")):
        text = path.read_text(encoding="utf-8")
        for name, body in re.findall(r"void llama_model_(\w+)::load_arch_hparams\(.*?\{\n(.*?)\n\}", text, re.DOTALL):
            if pattern := PATTERN.search(body):
                found[name] = f"{{window: {pattern[1]}" + (", first: true}" if pattern[2] else "}")
    return found


if __name__ == "__main__":
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else FILE
    target.write_text(architectures_file(Path(sys.argv[1])), encoding="utf-8")
