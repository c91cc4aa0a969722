"""How the tracking of projections stands in rows: columns for what is compared, JSON for a trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from jobledger.adapters.storage.rows import from_us, to_us
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.tracking import Tracked, Trouble

if TYPE_CHECKING:
    from collections.abc import Mapping

_TROUBLES: Final = TypeAdapter(Trouble)


def tracked_row(tracked: Tracked) -> dict[str, Any]:
    """The columns of a build, by name."""
    return {
        "name": tracked.projection,
        "build": tracked.build,
        "version": tracked.version,
        "is_live": tracked.is_live,
        "position": tracked.position,
        "runner": tracked.runner,
        "moved_at_us": to_us(tracked.moved_at),
        "trouble": _TROUBLES.dump_json(tracked.trouble) if tracked.trouble else None,
    }


def decode_tracked(row: Mapping[str, Any]) -> Tracked:
    """Read a build back.

    Raises:
        HistoryCorruptError: its trouble cannot be read.
    """
    encoded = row["trouble"]
    try:
        trouble = None if encoded is None else _TROUBLES.validate_json(encoded)
    except (ValidationError, ValueError) as error:
        problem = f"what projection {row['name']!r} was parked for cannot be read; rebuild it"
        raise HistoryCorruptError(str(row["name"]), 0, problem) from error
    return Tracked(
        projection=row["name"],
        build=row["build"],
        version=row["version"],
        is_live=bool(row["is_live"]),
        position=row["position"],
        runner=row["runner"],
        moved_at=from_us(row["moved_at_us"]),
        trouble=trouble,
    )


def stands_as(tracked: Tracked, seen: Tracked) -> bool:
    """Whether a build was neither moved, parked, released nor put aside since it was seen."""
    return (tracked.position, tracked.is_live, tracked.version, tracked.trouble) == (
        seen.position,
        seen.is_live,
        seen.version,
        seen.trouble,
    )
