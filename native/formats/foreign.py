"""Recognising the files that are handed in as models by mistake, by their first bytes."""

from __future__ import annotations

from dataclasses import dataclass

HEAD_BYTES = 512
SMALLEST_RESERVED = 64
"""Zeros at the begin of a file that is taken for reserved space."""
CONVERT = "Convert it with MindSpore Lite's converter (for Python: save_type MINDIR_LITE)."
GGUF_INSTEAD = "llama.cpp reads GGUF only: fetch the model as GGUF, or convert the original one again."
FETCH_AGAIN = "Fetch the file again; the first attempt did not end."
CONVERT_OR_FETCH = (
    "Fetch a language model as GGUF, or convert its whole folder with llama.cpp's convert_hf_to_gguf.py; export any other "
    "model as ONNX, which MindSpore Lite's converter takes."
)
ARCHIVES = (
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ\x00",
    b"\x28\xb5\x2f\xfd",
    b"7z\xbc\xaf\x27\x1c",
    b"Rar!\x1a\x07",
)
OLD_GGML = {
    # The numbers 'ggml', 'ggmf' and 'ggjt' of old llama.cpp, as they lie in a little-endian file.
    b"lmgg": "an old GGML model (whisper.cpp still has such ones)",
    b"fmgg": "an old GGML model (GGMF)",
    b"tjgg": "an old GGML model (GGJT)",
    b"algg": "an old LoRA adapter (GGLA)",
    b"nsgg": "a saved session of llama.cpp",
    b"qsgg": "a saved session of llama.cpp",
}


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A kind of file. `title` completes "it looks like …"; `remedy` is None when nothing better than fetching is known."""

    title: str
    remedy: str | None = None


def recognise(head: bytes) -> Foreign | None:
    """What a file that begins with `head` (up to `HEAD_BYTES`) is; None when it is nothing that we know."""
    start = head.lstrip().lower()
    if head[:4] == b"GGUF":
        return Foreign(title="a GGUF model", remedy="Give it the ending .gguf.")
    if head[4:8] == b"MSL2":
        return Foreign(title="a MindSpore Lite model", remedy="Give it the ending .ms.")
    if title := OLD_GGML.get(head[:4]):
        return Foreign(title=title, remedy=GGUF_INSTEAD)
    if head[12:16] == b"blk." or head[12:18] == b"output":
        return Foreign(title="an importance matrix (imatrix), no model", remedy="It is for llama-quantize --imatrix.")
    if head[4:8] == b"TFL3":
        return Foreign(title="a TensorFlow Lite model", remedy=CONVERT)
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return Foreign(title="a web page, not a model")
    if start.startswith(b"version https://git-lfs"):
        remedy = "Run `git lfs pull` in the clone that it is from, or fetch the file itself."
        return Foreign(title="a Git LFS pointer, not the model itself", remedy=remedy)
    if head[:2] in (b"\x80\x02", b"\x80\x04") or (head[:4] == b"PK\x03\x04" and b"/data.pkl" in head):
        return Foreign(title="a PyTorch checkpoint", remedy=CONVERT_OR_FETCH)
    if _is_safetensors(head):
        return Foreign(title="a safetensors file", remedy=CONVERT_OR_FETCH)
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return Foreign(title="a Keras model (HDF5)", remedy="Convert it to TensorFlow Lite first. " + CONVERT)
    if head.startswith(ARCHIVES):
        return Foreign(title="an archive that has to be unpacked first", remedy="Unpack it.")
    if head[:4] == b"\x7fELF":
        return Foreign(title="a program or library", remedy="Programs are run with `ohforge board.run --program`.")
    if head[:1] == b"\x0a" and b"MindSpore" in head[:64]:
        return Foreign(title="a MindIR model", remedy=CONVERT)
    if _is_onnx(head):
        return Foreign(title="an ONNX model", remedy=CONVERT)
    if len(head) >= SMALLEST_RESERVED and not any(head):
        return Foreign(
            title="a file whose space was reserved and never written: it begins with zeros", remedy=FETCH_AGAIN
        )
    if head and head.isascii() and all(byte >= 32 or byte in b"\t\r\n" for byte in head):
        return Foreign(title="a text file")
    return None


def _is_safetensors(head: bytes) -> bool:
    """The length of a JSON object, which safetensors itself takes up to 100 MB of, and the object."""
    return int.from_bytes(head[:8], "little") <= 100_000_000 and head[8:10] in (b'{"', b"{ ")


def _is_onnx(head: bytes) -> bool:
    """A protobuf message with the small number 1 (``ir_version``) and then the producer, the domain or the graph."""
    return head[:1] == b"\x08" and head[1:2] < b"\x20" and head[2:3] in (b"\x12", b"\x1a", b"\x22", b"\x3a", b"\x42")
