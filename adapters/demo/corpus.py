"""The text that the demonstration indexes: the source of the installed Python and its packages, in ten batches."""

from __future__ import annotations

import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCHES: Final = 10
FILE_BYTES_MAX: Final = 512 * 1024
PASSED_OVER: Final = frozenset({"__pycache__", "test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages"})


@dataclass(frozen=True, slots=True)
class Source:
    """One file to index, with the dotted name of its module and its size in bytes."""

    path: Path
    module: str
    size: int


def sources(bytes_max: int) -> list[Source]:
    """Source files in a fixed order, together at most ``bytes_max`` bytes: the library first, then packages."""
    found: list[Source] = []
    left = bytes_max
    for root in dict.fromkeys((sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))):
        for source in _below(Path(root)):
            if source.size <= left:
                found.append(source)
                left -= source.size
    return found


def batches_of(found: list[Source], count: int = BATCHES) -> list[list[Source]]:
    """The sources in ``count`` batches of about the same number of bytes, in their order."""
    total = sum(source.size for source in found)
    batches: list[list[Source]] = [[] for _ in range(count)]
    before = 0
    for source in found:
        batches[min(count - 1, before * count // max(1, total))].append(source)
        before += source.size
    return batches


def _below(root: Path) -> Iterator[Source]:
    for base, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in PASSED_OVER and name.isidentifier())
        for name in sorted(names):
            if not name.endswith(".py"):
                continue
            path = Path(base, name)
            try:
                size = path.stat().st_size
            except OSError:
                continue
            if 0 < size <= FILE_BYTES_MAX:
                yield Source(path, _module(path.relative_to(root)), size)


def _module(below: Path) -> str:
    parts = list(below.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
