"""SHA-256 whose state can be put on disk, so that hashing a stream can go on in another process.

`hashlib` cannot do that. The library behind it can: OpenSSL's SHA256_CTX is a plain structure (openssl/sha.h, 112
bytes) that holds no pointers. It is used only when a self-test has shown that saving and restoring it works here.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from typing import Protocol

CONTEXT_BYTES = 112


class Sha256(Protocol):
    def update(self, data: bytes | memoryview) -> None: ...

    def hexdigest(self) -> str: ...

    def save(self) -> bytes:
        """The state so far, for `restore_sha256`; empty when this machine's hash cannot be saved."""


def new_sha256() -> Sha256:
    """A hash that can be saved where that is possible."""
    library = _library()
    return _SavableSha256(library) if library is not None else _PlainSha256()


def restore_sha256(state: bytes) -> Sha256 | None:
    """The hash that was saved as `state`; None when it cannot be restored here."""
    library = _library()
    if library is None or len(state) != CONTEXT_BYTES:
        return None
    return _SavableSha256(library, state)


class _PlainSha256:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def update(self, data: bytes | memoryview) -> None:
        self._hash.update(data)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def save(self) -> bytes:
        return b""


class _SavableSha256:
    def __init__(self, library: ctypes.CDLL, state: bytes = b"") -> None:
        self._library = library
        self._context = ctypes.create_string_buffer(state, 2 * CONTEXT_BYTES)
        if not state:
            library.SHA256_Init(self._context)

    def update(self, data: bytes | memoryview) -> None:
        content = bytes(data)  # no copy when it is bytes already
        self._library.SHA256_Update(self._context, content, ctypes.c_size_t(len(content)))

    def hexdigest(self) -> str:
        copy = ctypes.create_string_buffer(self._context.raw, 2 * CONTEXT_BYTES)
        digest = ctypes.create_string_buffer(32)
        self._library.SHA256_Final(digest, copy)
        return digest.raw.hex()

    def save(self) -> bytes:
        return self._context.raw[:CONTEXT_BYTES]


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The OpenSSL that Python's own `hashlib` uses, if its state can be saved; None where it is built in or differs."""
    try:
        import _hashlib

        library = ctypes.CDLL(_hashlib.__file__)
        for name in ("SHA256_Init", "SHA256_Update", "SHA256_Final"):
            getattr(library, name).restype = ctypes.c_int
        return library if _passes_self_test(library) else None
    except (ImportError, AttributeError, OSError):
        return None


def _passes_self_test(library: ctypes.CDLL) -> bool:
    first, second = bytes(range(256)) * 3 + b"odd", b"the rest" * 20
    whole = hashlib.sha256(first + second).hexdigest()
    begun = _SavableSha256(library)
    begun.update(first)
    if any(begun._context.raw[CONTEXT_BYTES:]):
        return False  # a larger structure than the one that is known
    resumed = _SavableSha256(library, begun.save())
    begun.update(b"must not change what was saved")
    resumed.update(second)
    return resumed.hexdigest() == whole
