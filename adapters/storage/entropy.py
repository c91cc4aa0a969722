"""Ids, secrets and chance: the system's, and a seeded source for simulations that can be repeated."""

from __future__ import annotations

import random
import secrets
import threading
import uuid
from typing import Final

import uuid_utils

TOKEN_BYTES: Final = 24
"""Random bytes in a token: 192 bits, which are 32 characters of URL-safe text."""


class SystemEntropy:
    """Ids that sort by their time, and chance that nobody can foresee."""

    def __init__(self) -> None:
        """Draw from the operating system."""
        self._random = random.SystemRandom()

    def new_id(self) -> str:
        """A UUIDv7."""
        return str(uuid_utils.uuid7())

    def new_token(self) -> str:
        """A secret of 192 random bits, as text."""
        return secrets.token_urlsafe(TOKEN_BYTES)

    def chance(self) -> float:
        """A number drawn evenly from 0 to 1."""
        return self._random.random()


class SeededEntropy:
    """The same ids, tokens and numbers for the same seed, in the same order of calls; no token of it is a secret."""

    def __init__(self, seed: int) -> None:
        """Start over from ``seed``."""
        self._random = random.Random(seed)  # noqa: S311  # a simulation must be repeatable; real hosts use SystemEntropy
        self._lock = threading.Lock()
        self._ids = 0

    def new_id(self) -> str:
        """A UUIDv7 whose time is the number of ids that were made before."""
        with self._lock:
            self._ids += 1
            raw = bytearray(self._ids.to_bytes(6, "big") + self._random.randbytes(10))
        raw[6] = raw[6] & 0x0F | 0x70
        raw[8] = raw[8] & 0x3F | 0x80
        return str(uuid.UUID(bytes=bytes(raw)))

    def new_token(self) -> str:
        """192 seeded bits, as text."""
        with self._lock:
            return self._random.randbytes(TOKEN_BYTES).hex()

    def chance(self) -> float:
        """A number drawn evenly from 0 to 1."""
        with self._lock:
            return self._random.random()
