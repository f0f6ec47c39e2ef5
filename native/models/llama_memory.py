"""How much memory llama.cpp takes for a GGUF model, worked out from the header alone.

The formulas are those of llama.cpp's own buffers; tests hold them against the sizes that it logs, to 0.1 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from native.formats.ggml import TENSOR_TYPES
from native.formats.gguf import GgufInfo, GgufTensor
from native.models.gguf_model import known_architectures

CONTEXT_STEP = 256
"""llama.cpp pads the context, and the part of it that a sliding window needs, to a multiple."""
BATCH = 2048
"""Tokens that llama.cpp takes at once unless it is told otherwise."""
KV_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
"""From the largest to the smallest."""
PROCESS = 18 << 20
"""Bytes of the program itself, as measured with llama-bench."""
EMBEDDING, OUTPUT = "token_embd.weight", "output.weight"
LOOKED_UP = (EMBEDDING, "per_layer_token_embd.weight", "position_embd.weight", "token_types.weight")
"""Tables of which a token needs one row; they are never rearranged."""
REARRANGED: Mapping[str, Mapping[str, int]] = {
    "dotprod": {"Q4_0": 4, "IQ4_NL": 4, "MXFP4": 4, "Q8_0": 4, "Q4_K": 8, "Q5_K": 8, "Q6_K": 8},
    "avx2": {"Q4_0": 8, "IQ4_NL": 8, "MXFP4": 8, "Q4_K": 8, "Q2_K": 8},
}
"""By what the program was compiled for: types that it copies into another order, for tensors whose rows are a multiple
(ggml's ``repack.cpp``)."""
DEFAULT_WINDOWS = {"gemma2": 4096, "llama4": 8192, "exaone-moe": 128}
"""Tokens that the code of an architecture fixes where the file says nothing."""
WINDOW_WITH_LAYERS = {"exaone4": 64}
"""Architectures of which only the model with so many layers has a sliding window."""
FIRST_LAYERS_WITH_KV = {"gemma3n": 20}


@dataclass(frozen=True, kw_only=True)
class LlamaSettings:
    """What the program is told; tokens, and a type of ggml for keys and values."""

    context: int = 512
    ubatch: int = 512
    kv_type: str = "f16"
    rearranged: str = ""
    """A key of `REARRANGED`; empty: nothing is rearranged, as with ``--no-repack``."""


@dataclass(frozen=True, kw_only=True)
class MemoryNeed:
    """Bytes. `weights` are mapped from the file, so they can be dropped and read again; all else cannot."""

    weights: int
    kv: int
    compute: int
    output: int
    repack: int
    """Copies of weights in another order."""
    process: int
    read_per_token: int
    """Of the weights."""

    @property
    def held(self) -> int:
        """What must stay in memory, or the system ends the process."""
        return self.kv + self.compute + self.output + self.repack + self.process

    @property
    def total(self) -> int:
        return self.weights + self.held


def find_need(info: GgufInfo, settings: LlamaSettings) -> MemoryNeed:
    """The memory for one sequence, with flash attention on or left to llama.cpp (its default)."""
    context = pad(settings.context)
    tokens = min(settings.ubatch, BATCH, context)
    return MemoryNeed(
        weights=info.weight_bytes,
        kv=_kv_bytes(info, settings, context),
        compute=4 * tokens * _floats_at_once(info, context),
        output=4 * info.vocabulary,
        repack=sum(tensor.size for tensor in _rearranged(info, settings.rearranged)),
        process=PROCESS,
        read_per_token=_read_per_token(info),
    )


def find_doubts(info: GgufInfo) -> list[str]:
    """Sentences on what the formulas leave out for this model."""
    prefix = info.architecture
    doubts = []
    if any(key.startswith((f"{prefix}.ssm.", f"{prefix}.wkv", f"{prefix}.shortconv")) for key in info.metadata):
        doubts.append("The state of its recurrent layers is not counted (some megabytes).")
    if f"{prefix}.attention.kv_lora_rank" in info.metadata:
        doubts.append("It keeps keys and values in a compressed form; their size here is too large.")
    return doubts


def pad(tokens: int) -> int:
    return -(-tokens // CONTEXT_STEP) * CONTEXT_STEP


def _floats_at_once(info: GgufInfo, context: int) -> int:
    """Numbers that are held for each token of a batch where it takes most: at the end, or between the layers' halves."""
    width = info.embedding_length
    experts = info.of_architecture("expert_used_count") * info.of_architecture("expert_feed_forward_length")
    # Half a number for each cell of the context: the mask of attention, in half precision.
    in_a_layer = 3 * max(info.feed_forward_length, experts) + 4 * width + context // 2
    return max(info.vocabulary + 2 * width, in_a_layer)


def _kv_bytes(info: GgufInfo, settings: LlamaSettings, context: int) -> int:
    window = _window(info)
    short = min(context, pad(min(context, window + settings.ubatch))) if window else context
    total = 0
    for layer, windowed in enumerate(_windowed_layers(info, window)):
        cells = short if windowed else context
        heads = _of_layer(info, "attention.head_count_kv", layer) or 0
        lengths = _length(info, "key", windowed) + _length(info, "value", windowed)
        total += cells * heads * _bytes_of(settings.kv_type, lengths)
    return total


def _windowed_layers(info: GgufInfo, window: int) -> Iterator[bool]:
    """For each layer that has keys and values, whether it sees a sliding window only."""
    said = info.metadata.get(f"{info.architecture}.attention.sliding_window_pattern")
    known = known_architectures().get(info.architecture, {})
    every = said if isinstance(said, int) and not isinstance(said, bool) else known.get("window", 1)
    with_kv = FIRST_LAYERS_WITH_KV.get(info.architecture, info.layers) - info.of_architecture(
        "attention.shared_kv_layers"
    )
    for layer in range(min(info.layers, max(0, with_kv))):
        if not window:
            yield False
        elif isinstance(said, tuple):
            yield layer < len(said) and bool(said[layer])
        elif every == 0:
            yield True
        else:
            yield layer % every != 0 if known.get("first") else layer % every < every - 1


def _window(info: GgufInfo) -> int:
    """Tokens of the sliding window; 0: there is none."""
    if WINDOW_WITH_LAYERS.get(info.architecture, info.layers) != info.layers:
        return 0
    patterned = "window" in known_architectures().get(info.architecture, {})
    if not patterned and f"{info.architecture}.attention.sliding_window_pattern" not in info.metadata:
        return 0  # Such as phi3, whose window llama.cpp leaves unused.
    return info.of_architecture("attention.sliding_window") or DEFAULT_WINDOWS.get(info.architecture, 0)


def _length(info: GgufInfo, what: str, windowed: bool) -> int:
    own = info.of_architecture(f"attention.{what}_length_swa") if windowed else 0
    usual = info.embedding_length // info.heads if info.heads else 0
    return own or info.of_architecture(f"attention.{what}_length") or usual


def _of_layer(info: GgufInfo, name: str, layer: int) -> int:
    value = info.metadata.get(f"{info.architecture}.{name}")
    if isinstance(value, tuple):
        return int(value[layer]) if layer < len(value) else 0
    return info.kv_heads


def _bytes_of(kv_type: str, elements: int) -> int:
    kind = next(kind for kind in TENSOR_TYPES.values() if kind.name == kv_type.upper())
    return elements * kind.block_bytes // kind.block_elements


def _rearranged(info: GgufInfo, build: str) -> Iterator[GgufTensor]:
    multiples = REARRANGED.get(build, {})
    tied = not any(tensor.name == OUTPUT for tensor in info.tensors)
    for tensor in info.tensors:
        # Where the table of the tokens serves as the output too, a rearranged copy is made for that.
        looked_up = tensor.name in LOOKED_UP and not (tied and tensor.name == EMBEDDING)
        multiple = multiples.get(tensor.type)
        if multiple and len(tensor.shape) in (2, 3) and not looked_up and tensor.shape[1] % multiple == 0:
            yield tensor


def _read_per_token(info: GgufInfo) -> int:
    """All weights but the tables of which one row is read; of experts those that are asked."""
    tied = not any(tensor.name == OUTPUT for tensor in info.tensors)
    used, experts = info.of_architecture("expert_used_count"), info.of_architecture("expert_count")
    total = 0
    for tensor in info.tensors:
        if tensor.name in LOOKED_UP and not (tied and tensor.name == EMBEDDING):
            continue
        share = used / experts if "_exps." in tensor.name and 0 < used < experts else 1.0
        total += round(tensor.size * share)
    return total
