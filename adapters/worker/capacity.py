"""How many jobs a host may run at once, in all, of each queue and of each kind, and what it may therefore claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from jobledger.domain.bounds import require_integer, require_text
from jobledger.domain.errors import InvalidRequestError

CONCURRENCY_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Share:
    """The queues and kinds of one claim."""

    queues: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that runs at once in one host: in all, and of those queues and kinds that have a limit of their own."""

    concurrency: int
    by_queue: Mapping[str, int] = field(default_factory=dict[str, int])
    by_kind: Mapping[str, int] = field(default_factory=dict[str, int])

    def shares(self, queues: Sequence[str], kinds: Sequence[str]) -> list[Share]:
        """The claims to make, so that none of them can go over a limit, whatever it finds.

        Queues and kinds without a limit share one claim, in which priorities decide; each limited one has its own.
        """
        return [
            Share(some_queues, some_kinds)
            for some_queues in _parts(queues, self.by_queue)
            for some_kinds in _parts(kinds, self.by_kind)
        ]

    def room(self, share: Share, running: Iterable[tuple[str, str]]) -> int:
        """How many jobs of a share may start, beside what runs (each with its queue and kind); slots aside."""
        busy = list(running)
        queues, kinds = Counter(queue for queue, _ in busy), Counter(kind for _, kind in busy)
        left = [self.by_queue[name] - queues[name] for name in share.queues if name in self.by_queue]
        left += [self.by_kind[name] - kinds[name] for name in share.kinds if name in self.by_kind]
        return max(0, min(left, default=self.concurrency))


def _parts(names: Sequence[str], limits: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Those without a limit together, then each with one by itself."""
    unlimited = tuple(name for name in names if name not in limits)
    return [*([unlimited] if unlimited else []), *((name,) for name in names if name in limits)]


def require_limits(
    concurrency: int,
    by_queue: Mapping[str, int] | None,
    by_kind: Mapping[str, int] | None,
    *,
    queues: Sequence[str],
    kinds: Sequence[str],
) -> Limits:
    """Check limits against what a host works on.

    Raises:
        InvalidRequestError: a number is out of its range, or a limit is for a queue or kind that the host has not.
    """
    return Limits(
        require_integer("concurrency", concurrency, 1, CONCURRENCY_MAX),
        _require_each("concurrency_by_queue", by_queue, queues),
        _require_each("concurrency_by_kind", by_kind, kinds),
    )


def _require_each(name: str, given: Mapping[str, int] | None, known: Sequence[str]) -> dict[str, int]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidRequestError(name, f"a mapping from names to numbers is needed, not {type(given).__name__}")
    for each in given:
        if require_text(name, each) not in known:
            raise InvalidRequestError(name, f"this host does not work on {each!r}; it works on {', '.join(known)}")
    return {each: require_integer(f"{name}.{each}", limit, 0, CONCURRENCY_MAX) for each, limit in given.items()}
