"""An append as the arguments of one call: its items and what hangs on them, as columns beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jobledger.adapters.storage.postgresql_arrays import booleans, byte_strings, integers, texts
from jobledger.adapters.storage.rows import encode_body, encode_job, to_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jobledger.domain.ports import Append

Column = tuple[str, "Callable[[Any], bytes]"]

# The arguments of jobledger.append(), in their order: its items, and then the tables that name an item by its place.
ITEMS: Final[tuple[Column, ...]] = (
    ("job", texts),
    ("namespace", texts),
    ("owner", texts),
    ("guard", integers),
    ("live", integers),
    ("seen", integers),
    ("step", integers),
)
NEW: Final[tuple[Column, ...]] = (
    ("key", texts),
    ("kind", texts),
    ("queue", texts),
    ("priority", integers),
    ("created", integers),
    ("submission", texts),
    ("first", integers),
)
STATUS: Final[tuple[Column, ...]] = (
    ("state", texts),
    ("claimable", texts),
    ("ready", integers),
    ("held", booleans),
    ("sequence", integers),
    ("head", texts),
    ("updated", integers),
    ("status", byte_strings),
    ("lease_generation", integers),
    ("lease_expiry", integers),
    ("lease_step", integers),
    ("lease_group", texts),
    ("lease_epoch", integers),
)
TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "event": (
        ("event_item", integers),
        ("event_job", texts),
        ("event_version", integers),
        ("event_topic", texts),
        ("event_state", byte_strings),
        ("event_command", texts),
    ),
    "epoch": (("epoch_item", integers), ("epoch_namespace", texts), ("epoch_group", texts), ("epoch", integers)),
    "unit": (
        ("unit_item", integers),
        ("unit_job", texts),
        ("unit", texts),
        ("unit_receipt", byte_strings),
        ("unit_digest", texts),
        ("unit_generation", integers),
        ("unit_sequence", integers),
    ),
    "effect": (
        ("effect_item", integers),
        ("effect_namespace", texts),
        ("effect_owner", texts),
        ("effect_name", texts),
        ("effect_expected", integers),
        ("effect_value", byte_strings),
        ("effect_job", texts),
        ("effect_generation", integers),
    ),
    "body": (
        ("body_item", integers),
        ("body_job", texts),
        ("body_digest", texts),
        ("body_is_checkpoint", booleans),
        ("body_bytes", byte_strings),
    ),
    "dropped": (("dropped_item", integers), ("dropped_job", texts), ("dropped", texts)),
    "kept": (("kept_item", integers), ("kept_job", texts), ("kept_sequence", integers), ("kept", byte_strings)),
    "label": (
        ("label_item", integers),
        ("label_namespace", texts),
        ("label_name", texts),
        ("label_value", texts),
        ("label_job", texts),
        ("label_first", integers),
    ),
    "inherit": (
        ("inherit_item", integers),
        ("inherit_job", texts),
        ("inherit_source", texts),
        ("inherit_sequence", integers),
    ),
}

_COLUMNS: Final = (*ITEMS, *NEW, *STATUS, *(column for table in TABLES.values() for column in table))

_PLACES: Final = ", ".join(f"${place}" for place in range(1, len(_COLUMNS) + 2))

APPEND: Final = f"SELECT failed, positions FROM jobledger.append({_PLACES})"  # noqa: S608  # numbers only
"""In PostgreSQL's own form, for a raw cursor."""


def arguments_of(appends: Sequence[Append], *, is_locked: bool) -> list[Any]:
    """The arguments of a call for appends that touch no job, resource or submission twice."""
    tables: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
    new: list[tuple[Any, ...]] = []
    for place, append in enumerate(appends, start=1):
        first = len(tables["event"]) + 1
        new.append(_new(append, first))
        _add(tables, place, append)
        if append.guard.sequence == 0:
            _add_beginning(tables, place, append, first)
    is_any_new = any(append.guard.sequence == 0 for append in appends)
    arguments: list[Any] = [is_locked, *_encoded(ITEMS, [_item(append) for append in appends])]
    arguments += _encoded(NEW, new if is_any_new else [])
    arguments += _encoded(STATUS, [_status(append) for append in appends])
    for name, columns in TABLES.items():
        arguments += _encoded(columns, tables[name])
    return arguments


def waves(appends: Sequence[Append]) -> Iterable[list[Append]]:
    """Cut a batch where an item touches what an earlier one does, so that it sees what the earlier one wrote."""
    wave: list[Append] = []
    touched: set[tuple[str, ...]] = set()
    for append in appends:
        touches = set(_touches(append))
        if touched & touches:
            yield wave
            wave, touched = [], set()
        wave.append(append)
        touched |= touches
    if wave:
        yield wave


def _touches(append: Append) -> Iterable[tuple[str, ...]]:
    job = append.job
    yield ("job", job.id)
    if append.inherit is not None:
        yield ("job", append.inherit.source)
    if append.guard.sequence == 0 and job.submission is not None:
        yield ("submission", job.namespace, job.owner, job.submission)
    for effect in append.effects:
        yield ("resource", job.namespace, job.owner, effect.name)


def _encoded(columns: Sequence[Column], rows: Sequence[tuple[Any, ...]]) -> list[bytes | None]:
    """Rows as columns; a table without rows is ``NULL`` in all of them."""
    if not rows:
        return [None] * len(columns)
    return [encode(values) for (_, encode), values in zip(columns, zip(*rows, strict=True), strict=True)]


def _item(append: Append) -> tuple[Any, ...]:
    job, guard = append.job, append.guard
    seen = None if guard.seen_expiry is None else to_us(guard.seen_expiry)
    return job.id, job.namespace, job.owner, guard.sequence, guard.live_generation, seen, guard.step


def _new(append: Append, first: int) -> tuple[Any, ...]:
    job = append.job
    return job.key, job.kind, job.queue, job.priority, to_us(job.created_at), job.submission, first


def _status(append: Append) -> tuple[Any, ...]:
    job, lease = append.job, append.lease
    status = (
        job.state.value,
        append.claimable.value,
        to_us(job.ready_at),
        job.hold is not None,
        job.sequence,
        append.head,
        to_us(job.updated_at),
        encode_job(job) if append.records else b"",
    )
    if lease is None or job.attempt is None:
        return (*status, None, None, None, None, None)
    attempt = job.attempt
    return (*status, lease.generation, to_us(lease.expires_at), lease.step, attempt.group, attempt.epoch)


def _add(tables: dict[str, list[tuple[Any, ...]]], place: int, append: Append) -> None:
    """Add what hangs on one item."""
    for record in append.records:
        tables["event"].append((place, record.stream, record.sequence, record.topic, record.state, record.command_id))
    for group, epoch in append.guard.epochs:
        tables["epoch"].append((place, append.job.namespace, group, epoch))
    _add_values(tables, place, append)
    for kept in append.snapshots:
        tables["kept"].append((place, kept.id, kept.sequence, encode_job(kept)))


def _add_values(tables: dict[str, list[tuple[Any, ...]]], place: int, append: Append) -> None:
    """Add the receipt, the effects and the bodies that an item leaves behind, and the bodies that it drops."""
    job = append.job
    if append.unit is not None:
        unit = append.unit
        receipt = encode_body(unit.receipt), unit.receipt.digest
        tables["unit"].append((place, job.id, unit.unit, *receipt, unit.generation, unit.sequence))
    for effect in append.effects:
        resource = job.namespace, job.owner, effect.name, effect.expected_version, effect.value
        tables["effect"].append((place, *resource, job.id, effect.generation))
    for body in append.bodies:
        tables["body"].append((place, job.id, body.digest, body.is_checkpoint, body.encoded))
    for digest in append.dropped:
        tables["dropped"].append((place, job.id, digest))


def _add_beginning(tables: dict[str, list[tuple[Any, ...]]], place: int, append: Append, first: int) -> None:
    """Add what only a new job has; ``first`` is the place of its first event among those of the call."""
    job = append.job
    for name, value in job.labels.items():
        tables["label"].append((place, job.namespace, name, value, job.id, first))
    if append.inherit is not None:
        tables["inherit"].append((place, job.id, append.inherit.source, append.inherit.sequence))
