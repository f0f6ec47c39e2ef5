"""The header of a GGUF file with a vocabulary of 262,144 tokens: our reader against the package gguf, each in a process of its own."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOKENS, TURNS = 262_144, 3
GOAL_SECONDS, GOAL_BYTES = 0.1, 30_000_000
MEASURED = """
import re, sys, time
from pathlib import Path
{imports}
began, used = time.perf_counter(), time.process_time()
found = {read}
seconds = time.perf_counter() - began, time.process_time() - used
# Not getrusage, which counts what the parent had before this program took its place.
print(found, *seconds, 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]))
"""
READERS = {
    "gguf.GGUFReader (baseline)": (
        "import gguf",
        "len(gguf.GGUFReader(sys.argv[1]).fields['tokenizer.ggml.tokens'].data)",
    ),
    "ours": ("from native.formats.gguf import read_gguf", "read_gguf(Path(sys.argv[1])).vocabulary"),
}


def write_model(path: Path) -> Path:
    """One small tensor, and tokens, scores and types as a file of Gemma has them. Written by the package gguf."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(path, "gemma3")
    writer.add_block_count(1)
    writer.add_token_list([f"token {number}" for number in range(TOKENS)])
    writer.add_token_scores([float(-number) for number in range(TOKENS)])
    writer.add_token_types([1] * TOKENS)
    writer.add_tensor("token_embd.weight", np.zeros((8, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def measured(reader: str, model: Path) -> tuple[float, float, float]:
    """Seconds by the clock and of the processor that reading took, and the most memory that its process had."""
    imports, read = READERS[reader]
    words = [sys.executable, "-c", MEASURED.format(imports=imports, read=read), str(model)]
    done = subprocess.run(words, check=True, cwd=ROOT, capture_output=True, text=True)
    tokens, *values = map(float, done.stdout.split())
    assert tokens == TOKENS
    return values[0], values[1], values[2]


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        model = write_model(Path(name) / "vocabulary.gguf")
        turns = [{reader: measured(reader, model) for reader in READERS} for _ in range(TURNS)]
        print(f"a header of {model.stat().st_size / 1e6:.1f} MB, median of {TURNS} interleaved calls")
    rows = {}
    for reader in READERS:
        rows[reader] = [statistics.median(turn[reader][column] for turn in turns) for column in range(3)]
        seconds, used, memory = rows[reader]
        print(f"  {reader:28} {seconds:7.3f} s, {used:7.3f} s of the processor, {memory / 1e6:6.1f} MB")
    (_, slow, large), (_, quick, small) = rows.values()
    print(
        f"  ratio                        {quick / slow:.4f} of the processor's time, {small / large:.3f} of the memory"
    )
    reached = quick <= GOAL_SECONDS and small <= GOAL_BYTES
    print(f"  goals: {GOAL_SECONDS} s and {GOAL_BYTES / 1e6:.0f} MB: {'reached' if reached else 'NOT REACHED'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
