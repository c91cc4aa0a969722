"""An append as the arguments of one call: its items and what hangs on them, as columns beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, LiteralString

from jobledger.adapters.storage.postgresql_arrays import booleans, byte_strings, integer, integers, texts
from jobledger.adapters.storage.rows import encode_body, encode_job, to_us
from jobledger.adapters.storage.status_row import ready_at_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jobledger.domain.ports import Append

Column = tuple[str, "Callable[[Any], bytes]"]

# The arguments of jobledger.append(): its items; what new jobs, changed states and leases have beside each item; and
# the tables that name an item by its place.
TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "item": (
        ("job", texts),
        ("namespace", texts),
        ("owner", texts),
        ("guard", integers),
        ("live", integers),
        ("seen", integers),
        ("step", integers),
        ("sequence", integers),
        ("updated", integers),
    ),
    "new": (
        ("key", texts),
        ("kind", texts),
        ("queue", texts),
        ("priority", integers),
        ("created", integers),
        ("submission", texts),
        ("first", integers),
    ),
    "status": (
        ("state", texts),
        ("claimable", texts),
        ("ready", integers),
        ("held", booleans),
        ("head", texts),
        ("status", byte_strings),
    ),
    "lease": (
        ("lease_generation", integers),
        ("lease_expiry", integers),
        ("lease_step", integers),
        ("lease_group", texts),
        ("lease_epoch", integers),
    ),
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


@dataclass(slots=True)
class AppendCall:
    """A call of the function: its statement, in PostgreSQL's own form for a raw cursor, and the arguments."""

    statement: LiteralString
    arguments: list[Any]


def append_call(appends: Sequence[Append], *, is_locked: bool) -> AppendCall:
    """The call for appends that touch no job, resource or submission twice; it names only what some of them has."""
    if is_locked and len(appends) == 1 and _is_plain(appends[0]):
        [append] = appends
        return AppendCall(APPEND_ONE, _plain(append)) if append.guard.sequence else AppendCall(CREATE_ONE, _new(append))
    tables: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
    for place, append in enumerate(appends, start=1):
        if append.guard.sequence == 0:
            _add_beginning(tables, place, append, first=len(tables["event"]) + 1)
        _add(tables, place, append)
    tables["item"] = [_item(append) for append in appends]
    if any(append.guard.sequence == 0 for append in appends):
        tables["new"] = _firsts(appends)
    if tables["event"]:
        tables["status"] = [_status(append) for append in appends]
    if any(append.lease is not None for append in appends):
        tables["lease"] = [_lease(append) for append in appends]
    arguments: list[Any] = [is_locked]
    for name, rows in tables.items():
        if rows:
            columns = zip(*rows, strict=True)
            arguments += [encode(values) for (_, encode), values in zip(TABLES[name], columns, strict=True)]
    return AppendCall(_statement(tuple(name for name, rows in tables.items() if rows)), arguments)


APPEND_ONE: Final[LiteralString] = """
    SELECT ARRAY[jobledger.append_one(
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24
    )]
"""


CREATE_ONE: Final[LiteralString] = """
    SELECT ARRAY[jobledger.create_one(
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17
    )]
"""


def _is_plain(append: Append) -> bool:
    """Whether an append is what most calls are: one event at most, and nothing beside the job's state and lease."""
    if append.unit or append.effects or append.bodies or append.dropped or append.snapshots or append.inherit:
        return False
    if append.guard.sequence == 0:
        has_more = append.job.labels or append.job.submission or append.lease or append.guard.epochs
        return len(append.records) == 1 and not has_more
    return len(append.records) <= 1 and len(append.guard.epochs) <= 1


def _new(append: Append) -> list[Any]:
    """The arguments of the function for such an append of a new job."""
    job, [record] = append.job, append.records
    place = job.id, job.namespace, job.owner, job.key, job.kind, job.queue, integer(job.priority)
    event = integer(to_us(job.created_at)), record.topic, record.state, record.command_id
    return [*place, *_row(append), *event]


def _row(append: Append) -> tuple[Any, ...]:
    """What a status row has of a job's new state."""
    job = append.job
    ready = integer(ready_at_us(job, append.claimable))
    return str(job.state), str(append.claimable), ready, job.hold is not None, append.head, encode_job(job)


def _plain(append: Append) -> list[Any]:
    """The arguments of the function for such an append of a job that is there."""
    job, guard = append.job, append.guard
    seen = None if guard.seen_expiry is None else integer(to_us(guard.seen_expiry))
    expected = integer(guard.sequence), integer(guard.live_generation), seen, integer(guard.step)
    [(group, epoch)] = guard.epochs or [(None, None)]
    moment = integer(job.sequence), integer(to_us(job.updated_at)), group, integer(epoch)
    status: tuple[Any, ...] = (None,) * 9
    for record in append.records:
        status = *_row(append), record.topic, record.state, record.command_id
    generation, expiry, step, lease_group, lease_epoch = _lease(append)
    lease = integer(generation), integer(expiry), integer(step), lease_group, integer(lease_epoch)
    return [job.id, job.namespace, *expected, *moment, *status, *lease]


@cache
def _statement(names: tuple[str, ...]) -> LiteralString:
    """The statement with the arguments of these tables; there are as many as there are kinds of batches."""
    columns = ["is_locked", *[column for name in names for column, _ in TABLES[name]]]
    named = ", ".join(f"in_{column} => ${place}" for place, column in enumerate(columns, start=1))
    return f"SELECT failed FROM jobledger.append({named})"  # noqa: S608  # pyright: ignore[reportReturnType]  # names of ours


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


def _item(append: Append) -> tuple[Any, ...]:
    job, guard = append.job, append.guard
    seen = None if guard.seen_expiry is None else to_us(guard.seen_expiry)
    moment = job.sequence, to_us(job.updated_at)
    return job.id, job.namespace, job.owner, guard.sequence, guard.live_generation, seen, guard.step, *moment


def _firsts(appends: Sequence[Append]) -> list[tuple[Any, ...]]:
    """What only new jobs have; the last is the place of an item's first event among those of the call."""
    rows: list[tuple[Any, ...]] = []
    first = 1
    for append in appends:
        job = append.job
        rows.append((job.key, job.kind, job.queue, job.priority, to_us(job.created_at), job.submission, first))
        first += len(append.records)
    return rows


def _status(append: Append) -> tuple[Any, ...]:
    job = append.job
    encoded = encode_job(job) if append.records else b""
    claimable = str(append.claimable)
    return str(job.state), claimable, ready_at_us(job, append.claimable), job.hold is not None, append.head, encoded


def _lease(append: Append) -> tuple[Any, ...]:
    lease, attempt = append.lease, append.job.attempt
    if lease is None or attempt is None:
        return None, None, None, None, None
    return lease.generation, to_us(lease.expires_at), lease.step, attempt.group, attempt.epoch


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
