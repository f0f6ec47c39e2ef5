"""What a model file is, for people and for machines, from its header only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import ModelError
from core.files import human_bytes
from native.formats.flatbuffer import printable
from native.formats.foreign import HEAD_BYTES, recognise

if TYPE_CHECKING:
    from native.formats.ms import MsInfo
    from native.formats.ms_graph import MsTensor
    from native.models.gguf_model import GgufModel

GGUF_MAGIC = b"GGUF"
CUT_PIECE = re.compile(r"(?P<whole>.+\.gguf)(?:\.part\d+of\d+|\.part-?[a-z\d]+|-split-[a-z]+)", re.I | re.DOTALL)
"""Names of pieces that are no GGUF files of their own, as publishers call them whose files may not be larger."""
MS_IDENTIFIER = b"MSL2"
GGUF_ZEROS = "Its last bytes are nothing but zeros: weights that are zero, or a download that did not end."
SHOWN_CONTEXT = 4096
"""Tokens for which the memory is worked out, unless the model takes fewer."""
LIST_LIMIT = 12
"""Entries of a list that are shown to people; machines get them all."""


def inspect_model(path: Path) -> dict[str, Any]:
    """The description of a ``.gguf`` or ``.ms`` file, ready for JSON; ``kind`` says which of the two it is.

    The content decides, not the name. Raises ModelError when the file is neither, or is damaged.
    """
    if model_kind(path) == "gguf":
        from native.models.gguf_model import read_gguf_model

        return {"kind": "gguf", "path": str(path), **_describe_gguf(read_gguf_model(path))}
    from native.formats.ms import read_ms

    return {"kind": "ms", "path": str(path), **_describe_ms(read_ms(path))}


def model_kind(path: Path) -> str:
    """``gguf`` or ``ms``, from the first bytes; raises ModelError for anything else, with what it looks like."""
    try:
        if not path.is_file():
            raise ModelError(f"There is no model file {path}.")
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from error
    if not head:
        raise ModelError(f"{path} is empty: a download that failed leaves such files.")
    foreign = recognise(head)
    if (piece := CUT_PIECE.fullmatch(path.name)) and (foreign is None or head.startswith(GGUF_MAGIC)):
        raise ModelError(
            f"{path} is a piece of {piece['whole']}, which was cut into several without regard to what is in it.",
            remedy=f"Fetch all of them and join them in their order: `cat FIRST SECOND … > {piece['whole']}`.",
        )
    if head.startswith(GGUF_MAGIC):
        return "gguf"
    # A .ms file from before the identifier is left to its reader, which says more of it.
    if head[4:8] == MS_IDENTIFIER or path.suffix == ".ms":
        return "ms"
    raise ModelError(
        f"{path} is neither a GGUF nor a MindSpore Lite model"
        + (f": it looks like {foreign.title}." if foreign else ": its first bytes are those of neither."),
        remedy=foreign.remedy if foreign else None,
    )


def describe_lines(description: Mapping[str, Any]) -> list[str]:
    """The same for people: one line for each thing that matters."""
    lines = _ms_lines(description) if description["kind"] == "ms" else _gguf_lines(description)
    width = max(len(name) for name, _ in lines)
    return [f"{name:<{width}}  {text}" for name, text in lines]


def _describe_ms(info: MsInfo) -> dict[str, Any]:
    return {
        "size": info.file_size,
        "name": info.name,
        "version": info.version,
        "converter": info.converter,
        "source_format": info.source_format,
        "inputs": [_describe_tensor(tensor) for tensor in info.inputs],
        "outputs": [_describe_tensor(tensor) for tensor in info.outputs],
        "operators": {operator.name: count for operator, count in info.operators},
        "nodes": info.nodes,
        "tensors": info.tensors,
        "subgraphs": info.subgraphs,
        "weight_bytes": info.weight_bytes,
        "weight_dtypes": dict(info.weight_dtypes),
        "activation_bytes": info.activation_bytes,
        "compressions": list(info.compressions),
        "external_files": list(info.external_files),
        "dynamic": list(info.dynamic),
        "obfuscated": info.obfuscated,
        "reference_runtime_lacks": list(info.reference_lacks),
        "training": bool(info.training),
        "offline": info.offline,
        "problems": list(info.problems),
        "notes": _ms_notes(info),
    }


def _describe_tensor(tensor: MsTensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "layout": tensor.layout,
        "bytes": tensor.size,
    }


def _ms_notes(info: MsInfo) -> list[str]:
    """Sentences on what is no fault, but what whoever runs the model should know."""
    notes = []
    if not info.version:
        notes.append("The converter left no version; whether a board's runtime is new enough cannot be told.")
    if info.dynamic:
        notes.append(
            f"The shape of {', '.join(info.dynamic)} is set when the model runs; NNRt devices often refuse that."
        )
    if info.external_files:
        notes.append(f"Weights are in {', '.join(info.external_files)}, which must lie beside the model on the board.")
    if info.training:
        notes.append(
            f"It is a graph for training ({', '.join(info.training[:3])} …); board.run takes graphs for inference."
        )
    if info.offline:
        notes.append(
            "It was compiled offline for one kind of device (nothing but custom operators); only a board with that "
            "device can run it (--device nnrt)."
        )
    if info.zero_tail:
        notes.append(
            f"The last {info.zero_tail} of its {info.file_size} bytes are zeros: weights that are zero, padding, or a "
            "download that did not end."
        )
    if info.compressions:
        notes.append(
            f"Weights are compressed ({', '.join(info.compressions)}); the reference runtime cannot unpack them."
        )
    if info.obfuscated:
        notes.append("The model is obfuscated; names and operators may not be what they seem.")
    newer = [operator.name for operator, _ in info.operators if operator.newer]
    if newer:
        notes.append(f"The runtime of OpenHarmony 3.2 does not know {', '.join(newer)}.")
    return notes


def _ms_lines(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    dtypes = ", ".join(f"{name} {human_bytes(count)}" for name, count in model["weight_dtypes"].items())
    operators = [f"{count} {name}" for name, count in model["operators"].items()]
    lacks = model["reference_runtime_lacks"]
    lines = [
        ("file", f"{model['path']} ({human_bytes(model['size'])})"),
        ("kind", "MindSpore Lite model"),
        ("name", model["name"] or "none"),
        ("converter", f"{model['version'] or 'version not stated'}, from {model['source_format']}"),
        *[("input", _tensor_text(tensor)) for tensor in model["inputs"]],
        *[("output", _tensor_text(tensor)) for tensor in model["outputs"]],
        ("operators", f"{model['nodes']}: {_shortened(operators)}"),
        ("weights", human_bytes(model["weight_bytes"]) + (f" ({dtypes})" if dtypes else "")),
        ("reference runtime", f"lacks {_shortened(lacks)}" if lacks else "can run it"),
    ]
    lines += [("note", note) for note in model["notes"]]
    return lines + [("problem", problem) for problem in model["problems"]]


def _tensor_text(tensor: Mapping[str, Any]) -> str:
    shape = "x".join("?" if size < 0 else str(size) for size in tensor["shape"]) or "no shape stated"
    size = f", {tensor['bytes']} bytes" if tensor["bytes"] else ""
    return f"{tensor['name'] or 'without a name'}: {tensor['dtype']} {shape} {tensor['layout']}{size}"


def _shortened(entries: list[str]) -> str:
    rest = len(entries) - LIST_LIMIT
    return ", ".join(entries[:LIST_LIMIT]) + (f" and {rest} more" if rest > 0 else "")


def _describe_gguf(model: GgufModel) -> dict[str, Any]:
    from native.models.gguf_model import explain_why_not, find_role

    info = model.info
    role, problem = find_role(info), explain_why_not(info)
    head_length = info.metadata.get(f"{info.architecture}.attention.key_length")
    if not isinstance(head_length, int) or head_length <= 0:
        head_length = info.embedding_length // info.heads if info.heads else 0
    # Keys and values of one token in all layers, with 2 bytes a number.
    token_bytes = 2 * 2 * info.layers * info.kv_heads * head_length
    context = min(info.context_length or SHOWN_CONTEXT, SHOWN_CONTEXT)
    return {
        "size": info.file_size,
        "files": [str(file) for file in model.files],
        "role": role.name if role else "model",
        "problems": [f"{problem} {role.remedy}" if role else problem] if problem else [],
        "name": printable(info.name),
        "version": info.version,
        "licence": printable(info.licence),
        "architecture": printable(info.architecture),
        "file_type": info.file_type,
        "bits_per_weight": round(info.bits_per_weight, 2),
        "parameters": info.parameters,
        "tensors": len(info.tensors),
        "weight_bytes": info.weight_bytes,
        "weight_types": dict(info.type_bytes),
        "context_length": info.context_length,
        "layers": info.layers,
        "embedding_length": info.embedding_length,
        "feed_forward_length": info.feed_forward_length,
        "heads": info.heads,
        "kv_heads": info.kv_heads,
        "vocabulary": info.vocabulary,
        "chat_template": info.chat_template,
        "kv_bytes_per_token": token_bytes,
        "memory": {"context": context, "bytes": info.weight_bytes + token_bytes * context},
        "notes": [GGUF_ZEROS] if info.ends_in_zeros else [],
    }


def _gguf_lines(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    types = ", ".join(f"{name} {human_bytes(count)}" for name, count in model["weight_types"].items())
    shape = (
        f"{model['layers']} layers x {model['embedding_length']}, {model['heads']} heads, {model['kv_heads']} for keys"
    )
    pieces = f", with {len(model['files']) - 1} further pieces" if len(model["files"]) > 1 else ""
    kind = "GGUF model" if model["role"] == "model" else f"GGUF, but {model['role']}"
    return [
        ("file", f"{model['path']} ({human_bytes(model['size'])}{pieces})"),
        ("kind", f"{kind}, version {model['version']}"),
        ("name", model["name"] or "none"),
        ("architecture", f"{model['architecture']}: {shape}"),
        ("parameters", f"{model['parameters'] / 1e6:.1f} million, {model['bits_per_weight']} bits each"),
        ("quantisation", f"{model['file_type'] or 'not stated'} ({types})"),
        ("context", f"{model['context_length'] or 'not stated'} tokens, vocabulary {model['vocabulary']}"),
        ("chat template", "yes" if model["chat_template"] else "no"),
        ("licence", model["licence"] or "not stated"),
        (
            "memory",
            f"at least {human_bytes(model['memory']['bytes'])} with a context of {model['memory']['context']} "
            f"({human_bytes(model['kv_bytes_per_token'])} a token)",
        ),
        *[("note", note) for note in model["notes"]],
        *[("problem", problem) for problem in model["problems"]],
    ]
