"""Durations as histograms: how many were at most so long, in steps from a tenth of a second to a day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jobledger.domain.values import Json

SECOND_US: Final = 1_000_000

BOUNDS: Final = tuple(
    timedelta(seconds=seconds) for seconds in (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400)
)
"""The upper bounds of the buckets; the last bucket has none."""

_BOUNDS_US: Final = tuple(bound // timedelta(microseconds=1) for bound in BOUNDS)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations by bucket: ``counts`` has one number for each of ``BOUNDS``, and a last one for what was longer."""

    counts: tuple[int, ...]
    total: timedelta

    @property
    def count(self) -> int:
        """How many durations there were."""
        return sum(self.counts)

    @property
    def mean(self) -> timedelta | None:
        """Their arithmetic mean; ``None`` where there were none."""
        return self.total / self.count if self.count else None

    def quantile(self, share: float) -> timedelta | None:
        """The bound that at least this share of the durations keeps; ``None``: there were none, or it has no bound."""
        wanted, seen = share * self.count, 0
        for bound, count in zip(BOUNDS, self.counts, strict=False):
            seen += count
            if seen and seen >= wanted:
                return bound
        return None


def no_durations() -> Json:
    """An empty histogram as it stands in a row: the counts, and the sum in microseconds."""
    return [[0] * (len(BOUNDS) + 1), 0]


def add_duration(kept: Json, duration_us: int) -> None:
    """Count one duration; a clock that went back makes it none at all."""
    duration_us = max(0, duration_us)
    place = next((place for place, bound in enumerate(_BOUNDS_US) if duration_us <= bound), len(_BOUNDS_US))
    kept[0][place] += 1
    kept[1] += duration_us


def histogram(kept: Json) -> Histogram:
    """A histogram from its row."""
    return Histogram(tuple(kept[0]), timedelta(microseconds=kept[1]))


def merged(first: Histogram, second: Histogram) -> Histogram:
    """Both together."""
    counts = tuple(one + other for one, other in zip(first.counts, second.counts, strict=True))
    return Histogram(counts, first.total + second.total)
