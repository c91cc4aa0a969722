"""The place at which the first worker is killed: a batch's effect is written, and nothing is recorded about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_wait_to_be_killed: list[tuple[int, Callable[[], None]]] = []


def wait_to_be_killed(batch: int, wait: Callable[[], None]) -> None:
    """Have this process call ``wait`` once that batch's effect is written; nothing comes back from it."""
    _wait_to_be_killed.append((batch, wait))


def effect_is_written(batch: int) -> None:
    """A batch stands in the index; its receipt and its checkpoint do not stand in the store yet."""
    for chosen, wait in _wait_to_be_killed:
        if chosen == batch:
            wait()
