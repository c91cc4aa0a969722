"""JSON values as they are stored: their one encoding, their digests, and bodies that are kept aside when large."""

from __future__ import annotations

import hashlib
import json.encoder
import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator

from jobledger.domain.bounds import require_storable

if TYPE_CHECKING:
    from collections.abc import Callable

Json = Any
"""A plain JSON value: ``None``, ``bool``, ``int``, ``float``, ``str``, ``list`` or ``dict`` with text keys."""

INLINE_BYTES_MAX: Final = 4 * 1024
"""A value up to this many bytes of JSON stands in its event; a larger one is kept aside by its digest."""


def encode_json(value: Json, *, sort_keys: bool = False) -> bytes:
    """Encode as compact UTF-8 JSON, numbers as Python writes them; sizes are counted in these bytes."""
    return (_SORTED if sort_keys else _COMPACT)(value).encode()


def _made_once(*, sort_keys: bool) -> Callable[[Json], str]:
    """An encoder that is made once: the one of ``json`` makes its C part anew for each value, at twice its price.

    Where an interpreter has no such part, or takes other arguments for it, its own encoder serves.
    """
    slow = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys)
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    try:
        texts = json.encoder.encode_basestring
        fast = make(None, slow.default, texts, None, ":", ",", sort_keys, slow.skipkeys, slow.allow_nan)
        _ = fast([""], 0)
    except TypeError:
        return slow.encode
    return lambda value: "".join(fast(value, 0))


_COMPACT: Final = _made_once(sort_keys=False)
_SORTED: Final = _made_once(sort_keys=True)


def require_finite(value: Json) -> Json:
    """Require that a value that was read back holds finite numbers only: a parser makes an infinity of ``1e999``.

    Raises:
        ValueError: it does not; nothing of jobledger stored it.
    """
    if not _is_finite(value):
        msg = "a number that is not finite"
        raise ValueError(msg)
    return value


def _is_finite(value: Json) -> bool:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # compared by identity alone
    if kind is float:
        return math.isfinite(value)
    if kind is dict:
        return all(map(_is_finite, value.values()))
    return all(map(_is_finite, value)) if kind is list else True


Stored = Annotated[Json, AfterValidator(require_finite)]
"""A plain JSON value as it is read back."""


def sha256_hex(*parts: bytes) -> str:
    """The SHA-256 of length-prefixed parts, as 64 hex digits: no two lists of parts share one by concatenation."""
    return hashlib.sha256(b"".join([_LENGTH.pack(len(part)) + part for part in parts])).hexdigest()


_LENGTH: Final = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Body:
    """A stored value: the value itself when small, else the digest under which its bytes are kept aside.

    ``size`` is in bytes of compact JSON; ``digest`` is empty for a value that stands here.
    """

    size: int
    value: Stored = None
    digest: str = ""

    def is_same(self, other: Body | None) -> bool:
        """Whether both hold byte-equal JSON (``1``, ``1.0`` and ``True`` differ)."""
        if other is None or self.size != other.size or self.digest != other.digest:
            return False
        return encode_json(self.value) == encode_json(other.value)


@dataclass(frozen=True, slots=True)
class Kept:
    """A value made ready to be stored: its body, and the bytes to keep aside if it is large."""

    body: Body
    aside: bytes | None = None


def keep(what: str, value: Json) -> Kept:
    """Check that a value can be stored and encode it once.

    Raises:
        UnstorableValueError: it is not plain JSON within the bounds.
    """
    require_storable(what, value)
    encoded = encode_json(value)
    if len(encoded) <= INLINE_BYTES_MAX:
        return Kept(Body(size=len(encoded), value=value))
    return Kept(Body(size=len(encoded), digest=hashlib.sha256(encoded).hexdigest()), aside=encoded)


def is_body(digest: str, encoded: bytes) -> bool:
    """Whether these bytes are the ones that were kept aside under this digest."""
    return hashlib.sha256(encoded).hexdigest() == digest


def fingerprint(kind: str, payload: Json, origin: Json) -> str:
    """The mark under which two requests for one key count as the same: kind, payload, origin; key order aside."""
    return sha256_hex(encode_json([kind, payload, origin], sort_keys=True))


def derived_id(*names: str) -> str:
    """An id that follows from names, so that two creators of one thing meet at it (a UUIDv8 of their SHA-256)."""
    digits = sha256_hex(*(name.encode() for name in names))
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"
