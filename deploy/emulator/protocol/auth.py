"""Authorisation between a host and a secure board: an RSA-3072 key of the host, and the board user's consent.

Imported only where it is needed: the library behind it takes long to load.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import secrets
import socket
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

KEY_BITS = 3072
TOKEN_CHARACTERS = 20
SEPARATOR = b"\x0c"
_PADDING = padding.PSS(mgf=padding.MGF1(hashes.SHA512()), salt_length=64)


def host_key() -> rsa.RSAPrivateKey:
    """This user's key, which is made at the first contact with a secure board: ``.harmony/hdckey`` in HOME."""
    path = Path.home() / ".harmony" / "hdckey"
    if path.exists():
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        assert isinstance(key, rsa.RSAPrivateKey)
        return key
    path.parent.mkdir(mode=0o700, exist_ok=True)
    return new_key(path)


def new_key(path: Path) -> rsa.RSAPrivateKey:
    """Makes a key pair: `path`, and beside it ``.pub``. Raises OSError."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(private)
    path.with_suffix(".pub").write_bytes(public_pem(key))
    return key


def public_pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def introduction(key: rsa.RSAPrivateKey) -> bytes:
    """What the host says of itself: its name and its public key."""
    return socket.gethostname().encode() + SEPARATOR + public_pem(key)


def sign(key: rsa.RSAPrivateKey, token: bytes) -> bytes:
    """The host's answer to a token, in base64."""
    return base64.b64encode(key.sign(token, _PADDING, hashes.SHA512()))


def new_token() -> bytes:
    return secrets.token_hex(TOKEN_CHARACTERS // 2).encode()


def is_signed(pem: bytes, token: bytes, signature: bytes) -> bool:
    """Whether the owner of a public key has signed the token."""
    try:
        key = serialization.load_pem_public_key(pem)
        assert isinstance(key, rsa.RSAPublicKey)
        key.verify(base64.b64decode(signature), token, _PADDING, hashes.SHA512())
    except (InvalidSignature, ValueError, AssertionError):
        return False
    return True


class KnownKeys:
    """The hosts that the board's user has accepted for good."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def has(self, pem: bytes) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return _print_of(pem) in self._file.read_text().split()
        return False

    def add(self, pem: bytes) -> None:
        with self._file.open("a") as file:
            file.write(f"{_print_of(pem)}\n")


def _print_of(pem: bytes) -> str:
    return hashlib.sha256(pem.strip()).hexdigest()
