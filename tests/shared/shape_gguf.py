"""Writes GGUF files with the metadata and the tensor table of large models, and a hole in the place of the weights.

They take some kilobytes of the disk, and llama.cpp loads them as it loads the model itself: that is where the figures in
the tests of `bench.fit` come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

Value = int | float | str | Sequence[int]


def write_shapes(
    path: Path, architecture: str, keys: Mapping[str, Value], tensors: Sequence[tuple[str, tuple[int, ...], str]]
) -> Path:
    """`keys` stand below the architecture; `tensors` are names, shapes as the file has them (row length first), types."""
    import gguf

    writer = gguf.GGUFWriter(path, architecture)
    writer.add_tokenizer_model("no_vocab")
    for name, value in keys.items():
        _add_key(writer, f"{architecture}.{name}", value)
    end = 0
    for name, shape, kind in tensors:
        number = gguf.GGMLQuantizationType[kind]
        block, size = gguf.GGML_QUANT_SIZES[number]
        rows = 1
        for dimension in shape[1:]:
            rows *= dimension
        bytes_of_all = rows * (shape[0] // block) * size
        raw = (*reversed(shape[1:]), shape[0] // block * size)
        import numpy

        writer.add_tensor_info(name, list(raw), numpy.dtype(numpy.uint8), bytes_of_all, raw_dtype=number)
        end += -(-bytes_of_all // 32) * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with path.open("r+b") as file:
        file.truncate(-(-path.stat().st_size // 32) * 32 + end)
    return path


def llama_shapes(
    *,
    layers: int,
    width: int,
    inner: int,
    heads: int,
    kv_heads: int,
    vocabulary: int,
    kinds: Mapping[str, str],
    tied: bool = False,
    head_length: int = 0,
) -> tuple[dict[str, Value], list[tuple[str, tuple[int, ...], str]]]:
    """Keys and tensors of a model of the Llama kind; `kinds` has types by the tensor's name, ``""`` for all others."""
    length = head_length or width // heads

    def of(name: str, *shape: int) -> tuple[str, tuple[int, ...], str]:
        kind = "F32" if len(shape) == 1 else kinds.get(name, kinds[""])
        return f"{name}.weight", shape, kind

    keys: dict[str, Value] = {
        "block_count": layers,
        "context_length": 131_072,
        "embedding_length": width,
        "feed_forward_length": inner,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": length,
        "rope.freq_base": 500_000.0,
        "vocab_size": vocabulary,
    }
    if head_length:
        keys |= {"attention.key_length": head_length, "attention.value_length": head_length}
    tensors = [of("token_embd", width, vocabulary)]
    for layer in range(layers):
        for name, shape in (
            ("attn_norm", (width,)),
            ("attn_q", (width, heads * length)),
            ("attn_k", (width, kv_heads * length)),
            ("attn_v", (width, kv_heads * length)),
            ("attn_output", (heads * length, width)),
            ("ffn_norm", (width,)),
            ("ffn_gate", (width, inner)),
            ("ffn_up", (width, inner)),
            ("ffn_down", (inner, width)),
        ):
            kind = "F32" if len(shape) == 1 else kinds.get(name, kinds[""])
            tensors.append((f"blk.{layer}.{name}.weight", shape, kind))
    tensors.append(of("output_norm", width))
    if not tied:
        tensors.append(of("output", width, vocabulary))
    return keys, tensors


def _add_key(writer: object, name: str, value: Value) -> None:
    add = {bool: "add_bool", int: "add_uint32", float: "add_float32", str: "add_string"}.get(type(value), "add_array")
    getattr(writer, add)(name, value)


def fill_with_weights(path: Path, *, seed: int = 42) -> Path:
    """Puts random weights in the place of the hole, so that they are read from storage: F16 ones, and 1 for norms (F32)."""
    import numpy

    from native.formats.gguf import read_gguf

    info, random = read_gguf(path), numpy.random.default_rng(seed)
    with path.open("r+b") as file:
        for tensor in info.tensors:
            file.seek(info.data_offset + tensor.offset)
            if tensor.type == "F32":
                file.write(numpy.ones(tensor.elements, dtype=numpy.float32).tobytes())
                continue
            assert tensor.type == "F16", tensor
            weights = random.standard_normal(tensor.elements, dtype=numpy.float32) / numpy.sqrt(tensor.shape[0])
            file.write(weights.astype(numpy.float16).tobytes())
    return path
