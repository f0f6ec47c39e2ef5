"""The list of llama.cpp's architectures, against the source that the recipe pins, where it was fetched already."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from core.session import PROJECT
from native.models.gguf_model import ARCHITECTURES_FILE
from native.recipe.recipe import load_recipe
from native.source.kinds import PypiSdist


def test_the_list_is_what_the_script_makes_of_the_pinned_source(shared_cache: Path, tmp_path: Path) -> None:
    (pin,) = [source.sha256 for source in load_recipe("llama").sources if isinstance(source, PypiSdist)]
    trees = [mark.with_suffix("") for mark in shared_cache.glob("sources/llama-*.json") if pin in mark.read_text()]
    if not trees:
        pytest.skip("no test has fetched the source of llama.cpp into OHFORGE_TEST_CACHE yet")
    script, made = PROJECT / "scripts/llama_architectures.py", tmp_path / "made.yaml"
    subprocess.run([sys.executable, script, trees[0], made], check=True, timeout=60)
    assert made.read_text(encoding="utf-8") == ARCHITECTURES_FILE.read_text(encoding="utf-8")
