"""Appends as the commands make them, in short words."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from jobledger.domain.decisions.claiming import claimable
from jobledger.domain.events import Claimed, Created, EpochAdvanced, JobEvent, ProgressReported
from jobledger.domain.history import Cause, record, record_all
from jobledger.domain.job import fold
from jobledger.domain.lease import LeaseRow
from jobledger.domain.ports import Append, GroupRow, Guard, Loaded, Session, Storage
from jobledger.domain.values import Body, keep

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE: Final = timedelta(seconds=30)
PATIENCE: Final = timedelta(seconds=20)
NAMESPACE: Final = "n"


def body(value: Any) -> Body:
    """A stored value."""
    return keep("value", value).body


def created(job_id: str = "j", *, at: datetime = NOON, guard: Guard | None = None, **fields: Any) -> Append:
    """The append that makes a job; further fields are those of its Created."""
    values: dict[str, Any] = {
        "at": at,
        "job_id": job_id,
        "namespace": NAMESPACE,
        "owner": "o",
        "kind": "k",
        "payload": body({"x": 1.0}),
        "fingerprint": "f",
        "ready_at": at,
    }
    made = {name: fields.pop(name) for name in list(fields) if name in Created.__dataclass_fields__}
    return following(None, Created(**values | made), guard=guard, **fields)


def claimed(loaded: Loaded, *, at: datetime = NOON, lease: timedelta = LEASE, **fields: Any) -> Append:
    """The append that starts the next generation."""
    generation = loaded.job.generation + 1
    values: dict[str, Any] = {
        "at": at,
        "generation": generation,
        "worker": "w",
        "group": "g",
        "epoch": 1,
        "lease": lease,
        "expires_at": at + lease,
        "token_digest": "t",
    }
    fact = Claimed(**values | fields)
    return following(loaded, fact, lease=LeaseRow(generation, fact.expires_at))


def progressed(loaded: Loaded, done: int = 1, **fields: Any) -> Append:
    """The append by which the open attempt reports how far it is."""
    assert loaded.lease is not None
    fact = ProgressReported(
        at=loaded.job.updated_at,
        generation=loaded.job.generation,
        done=done,
        expires_at=loaded.lease.expires_at,
    )
    values: dict[str, Any] = {"lease": loaded.lease}
    return following(loaded, fact, **values | fields)


def renewed(loaded: Loaded, expires_at: datetime) -> Append:
    """The append of a renewal, which has no record."""
    assert loaded.lease is not None
    return following(loaded, lease=replace(loaded.lease, expires_at=expires_at))


def following(
    loaded: Loaded | None,
    *facts: JobEvent,
    guard: Guard | None = None,
    lease: LeaseRow | None = None,
    cause: Cause | None = None,
    **fields: Any,
) -> Append:
    """The append of some facts after a state."""
    before = loaded.job if loaded else None
    job = fold(facts, before)
    assert job is not None
    records = record_all(
        job.id,
        before.sequence if before else 0,
        list(facts),
        previous=loaded.head if loaded else "",
        cause=cause,
    )
    values: dict[str, Any] = {
        "guard": guard or Guard(sequence=before.sequence if before else 0),
        "job": job,
        "claimable": claimable(job),
        "records": records,
        "head": records[-1].digest if records else loaded.head if loaded else "",
        "lease": lease,
    }
    return Append(**values | fields)


def written(storage: Storage, *appends: Append) -> list[str | None]:
    """Append in a session of its own; answers what failed."""
    with storage.writing(PATIENCE) as session:
        return session.append(appends)


def loaded(storage: Storage, job_id: str = "j") -> Loaded:
    """A job that exists."""
    with storage.reading() as reader:
        return reader.load([job_id])[job_id]


def tampered(path: Path, *statements: str) -> None:
    """Change a SQLite file behind its store's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def claim(storage: Storage, job_id: str = "j", **fields: Any) -> Loaded:
    """Claim a job; answers it as it stands after."""
    assert written(storage, claimed(loaded(storage, job_id), **fields)) == [None]
    return loaded(storage, job_id)


def advance_epoch(storage: Storage, group: str = "g") -> None:
    """Move a group on by one epoch."""
    with storage.writing(PATIENCE) as session:
        row = session.group(NAMESPACE, group)
        fact = EpochAdvanced(at=NOON, epoch=row.epoch + 1, by="op", reason="deploy")
        stored = record(f"group:{NAMESPACE}:{group}", row.sequence + 1, fact, previous=row.head, cause=None)
        moved = GroupRow(row.epoch + 1, stored.sequence, stored.digest)
        assert session.append_group(NAMESPACE, group, row, moved, stored)


def candidates(
    storage: Storage, *, queues: list[str] | None = None, kinds: list[str] | None = None, limit: int = 100
) -> list[str]:
    """What a claim may take now."""
    with storage.writing(PATIENCE) as session:
        return _found(session, queues, kinds, limit)


def _found(session: Session, queues: list[str] | None, kinds: list[str] | None, limit: int) -> list[str]:
    return session.candidates(NAMESPACE, queues=["default"] if queues is None else queues, kinds=kinds, limit=limit)
