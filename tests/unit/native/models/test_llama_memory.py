"""The memory that llama.cpp takes, against what it logged itself.

Each row is a run of the pinned llama.cpp, built for arm64 with dot products, on a file with the shapes of a model and no
weights: ``load_tensors``, ``llama_kv_cache``, ``sched_reserve`` and ``llama_context`` print the sizes of their buffers. The rows
of gemma-3-270m and the first two of Llama 3.1 8B are from an x86_64 build.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from native.formats.gguf import GgufInfo, read_gguf
from native.models.llama_memory import LlamaSettings, find_doubts, find_need
from tests.shared.shape_gguf import Value, llama_shapes, write_shapes

MIB = 1 << 20
Shapes = tuple[str, dict[str, Value], list[tuple[str, tuple[int, ...], str]]]
STUDIED: dict[str, Any] = {"layers": 32, "width": 4096, "inner": 14336, "heads": 32, "kv_heads": 8}
Q2_K = {"": "Q2_K", "attn_output": "Q3_K", "ffn_down": "Q3_K", "attn_v": "Q4_K", "output": "Q6_K"}


def llama(**shape: Any) -> Shapes:
    keys, tensors = llama_shapes(**shape)
    return "llama", keys, tensors


def llama_8b(kinds: dict[str, str]) -> Shapes:
    architecture, keys, tensors = llama(**STUDIED, vocabulary=128_256, kinds=kinds)
    return architecture, keys, [*tensors, ("rope_freqs.weight", (64,), "F32")]


def qwen2_half() -> Shapes:
    kinds = {"": "Q8_0"}
    keys, tensors = llama_shapes(
        layers=24, width=896, inner=4864, heads=14, kv_heads=2, vocabulary=151_936, kinds=kinds, tied=True
    )
    for layer in range(24):
        for name, size in (("q", 896), ("k", 128), ("v", 128)):
            tensors.append((f"blk.{layer}.attn_{name}.bias", (size,), "F32"))
    return "qwen2", keys, tensors


def with_norms(architecture: str, window: int, *, lengths: tuple[tuple[str, int], ...], **shape: Any) -> Shapes:
    """A model of the Llama kind with further norms in each layer, and a sliding window."""
    keys, tensors = llama_shapes(**shape, tied=True)
    if window:
        keys["attention.sliding_window"] = window
    for layer in range(shape["layers"]):
        tensors += [(f"blk.{layer}.{name}.weight", (size,), "F32") for name, size in lengths]
    return architecture, keys, tensors


def qwen3_small() -> Shapes:
    return with_norms(
        "qwen3",
        0,
        lengths=(("attn_q_norm", 128), ("attn_k_norm", 128)),
        layers=28,
        width=1024,
        inner=3072,
        heads=16,
        kv_heads=8,
        vocabulary=151_936,
        head_length=128,
        kinds={"": "Q4_K", "token_embd": "Q6_K"},
    )


def gemma3(*, layers: int, width: int, inner: int, kinds: dict[str, str]) -> Shapes:
    return with_norms(
        "gemma3",
        512,
        lengths=(("attn_q_norm", 256), ("attn_k_norm", 256), ("post_attention_norm", width), ("post_ffw_norm", width)),
        layers=layers,
        width=width,
        inner=inner,
        heads=4,
        kv_heads=1,
        vocabulary=262_144,
        head_length=256,
        kinds=kinds,
    )


def gemma2() -> Shapes:
    return with_norms(
        "gemma2",
        4096,
        lengths=(("post_attention_norm", 2304), ("post_ffw_norm", 2304)),
        layers=26,
        width=2304,
        inner=9216,
        heads=8,
        kv_heads=4,
        vocabulary=256_000,
        head_length=256,
        kinds={"": "Q4_K", "token_embd": "Q6_K"},
    )


def smollm2() -> Shapes:
    kinds = {"": "Q4_1", "token_embd": "Q8_0"}
    return llama(layers=30, width=576, inner=1536, heads=9, kv_heads=3, vocabulary=49_152, kinds=kinds, tied=True)


def llama_1b() -> Shapes:
    kinds = {"": "Q4_K", "token_embd": "Q6_K"}
    return llama(layers=16, width=2048, inner=8192, heads=32, kv_heads=8, vocabulary=128_256, kinds=kinds, tied=True)


def llama_3b() -> Shapes:
    kinds = {"": "Q5_K"}
    return llama(layers=28, width=3072, inner=8192, heads=24, kv_heads=8, vocabulary=128_256, kinds=kinds, tied=True)


def tinyllama() -> Shapes:
    kinds = {"": "Q4_0", "output": "Q6_K"}
    return llama(layers=22, width=2048, inner=5632, heads=32, kv_heads=4, vocabulary=32_000, kinds=kinds)


def mistral_7b() -> Shapes:
    return llama(**STUDIED, vocabulary=32_768, kinds={"": "IQ4_NL", "output": "Q6_K"})


def of_few_words(width: int, inner: int, heads: int) -> Shapes:
    """So that it is not the vocabulary which decides what a token takes."""
    return llama(layers=2, width=width, inner=inner, heads=heads, kv_heads=2, vocabulary=1000, kinds={"": "F16"})


def qwen2_1_5b() -> Shapes:
    kinds = {"": "Q5_0", "token_embd": "Q8_0"}
    keys, tensors = llama_shapes(
        layers=28, width=1536, inner=8960, heads=12, kv_heads=2, vocabulary=151_936, kinds=kinds, tied=True
    )
    for layer in range(28):
        for name, size in (("q", 1536), ("k", 256), ("v", 256)):
            tensors.append((f"blk.{layer}.attn_{name}.bias", (size,), "F32"))
    return "qwen2", keys, tensors


def part_of_llama_13b() -> Shapes:
    kinds = {"": "Q3_K", "output": "Q6_K"}
    return llama(layers=12, width=5120, inner=13_824, heads=40, kv_heads=40, vocabulary=32_000, kinds=kinds)


def gemma2_9b() -> Shapes:
    return with_norms(
        "gemma2",
        4096,
        lengths=(("post_attention_norm", 3584), ("post_ffw_norm", 3584)),
        layers=42,
        width=3584,
        inner=14_336,
        heads=16,
        kv_heads=8,
        vocabulary=256_000,
        head_length=256,
        kinds={"": "IQ4_XS", "token_embd": "Q6_K"},
    )


def qwen3_4b() -> Shapes:
    return with_norms(
        "qwen3",
        0,
        lengths=(("attn_q_norm", 128), ("attn_k_norm", 128)),
        layers=36,
        width=2560,
        inner=9728,
        heads=32,
        kv_heads=8,
        vocabulary=151_936,
        head_length=128,
        kinds={"": "Q4_K", "token_embd": "Q6_K"},
    )


def tiny_llama() -> Shapes:
    return llama(layers=6, width=288, inner=768, heads=6, kv_heads=6, vocabulary=32_000, kinds={"": "Q8_0"})


def gemma3_270m() -> Shapes:
    return gemma3(layers=18, width=640, inner=2048, kinds={"": "Q4_K", "token_embd": "Q8_0"})


def gemma3_1b() -> Shapes:
    return gemma3(layers=26, width=1152, inner=6912, kinds={"": "Q8_0"})


LOGGED: list[tuple[Callable[[], Shapes], dict[str, Any], dict[str, float]]] = [
    # what was loaded, how, and MiB as logged. Where a rearranged tensor lies at an end of the file, llama.cpp
    # logs less than all weights as mapped: those rows leave them out.
    (lambda: llama_8b(Q2_K), {"context": 1000, "ubatch": 64}, {"weights": 3024.38, "kv": 128, "compute": 33.31}),
    (lambda: llama_8b({"": "Q8_0"}), {"context": 4096, "kv_type": "q8_0"}, {"weights": 8137.64, "kv": 272}),
    (lambda: llama_8b(Q2_K), {"context": 131_072, "ubatch": 2}, {"kv": 16384, "compute": 1.04, "output": 0.49}),
    (gemma3_270m, {"context": 512}, {"kv": 1.5 + 7.5, "compute": 514.5, "output": 1.0}),
    (gemma3_270m, {"context": 4096, "ubatch": 128}, {"compute": 128.63}),
    (gemma3_270m, {"context": 4096}, {"kv": 12 + 15}),
    (gemma3_270m, {"context": 4096, "kv_type": "q8_0"}, {"kv": 6.38 + 7.97}),
    (gemma3_270m, {"context": 32_768}, {"kv": 96 + 15}),
    (
        smollm2,
        {"context": 512, "rearranged": "dotprod"},
        {"weights": 92.10, "repack": 28.69, "kv": 11.25, "compute": 98.25, "output": 0.19},
    ),
    (
        qwen2_half,
        {"context": 4096, "ubatch": 64, "rearranged": "dotprod"},
        {"weights": 500.79, "repack": 500.52, "kv": 48, "compute": 37.53, "output": 0.58},
    ),
    (
        llama_1b,
        {"context": 2048, "rearranged": "dotprod"},
        {"weights": 727.75, "repack": 727.49, "kv": 64, "compute": 258.5, "output": 0.49},
    ),
    (
        tinyllama,
        {"context": 2048, "ubatch": 128, "rearranged": "dotprod"},
        {"repack": 571.02, "kv": 44, "compute": 17.63, "output": 0.12},
    ),
    (
        qwen3_small,
        {"context": 8192, "kv_type": "q8_0", "rearranged": "dotprod"},
        {"weights": 358.21, "repack": 357.96, "kv": 476, "compute": 300.75, "output": 0.58},
    ),
    (
        gemma3_1b,
        {"context": 4096, "rearranged": "dotprod"},
        {"weights": 1013.54, "repack": 1013.03, "kv": 16 + 22, "compute": 516.5, "output": 1.0},
    ),
    (
        gemma3_1b,
        {"context": 32_768, "ubatch": 64, "kv_type": "q4_0"},
        {"weights": 1013.54, "kv": 36 + 4.64, "compute": 64.56},
    ),
    (
        gemma2,
        {"context": 8192, "ubatch": 128},
        {"weights": 1548.25, "kv": 416 + 221, "compute": 127.25, "output": 0.98},
    ),
    (mistral_7b, {"context": 4096, "ubatch": 64}, {"weights": 3922.02, "kv": 512, "compute": 15.0, "output": 0.12}),
    (llama_3b, {"context": 1024, "ubatch": 256}, {"weights": 2107.0, "kv": 112, "compute": 131.25, "output": 0.49}),
    (lambda: llama_8b({"": "Q8_0"}), {"context": 512}, {"weights": 8137.64, "kv": 64, "compute": 266.5}),
    (qwen3_small, {"context": 300, "ubatch": 32}, {"weights": 358.21, "kv": 56, "output": 0.58}),
    (lambda: llama_8b(Q2_K), {"context": 512, "rearranged": "dotprod"}, {"weights": 3024.38, "repack": 482.98}),
    (smollm2, {"context": 8192, "ubatch": 16, "kv_type": "q5_1"}, {"weights": 92.1, "kv": 67.5, "compute": 3.11}),
    (lambda: of_few_words(1024, 3072, 8), {"context": 32_768, "ubatch": 64}, {"compute": 7.25}),
    (lambda: of_few_words(4096, 11_008, 32), {"context": 512, "ubatch": 128}, {"compute": 24.25}),
    (lambda: of_few_words(2048, 5632, 32), {"context": 512, "ubatch": 128}, {"compute": 12.38}),
    # Logged after the formulas were as they are, by llama-bench of an x86_64 build.
    (
        qwen2_1_5b,
        {"context": 3072, "ubatch": 128},
        {"weights": 1096.06, "kv": 84.0, "compute": 75.69, "output": 0.58},
    ),
    (
        part_of_llama_13b,
        {"context": 2048, "kv_type": "q8_0"},
        {"weights": 1755.57, "kv": 255.0, "compute": 123.09, "output": 0.12},
    ),
    (gemma2_9b, {"context": 6144, "ubatch": 64}, {"weights": 4937.15, "kv": 1722.0, "compute": 64.25, "output": 0.98}),
    (
        qwen3_4b,
        {"context": 4096, "ubatch": 256, "kv_type": "q4_0"},
        {"weights": 2254.1, "kv": 162.0, "compute": 153.38, "output": 0.58},
    ),
    (tiny_llama, {"context": 1001, "ubatch": 32}, {"weights": 24.74, "kv": 6.75, "output": 0.12}),
]


def read_shapes(folder: Path, shapes: Shapes) -> GgufInfo:
    architecture, keys, tensors = shapes
    return read_gguf(write_shapes(folder / "shapes.gguf", architecture, keys, tensors))


@pytest.mark.parametrize(("shapes", "settings", "logged"), LOGGED)
def test_each_buffer_has_the_size_that_llama_cpp_logs(
    tmp_path: Path, shapes: Callable[[], Shapes], settings: dict[str, Any], logged: dict[str, float]
) -> None:
    need = find_need(read_shapes(tmp_path, shapes()), LlamaSettings(**settings))
    found = {name: getattr(need, name) / MIB for name in logged}
    assert found == pytest.approx(logged, abs=0.1, rel=0)


@pytest.mark.parametrize(("shapes", "context", "logged"), [(qwen3_small, 300, 19.33), (tiny_llama, 1001, 4.11)])
def test_with_a_short_context_llama_cpps_allocator_takes_a_little_more_for_some(
    tmp_path: Path, shapes: Callable[[], Shapes], context: int, logged: float
) -> None:
    """Gaps between its buffers, which no formula of ours has; from 2048 tokens on there are none."""
    need = find_need(read_shapes(tmp_path, shapes()), LlamaSettings(context=context, ubatch=32))
    assert 0 < logged - need.compute / MIB < 0.6


def test_of_the_studied_models_all_but_the_table_of_tokens_is_read_for_each_token(tmp_path: Path) -> None:
    """Sizes as llama-quantize tells them of each tensor."""
    assert find_need(read_shapes(tmp_path, llama_8b(Q2_K)), LlamaSettings()).read_per_token == 2_998_919_424
    assert find_need(read_shapes(tmp_path, llama_8b({"": "Q8_0"})), LlamaSettings()).read_per_token == 7_974_764_800


def test_of_experts_those_are_read_that_are_asked(tmp_path: Path) -> None:
    keys: dict[str, Value] = {"block_count": 1, "expert_count": 8, "expert_used_count": 2, "vocab_size": 32}
    tensors = [
        ("token_embd.weight", (32, 32), "F32"),
        ("blk.0.ffn_up_exps.weight", (32, 32, 8), "F32"),
        ("output.weight", (32, 32), "F32"),
    ]
    need = find_need(read_shapes(tmp_path, ("qwen3moe", keys, tensors)), LlamaSettings())
    # by hand: two of eight experts and the output, each 32 x 32 numbers of 4 bytes
    assert need.read_per_token == (2 + 1) * 32 * 32 * 4
    assert need.weights == (1 + 8 + 1) * 32 * 32 * 4


def test_layers_say_themselves_which_have_a_window_and_how_many_heads(tmp_path: Path) -> None:
    _, keys, tensors = llama(layers=4, width=64, inner=64, heads=4, kv_heads=2, vocabulary=32, kinds={"": "F32"})
    keys |= {
        "attention.sliding_window": 256,
        "attention.sliding_window_pattern": [True, False, True, True],
        "attention.head_count_kv": [1, 2, 0, 4],
    }
    need = find_need(read_shapes(tmp_path, ("gemma4", keys, tensors)), LlamaSettings(context=4096, ubatch=100))
    # by hand: heads of 16 for keys and for values, 2 bytes; a window of 256 and 100 more makes 512 cells
    assert need.kv == (512 * 1 + 4096 * 2 + 512 * 0 + 512 * 4) * (16 + 16) * 2


def test_what_the_formulas_leave_out_is_said(tmp_path: Path) -> None:
    keys: dict[str, Value] = {"block_count": 1, "ssm.state_size": 16}
    info = read_shapes(tmp_path, ("mamba", keys, [("token_embd.weight", (32, 32), "F32")]))
    assert [doubt for doubt in find_doubts(info) if "recurrent" in doubt]
    assert find_doubts(read_shapes(tmp_path, smollm2())) == []
