"""Recognising the files that are handed in as models by mistake, by their first bytes."""

from __future__ import annotations

from dataclasses import dataclass

HEAD_BYTES = 512


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A kind of file. `title` completes "it looks like …"; `convertible` when a converter makes a .ms file of it."""

    title: str
    convertible: bool = False


def recognise(head: bytes) -> Foreign | None:
    """What a file that begins with `head` (up to `HEAD_BYTES`) is; None when it is nothing that we know."""
    start = head.lstrip().lower()
    if head[:4] == b"GGUF":
        return Foreign(title="a GGUF model")
    if head[4:8] == b"MSL2":
        return Foreign(title="a MindSpore Lite model")
    if head[4:8] == b"TFL3":
        return Foreign(title="a TensorFlow Lite model", convertible=True)
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return Foreign(title="a web page, not a model")
    if start.startswith(b"version https://git-lfs"):
        return Foreign(title="a Git LFS pointer, not the model itself")
    if head[:4] == b"PK\x03\x04" or head[:2] == b"\x1f\x8b":
        return Foreign(title="an archive that has to be unpacked first")
    if head[:4] == b"\x7fELF":
        return Foreign(title="a program or library")
    if head[:1] == b"\x0a" and b"MindSpore" in head[:64]:
        return Foreign(title="a MindIR model", convertible=True)
    if _is_onnx(head):
        return Foreign(title="an ONNX model", convertible=True)
    if head and head.isascii() and all(byte >= 32 or byte in b"\t\r\n" for byte in head):
        return Foreign(title="a text file")
    return None


def _is_onnx(head: bytes) -> bool:
    """A protobuf message with the small number 1 (``ir_version``) and then the producer, the domain or the graph."""
    return head[:1] == b"\x08" and head[1:2] < b"\x20" and head[2:3] in (b"\x12", b"\x1a", b"\x22", b"\x3a", b"\x42")
