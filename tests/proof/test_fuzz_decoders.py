"""Whatever stands in a store or comes from outside: it is read back equal, or refused with a typed error.

Never another exception, never an import, never a hang. ``JOBLEDGER_EXAMPLES=20000`` looks for longer.
"""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from eventsourcing.persistence import JSONTranscoder, StoredEvent
from hypothesis import HealthCheck, settings
from hypothesis import given as for_all
from hypothesis import strategies as st

from jobledger import Effect, Fence, JobledgerError, JobRequest, JobStore, ManualClock, Policy, Schedule
from jobledger.adapters.storage.mapping import LedgerMapper
from jobledger.adapters.storage.rows import decode_body, decode_job, encode_body, encode_job
from jobledger.domain.bounds import parse_json
from jobledger.domain.errors import HistoryCorruptError, InvalidError, UnknownCursorError
from jobledger.domain.history import TOPICS, StoredRecord, read, record
from jobledger.domain.job import Job
from jobledger.domain.replaying import advance
from jobledger.domain.values import encode_json
from jobledger.projections.cursors import Cursors
from jobledger.projections.windows import position_of
from tests.cases.values import is_same
from tests.domain.given import claimed, created, fence, replay
from tests.domain.recorded import STREAM
from tests.domain.strategies import JSON, TEXTS
from tests.proof.hostile import BYTES, FRAGMENTS, hurt, hurt_value

GOLDEN: Final = {path.stem: path.read_bytes() for path in (Path(__file__).parents[1] / "domain" / "golden").iterdir()}
NOON: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)


@contextmanager
def importing_nothing() -> Generator[None]:
    """Require that no module is loaded by what stands in a store, but for the codecs that JSON may be written in."""
    before = set(sys.modules)
    yield
    loaded = {name for name in set(sys.modules) - before if not name.startswith("encodings.")}
    assert not loaded


# Records --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", GOLDEN)
@for_all(data=st.data())
def test_a_hurt_record_is_read_whole_or_refused(topic: str, data: st.DataObject) -> None:
    """What is read can be stored again and is read back equal; a job can go on from it, or is stopped."""
    whole = GOLDEN[topic]
    state = data.draw(hurt(whole) | hurt_value(whole))
    stored = StoredRecord(STREAM, 3, topic, state)

    with importing_nothing():
        try:
            found = read(stored)
        except HistoryCorruptError:
            return

    again = record(STREAM, 3, found.event, previous=found.previous, cause=found.cause)
    assert is_same_event(read(again).event, found.event)
    assert encode_json(found.data)
    require_typed(lambda: folded(found))


def is_same_event(one: object, other: object) -> bool:
    """Whether two events are equal to the type of each number."""
    return one == other and repr(one) == repr(other)


def folded(found: Any) -> Job:
    """The job after this fact, with its limits."""
    job = advance(replay([created(), claimed(1)]), found)
    assert job.policy.lease
    return job


@for_all(data=st.data())
def test_the_librarys_mapper_reads_what_we_read(data: st.DataObject) -> None:
    """Its events are ours, and their bytes stay as they are stored."""
    topic = data.draw(st.sampled_from(sorted(GOLDEN)))
    state = data.draw(st.just(GOLDEN[topic]) | hurt(GOLDEN[topic]) | BYTES)
    mapper = LedgerMapper(JSONTranscoder())
    stored = StoredEvent(STREAM, 3, topic, state)
    try:
        found = mapper.to_domain_event(stored)
    except HistoryCorruptError:
        return

    assert is_same_event(found.recorded.event, read(StoredRecord(STREAM, 3, topic, state)).event)
    assert mapper.to_stored_event(found) == stored


@for_all(
    topic=st.sampled_from([*TOPICS, "os:system", "", "job.created.v2"]) | TEXTS, state=BYTES | st.binary(max_size=400)
)
def test_any_bytes_under_any_topic_are_read_or_refused(topic: str, state: bytes) -> None:
    with importing_nothing():
        require_typed(lambda: read(StoredRecord(STREAM, 1, topic, state)), HistoryCorruptError)


def require_typed(call: Callable[[], object], error: type[JobledgerError] = JobledgerError) -> None:
    """Require an answer or a typed error; any other exception goes on its way and fails the test."""
    with suppress(error):
        call()


def test_an_untyped_error_is_noticed() -> None:
    """The control: what these tests stand on does fail."""
    with pytest.raises(ZeroDivisionError):
        require_typed(lambda: 1 // 0)
    with pytest.raises(AssertionError), importing_nothing():
        sys.modules["nobody.imported.this"] = sys
    del sys.modules["nobody.imported.this"]


# Rows and bodies ------------------------------------------------------------------------------------------------------

KEPT: Final = encode_job(replay([created(policy=Policy(lease=5)), claimed(1)]))


@for_all(encoded=hurt(KEPT) | hurt_value(KEPT) | BYTES)
def test_a_hurt_state_is_read_whole_or_refused(encoded: bytes) -> None:
    """A state that is read is one that could have been stored; its limits are limits, or the job is stopped."""
    job_id, sequence = replay([created()]).id, 2
    try:
        job = decode_job(job_id, sequence, encoded)
    except HistoryCorruptError:
        return

    assert decode_job(job_id, sequence, encode_job(job)) == job
    require_typed(lambda: job.policy)


@for_all(encoded=hurt(b'{"size":11,"value":{"rows":10}}') | hurt_value(b'{"size":11,"value":{"rows":10}}') | BYTES)
def test_a_hurt_body_is_read_whole_or_refused(encoded: bytes) -> None:
    try:
        body = decode_body("j", 1, encoded)
    except HistoryCorruptError:
        return

    assert decode_body("j", 1, encode_body(body)) == body


@for_all(
    changes=st.dictionaries(
        st.sampled_from([*Policy.model_fields]) | TEXTS, JSON | st.sampled_from(["PT5S", "P1D"]), max_size=4
    )
)
def test_hurt_changes_of_a_policy_are_refused_by_name(changes: dict[str, Any]) -> None:
    """What is accepted is a policy that is rebuilt equal from its own changes."""
    try:
        policy = Policy.of_changes(changes)
    except InvalidError:
        return

    assert Policy.of_changes(policy.changes()) == policy


# Texts from outside ---------------------------------------------------------------------------------------------------


@for_all(text=st.text(max_size=80) | hurt(fence(7).to_token().encode()).map(lambda raw: raw.decode("latin-1")))
def test_a_hurt_fence_is_no_fence_or_that_fence(text: str) -> None:
    try:
        found = Fence.from_token(text)
    except InvalidError:
        return

    assert Fence.from_token(found.to_token()) == found


@for_all(parts=JSON | st.sampled_from(FRAGMENTS))
def test_any_json_as_a_fence_is_refused(parts: Any) -> None:
    raw = parts if isinstance(parts, bytes) else json.dumps(parts).encode()

    require_typed(lambda: Fence.from_token(base64.urlsafe_b64encode(raw).decode()), InvalidError)


CURSORS = Cursors(b"a secret", "default")


@for_all(
    text=st.text(max_size=60)
    | hurt(CURSORS.give_position("feed", 12_345).encode()).map(lambda raw: raw.decode("latin-1"))
)
def test_a_hurt_cursor_is_no_cursor_or_that_place(text: str) -> None:
    """Whatever else is decoded, it is refused unless it is signed; what is signed is the place that was given."""
    try:
        position = CURSORS.position("feed", text)
    except UnknownCursorError:
        return

    assert position == position_of(text) == 12_345


@for_all(place=JSON | st.sampled_from(FRAGMENTS) | st.builds(lambda at: {"v": 2, "of": "feed", "at": at}, JSON))
def test_any_json_as_a_cursor_is_refused(place: Any) -> None:
    """With a signature of nobody, or with the right one."""
    raw = place if isinstance(place, bytes) else json.dumps(place).encode()
    text = base64.urlsafe_b64encode(b"m" * 16 + raw).decode().rstrip("=")

    require_typed(lambda: position_of(text), InvalidError)
    with pytest.raises(UnknownCursorError):
        CURSORS.position("feed", text)


@for_all(place=st.none() | st.integers() | st.text() | st.dictionaries(st.text(max_size=2), st.integers()))
def test_what_is_signed_is_read_back_by_its_own_list_alone(place: Any) -> None:
    text = CURSORS.give("workers busy", place)

    assert CURSORS.place("workers busy", text) == place
    for cursors, of in (
        (CURSORS, "feed"),
        (Cursors(b"a secret", "other"), "workers busy"),
        (Cursors(b"another", "default"), "workers busy"),
    ):
        with pytest.raises(UnknownCursorError):
            cursors.place(of, text)


@for_all(text=BYTES | hurt(b'{"a":[1,2.5,"x",null,true,{"b":"\\u00e9"}]}') | JSON.map(encode_json))
def test_json_from_outside_is_read_exactly_or_refused(text: bytes) -> None:
    try:
        value = parse_json("payload", text)
    except InvalidError:
        return

    assert is_same(parse_json("payload", encode_json(value)), value)


# Tables ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ledger:
    """A file with something in every table, what can be hurt in it, and whom to ask."""

    path: Path
    columns: Mapping[str, list[str]]
    job_id: str
    fence: str


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A store in a file, closed."""
    path = tmp_path_factory.mktemp("fuzz") / "base.db"
    clock = ManualClock(NOON - timedelta(minutes=2))
    with JobStore.open(f"sqlite:///{path}", clock=clock, policies={"narrow": Policy(window_events_max=20)}) as store:
        _schedule(store)
        clock.advance(timedelta(minutes=2))
        request = JobRequest(
            owner="team",
            kind="index",
            key="k",
            payload={"big": "p" * 5_000},
            labels={"a": "b"},
            submission="s",
            policy="narrow",
        )
        lease = store.claim(store.create(request).job_id, worker="w")
        store.record_unit(lease.fence, "u", {"big": "r" * 5_000})
        store.record_unit(lease.fence, "v", 1)
        effect = Effect(resource="r", value={"n": 1}, expected_version=0)
        store.checkpoint(lease.fence, {"big": "s" * 5_000}, effects=[effect])
        for done in range(40):
            store.report_progress(lease.fence, done, 40)
        store.hold(lease.job_id, by="ann", reason="to look")
        store.advance_epoch("other", by="ann", reason="a new version")
        store.create(JobRequest(owner="team", kind="index", key="k2", payload=1))
        store.run_projections()
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA journal_mode = DELETE")  # one file, which can be copied
        named = file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        tables = [
            name for (name,) in named if not name.startswith("sqlite_") and name not in ("tracking", "schema_version")
        ]
        filled = [table for table in tables if file.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()]  # noqa: S608  # from the schema
        columns = {table: [row[1] for row in file.execute(f"PRAGMA table_info({table})")] for table in filled}
    file.close()
    return Ledger(path, columns, lease.job_id, lease.fence.to_token())


def _schedule(store: JobStore) -> None:
    """A schedule that is due when its file is looked at, with a state that is kept for time travel."""
    operator: Any = {"by": "ann", "reason": "to look"}
    store.schedules.put(Schedule("s", "index", every=60, jitter=30, overlap="queue", payload={"n": 1}), by="ann")
    store.schedules.trigger("s", **operator)
    store.request_cancel(store.schedules.get("s").last_job_id or "", **operator)
    for _ in range(50):
        store.schedules.hold("s", **operator)
        store.schedules.release("s", **operator)


def questions(store: JobStore, ledger: Ledger) -> dict[str, Callable[[], object]]:
    """Everything that a public call reads from the tables, reads before writes."""
    job_id, own = ledger.job_id, Fence.from_token(ledger.fence)
    same = JobRequest(owner="team", kind="index", key="k", payload={"big": "p" * 5_000}, submission="s")
    return {
        "status": lambda: store.status(job_id),
        "status at a sequence": lambda: store.status(job_id, at=30),
        "status at an instant": lambda: store.status(job_id, at=NOON),
        "find": lambda: store.find("team", "k"),
        "events": lambda: store.events(job_id, after=0, limit=1_000),
        "history": lambda: list(store.history(job_id)),
        "timeline": lambda: store.timeline(job_id),
        "units": lambda: store.units(job_id),
        "unit": lambda: store.unit(job_id, "u"),
        "controls": lambda: store.controls(job_id),
        "jobs": lambda: store.jobs(label=("a", "b")),
        "counts": store.counts,
        "feed": lambda: store.feed(limit=1_000),
        "resource": lambda: store.resource("team", "r"),
        "verify": lambda: list(store.verify_all()),
        "renew": lambda: store.renew(own),
        "record_unit": lambda: store.record_unit(own, "u", {"big": "r" * 5_000}),
        "checkpoint": lambda: store.checkpoint(own, 1, effects=[Effect(resource="r", value=2, expected_version=1)]),
        "advance_epoch": lambda: store.advance_epoch("other", by="bob", reason="again"),
        "claim_next": lambda: store.claim_next(worker="w2"),
        "recover": lambda: store.recover(job_id),
        "recover_expired": store.recover_expired,
        "release_hold": lambda: store.release_hold(job_id, by="ann", reason="looked"),
        "create": lambda: store.create(same),
        "complete": lambda: store.complete(own, result=1),
        "rebuild": lambda: store.rebuild("status"),
        "schedule": lambda: store.schedules.get("s"),
        "schedule at a sequence": lambda: store.schedules.get("s", at=101),
        "schedules": store.schedules.list,
        "schedule's events": lambda: list(store.schedules.history("s")),
        "upcoming": lambda: store.schedules.upcoming("s"),
        "next due": store.schedules.next_due,
        "verify a schedule": lambda: store.schedules.verify("s"),
        "trigger": lambda: store.schedules.trigger("s", by="ann", reason="now"),
        "fire": store.schedules.fire_due,
        "put": lambda: store.schedules.put(Schedule("s", "index", every=90), by="ann"),
        "rebuild schedules": store.schedules.rebuild,
        "totals": store.totals,
        "paces": store.paces,
        "workers": store.workers,
        "who holds": lambda: store.workers(holding=True),
        "operators": store.operators,
        "projections": store.projections,
        "fold": store.run_projections,
        "release a projection": lambda: store.release_projection("totals"),
        "rebuild a projection": lambda: store.rebuild("workers"),
    }


CELLS: Final = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | TEXTS
    | BYTES
    | st.sampled_from([2**62, -1, 0, 1, "when_dead", "queued", "2026-01-01", b"{}"])
)


@pytest.mark.timeout(400)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@for_all(data=st.data())
def test_a_hurt_table_is_read_or_named(data: st.DataObject, ledger: Ledger, tmp_path: Path) -> None:
    """Somebody wrote into one column of one table: each call answers, or refuses with a typed error."""
    table = data.draw(st.sampled_from(sorted(ledger.columns)))
    column = data.draw(st.sampled_from(ledger.columns[table]))
    with sqlite3.connect(ledger.path) as file:
        [original] = file.execute(f"SELECT {column} FROM {table} LIMIT 1").fetchone()  # noqa: S608  # from the schema
    file.close()
    cell = data.draw(CELLS | (hurt(original) | hurt_value(original) if isinstance(original, bytes) else st.nothing()))

    ask_everything(ledger, tmp_path, table, column, cell)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("cell", ["text", 2**62, b"\x00\xff"], ids=["text", "number", "bytes"])
def test_each_column_may_be_hurt(ledger: Ledger, tmp_path: Path, cell: object) -> None:
    """The same for every column, whatever chance looks at."""
    for table, columns in ledger.columns.items():
        for column in columns:
            ask_everything(ledger, tmp_path, table, column, cell)


@pytest.mark.parametrize("cell", [2**62, -1, "text", "", b"\x00\xff", 1e300], ids=repr)
@pytest.mark.parametrize("column", ["number", "name", "digest", "applied_at_us"])
def test_a_hurt_list_of_schema_steps_is_named(ledger: Ledger, tmp_path: Path, column: str, cell: object) -> None:
    """Neither a reader nor a migration takes the file for another one than it is."""
    copy = tmp_path / "copy.db"
    shutil.copyfile(ledger.path, copy)
    with suppress(sqlite3.IntegrityError), closing(sqlite3.connect(copy)) as file, file:
        file.execute(f"UPDATE schema_version SET {column} = ?", (cell,))  # noqa: S608  # a name from above
    for migrate in (False, True):
        with importing_nothing():
            require_typed(lambda given=migrate: asked_once(copy, migrate=given))  # type: ignore[misc]  # bound at once


def asked_once(path: Path, *, migrate: bool) -> object:
    """An answer of a store that is opened for it."""
    with JobStore.open(f"sqlite:///{path}", clock=ManualClock(NOON), migrate=migrate) as store:
        return store.find("team", "k")


def ask_everything(ledger: Ledger, folder: Path, table: str, column: str, cell: object) -> None:
    """Require an answer or a typed error of every call, on a copy in which a column holds this."""
    statement = f"UPDATE {table} SET {column} = ?"  # noqa: S608  # names from the schema
    with suppress(sqlite3.IntegrityError, sqlite3.DataError), hurt_copy(ledger, folder, statement, cell) as store:
        for ask in questions(store, ledger).values():
            with importing_nothing():
                require_typed(ask)


@pytest.mark.parametrize("how", ["rerun", "fork"])
def test_a_payload_that_is_gone_is_named_when_its_job_runs_again(how: str, ledger: Ledger, tmp_path: Path) -> None:
    with hurt_copy(ledger, tmp_path, "DELETE FROM job_body") as store:
        if how == "rerun":
            store.complete(Fence.from_token(ledger.fence), result=1)
            require_typed(lambda: store.rerun(ledger.job_id, key="again", by="ann", reason="again"))
        else:
            require_typed(lambda: store.fork(ledger.job_id, at_sequence=2, key="again", by="ann", reason="again"))


def test_a_state_that_nobody_knows_is_named_by_the_counts(ledger: Ledger, tmp_path: Path) -> None:
    with hurt_copy(ledger, tmp_path, "UPDATE job_status SET state = 'lost'") as store:
        require_typed(store.counts)


@contextmanager
def hurt_copy(ledger: Ledger, folder: Path, statement: str, *values: object) -> Generator[JobStore]:
    """A store on a copy of the file in which somebody executed a statement."""
    copy = folder / "copy.db"
    for left in folder.glob("copy.db*"):
        left.unlink()
    shutil.copyfile(ledger.path, copy)
    with closing(sqlite3.connect(copy)) as file, file:
        file.execute(statement, values)
    with JobStore.open(f"sqlite:///{copy}", clock=ManualClock(NOON)) as store:
        yield store
