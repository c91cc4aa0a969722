"""How the tracking of projections stands in rows: columns for what is compared, JSON for a trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from jobledger.adapters.storage.rows import from_us, to_us
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.tracking import Tracked, Trouble

if TYPE_CHECKING:
    from collections.abc import Mapping

_TROUBLES: Final = TypeAdapter(Trouble)


class _Columns(TypedDict):
    """The columns that have to be of their types; an embedded store has no truth values of its own."""

    __pydantic_config__ = ConfigDict(strict=True)  # type: ignore[misc]  # so pydantic configures a typed dictionary

    name: str
    build: int
    version: int
    is_live: bool | int
    position: int
    runner: str


_ROWS: Final = TypeAdapter(_Columns)


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
        HistoryCorruptError: a column is of another type than was written, or its trouble cannot be read.
    """
    fields = dict(row)
    moved_at_us, encoded = fields.pop("moved_at_us"), fields.pop("trouble")
    try:
        _ROWS.validate_python(fields)
        return Tracked(
            projection=fields["name"],
            build=fields["build"],
            version=fields["version"],
            is_live=bool(fields["is_live"]),
            position=fields["position"],
            runner=fields["runner"],
            moved_at=from_us(moved_at_us),
            trouble=None if encoded is None else _TROUBLES.validate_json(encoded),
        )
    except (ValidationError, ValueError, TypeError, OverflowError) as error:
        problem = f"the row of projection {fields['name']!r} cannot be read; restore it, or remove it and run it anew"
        raise HistoryCorruptError(str(fields["name"]), 0, problem) from error


def stands_as(tracked: Tracked, seen: Tracked) -> bool:
    """Whether a build was neither moved, parked, released nor put aside since it was seen."""
    return (tracked.position, tracked.is_live, tracked.version, tracked.trouble) == (
        seen.position,
        seen.is_live,
        seen.version,
        seen.trouble,
    )
