"""What an invariant is: a name, a sentence, and a predicate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Invariant:
    """One thing that holds in every history.

    ``check`` is given a ``Transition`` or an ``Answered`` and answers what is wrong, or an ``Index`` and yields places
    and what is wrong there. ``source`` is its number in the catalogue that the proof started from. ``events`` are those
    that a step invariant speaks of (empty: all), ``group`` is the heading under which people read of it.
    """

    name: str
    sentence: str
    check: Callable[[Any], Any]
    source: str = ""
    events: tuple[type, ...] = ()
    group: str = ""
