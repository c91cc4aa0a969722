"""Signing anchors with Ed25519: the key stays in a file outside the database, and only its public half is told."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from jobledger.projections.anchors import Anchor

MISSING: Final = "signing needs the package cryptography; install jobledger[audit], or leave the key out"


def make_key(path: Path | str) -> str:
    """Make a new private key, readable by its owner alone; answers the public one, in hex digits.

    Raises:
        InvalidRequestError: the file exists already, or cryptography is not installed.
    """
    ed25519, serialization = _cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidRequestError("key", f"{os.fspath(path)!r} exists; a key is never overwritten") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(encoded)
        file.flush()
        os.fsync(file.fileno())
    return _public(key)


def signed(anchor: Anchor, key_file: Path | str) -> Anchor:
    """The anchor with a signature of this private key.

    Raises:
        InvalidRequestError: the file holds no Ed25519 private key in PEM, or cryptography is not installed.
    """
    ed25519, serialization = _cryptography()
    key: Any = None
    with contextlib.suppress(ValueError, TypeError):
        key = serialization.load_pem_private_key(Path(key_file).read_bytes(), None)
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise InvalidRequestError(
            "key", "an Ed25519 private key in PEM is needed; 'jobledger anchor --new-key' makes one"
        )
    return replace(anchor, key=_public(key), signature=key.sign(anchor.message).hex())


def is_signed(anchor: Anchor, public: str) -> bool:
    """Whether an anchor is signed with the private half of a public key, given in hex digits.

    Raises:
        InvalidRequestError: it is no such key, or cryptography is not installed.
    """
    ed25519, _ = _cryptography()
    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
    except ValueError:
        problem = "the public key is 64 hex digits, as 'jobledger anchor --new-key' shows it"
        raise InvalidRequestError("public_key", problem) from None
    with contextlib.suppress(Exception):  # whatever is wrong with a signature, it is none
        key.verify(bytes.fromhex(anchor.signature), anchor.message)
        return True
    return False


def _public(key: Any) -> str:
    encoded: bytes = key.public_key().public_bytes_raw()
    return encoded.hex()


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  # an extra, which may not be there
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415  # likewise
    except ImportError:
        raise InvalidRequestError("key", MISSING) from None
    return ed25519, serialization
