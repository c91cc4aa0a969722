"""What a check of the doctor answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mark = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; ``is_corrupt``: what is stored cannot be trusted or read."""

    check: str
    mark: Mark
    found: str
    is_corrupt: bool = False
