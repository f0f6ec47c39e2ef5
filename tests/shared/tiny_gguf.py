"""Makes tiny llama models with random weights: small enough for every test, real enough for llama.cpp.

A model of type F32 or F16 gives the same greedy text on every arch and with every compiler, because
llama.cpp works on both in single precision; quantised ones do not. Greedy decoding never ends early:
tokens that are not plain text have a zero row in the output matrix, so their logit is 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

LAYERS, WIDTH, INNER, HEADS, KV_HEADS, VOCABULARY, CONTEXT = 2, 64, 192, 4, 2, 512, 512
SPACE = "\u2581"
NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6
WORDS = (
    "the of and to in is that it was for on are with as his they be at one have this from or had by word but what some"
)


def write_tiny_gguf(
    path: Path, kind: str = "F32", *, seed: int = 42, tensors_in_piece: int = 0, chat_template: str = ""
) -> Path:
    """Writes a model of about 0.7 MB (F32) and returns `path`, or its first piece when it is to be split.

    `kind` is ``F32``, ``F16``, ``Q8_0`` or ``Q4_0`` (norms stay F32). The same arguments give the same
    bytes as long as numpy keeps its random stream.
    """
    import gguf
    import numpy

    writer = gguf.GGUFWriter(path, "llama", split_max_tensors=tensors_in_piece)
    _describe(writer, kind)
    if chat_template:
        writer.add_chat_template(chat_template)
    tokens = _vocabulary()
    _add_tokens(writer, tokens)
    random = numpy.random.default_rng(seed)
    for name, shape in _tensors():
        if name.endswith("norm.weight"):
            writer.add_tensor(name, numpy.ones(shape, dtype=numpy.float32))
            continue
        weights = (random.standard_normal(shape) / numpy.sqrt(shape[-1])).astype(numpy.float32)
        if name == "output.weight":
            weights[[index for index, (_, token_type) in enumerate(tokens) if token_type != NORMAL]] = 0
        _add_weights(writer, name, weights, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return next(path.parent.glob(f"{path.stem}-00001-of-*.gguf")) if tensors_in_piece else path


def _describe(writer: Any, kind: str) -> None:
    import gguf

    writer.add_name("tiny-random")
    writer.add_file_type(gguf.LlamaFileType["ALL_F32" if kind == "F32" else f"MOSTLY_{kind}"])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCABULARY)


def _vocabulary() -> list[tuple[str, int]]:
    """Pieces and their types, in the order of a SentencePiece vocabulary: specials, bytes, text, padding."""
    tokens = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
    tokens += [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
    pieces: dict[str, None] = dict.fromkeys([SPACE, *"abcdefghijklmnopqrstuvwxyz", *".,?!'"])
    for word in WORDS.split():
        for end in range(1, len(word) + 1):
            pieces[SPACE + word[:end]] = None
            pieces[word[:end]] = None
    tokens += [(piece, NORMAL) for piece in pieces]
    assert len(tokens) <= VOCABULARY
    return tokens + [(f"<unused{number}>", UNUSED) for number in range(VOCABULARY - len(tokens))]


def _add_tokens(writer: Any, tokens: list[tuple[str, int]]) -> None:
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece for piece, _ in tokens])
    # A longer piece must have the higher score, or the tokenizer would never merge up to it.
    writer.add_token_scores([len(piece) * 10.0 - index * 0.01 for index, (piece, _) in enumerate(tokens)])
    writer.add_token_types([token_type for _, token_type in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)


def _tensors() -> list[tuple[str, tuple[int, ...]]]:
    """Names and (out, in) shapes, as numpy has them; the file lists the dimensions the other way round."""
    key_width = WIDTH // HEADS * KV_HEADS
    tensors: list[tuple[str, tuple[int, ...]]] = [("token_embd.weight", (VOCABULARY, WIDTH))]
    for layer in range(LAYERS):
        tensors += [
            (f"blk.{layer}.{name}.weight", shape)
            for name, shape in (
                ("attn_norm", (WIDTH,)),
                ("attn_q", (WIDTH, WIDTH)),
                ("attn_k", (key_width, WIDTH)),
                ("attn_v", (key_width, WIDTH)),
                ("attn_output", (WIDTH, WIDTH)),
                ("ffn_norm", (WIDTH,)),
                ("ffn_gate", (INNER, WIDTH)),
                ("ffn_up", (INNER, WIDTH)),
                ("ffn_down", (WIDTH, INNER)),
            )
        ]
    return [*tensors, ("output_norm.weight", (WIDTH,)), ("output.weight", (VOCABULARY, WIDTH))]


def _add_weights(writer: Any, name: str, weights: Any, kind: str) -> None:
    import gguf
    import numpy

    if kind == "F32":
        writer.add_tensor(name, weights)
    elif kind == "F16":
        writer.add_tensor(name, weights.astype(numpy.float16))
    else:
        quantised = gguf.GGMLQuantizationType[kind]
        writer.add_tensor(name, gguf.quants.quantize(weights, quantised), raw_dtype=quantised)


if __name__ == "__main__":
    import sys

    write_tiny_gguf(Path(sys.argv[1]), *sys.argv[2:3])
