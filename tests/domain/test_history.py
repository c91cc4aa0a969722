"""Stored history: topics and shapes that never change, upcasting, and the digest chain over the stored bytes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from jobledger.domain import events, history, queue_events, schedule_events
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.events import Event, HoldPlaced, JobEvent
from jobledger.domain.history import TOPIC_OF, TOPICS, Cause, StoredRecord, read, record, record_all
from jobledger.domain.job import Job, state_before
from tests.cases.values import is_same
from tests.domain.given import (
    NOON,
    checkpointed,
    claimed,
    completed,
    created,
    hold_placed,
    hold_released,
    unit_recorded,
)
from tests.domain.recorded import ARCHIVED, CAUSE, EVENTS, LATER, PREVIOUS, STREAM
from tests.domain.strategies import TEXTS, any_of

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN: Final = Path(__file__).with_name("golden")

NAMES: Final = {
    "job.created": "Created",
    "job.claimed": "Claimed",
    "job.lease_renewed_late": "LeaseRenewedLate",
    "job.checkpointed": "Checkpointed",
    "job.unit_recorded": "UnitRecorded",
    "job.progress_reported": "ProgressReported",
    "job.interrupted": "Interrupted",
    "job.attempt_failed": "AttemptFailed",
    "job.paused": "Paused",
    "job.hold_placed": "HoldPlaced",
    "job.hold_released": "HoldReleased",
    "job.resumed": "Resumed",
    "job.retry_requested": "RetryRequested",
    "job.cancel_requested": "CancelRequested",
    "job.cancelled": "Cancelled",
    "job.completed": "Completed",
    "job.archived": "Archived",
    "job.erased": "Erased",
    "group.epoch_advanced": "EpochAdvanced",
    "schedule.created": "ScheduleCreated",
    "schedule.changed": "ScheduleChanged",
    "schedule.held": "ScheduleHeld",
    "schedule.released": "ScheduleReleased",
    "schedule.fired": "ScheduleFired",
    "schedule.skipped": "ScheduleSkipped",
    "schedule.removed": "ScheduleRemoved",
    "queue.limited": "QueueLimited",
    "queue.held": "QueueHeld",
    "queue.released": "QueueReleased",
}


def stored(topic: str, state: bytes, *, sequence: int = 3) -> StoredRecord:
    """A record as a store hands it over."""
    return StoredRecord(STREAM, sequence, topic, state)


def topic_of(name: str) -> str:
    """The topic of a golden record: its name, without the number of a later form."""
    return name.rstrip("0123456789").rstrip(".")


# Topics and golden records --------------------------------------------------------------------------------------------


def test_topics_are_exactly_the_published_ones() -> None:
    """They stand in stores for ever: none is renamed, none is used again, none is added in silence."""
    assert {topic: event.__name__ for topic, event in TOPICS.items()} == NAMES
    assert {event.__name__: topic for event, topic in TOPIC_OF.items()} == {
        name: topic for topic, name in NAMES.items()
    }


def test_every_event_has_a_topic() -> None:
    """An event without one could be decided and not be stored."""
    kinds = {
        kind
        for kind in (*vars(events).values(), *vars(queue_events).values(), *vars(schedule_events).values())
        if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
    }

    assert set(TOPIC_OF) == kinds


@pytest.mark.parametrize("name", [*EVENTS, *LATER])
def test_a_golden_record_is_read_as_the_event_that_it_was(name: str) -> None:
    """Bytes that were stored by an older version decode to equal events for ever. The files are never edited."""
    bytes_of_old = (GOLDEN / f"{name}.json").read_bytes()

    read_back = read(stored(topic_of(name), bytes_of_old))

    assert read_back.event == (EVENTS | LATER)[name]
    assert (read_back.cause, read_back.previous, read_back.command_id) == (CAUSE, PREVIOUS, "command-7")


def test_there_is_one_golden_record_for_each_topic_and_later_form() -> None:
    """A new topic brings its own, and so does a field that came later; none of them is ever left over."""
    assert set(NAMES) == set(EVENTS)
    assert {path.stem for path in GOLDEN.glob("*.json")} == {*EVENTS, *LATER}


@pytest.mark.parametrize("topic", NAMES)
def test_a_golden_record_leaves_no_field_out(topic: str) -> None:
    """A field that no golden record has could change its form unseen; the newest record has all of them."""
    forms = [name for name in (*EVENTS, *LATER) if topic_of(name) == topic]
    event = json.loads((GOLDEN / f"{forms[-1]}.json").read_bytes())["event"]

    assert set(event) == {field.name for field in fields(TOPICS[topic])}


def test_the_state_that_stands_for_a_history_is_read_as_it_was() -> None:
    """It is part of an event, and stays for ever: each of its fields is in a golden record, and keeps its form.

    A field that a state gains is in a further record of such an event, and has a default for the older ones.
    """
    golden = [name for name in LATER if topic_of(name) == "job.archived"]

    newest = json.loads((GOLDEN / f"{golden[-1]}.json").read_bytes())["event"]["state"]
    assert set(newest) == {field.name for field in fields(Job)}
    assert state_before(LATER["job.archived.2"]) == ARCHIVED  # type: ignore[arg-type]  # an Archived


def test_digests_of_golden_records_never_change() -> None:
    """The digest is over the stored bytes, place and topic; a new way to compute it would break every chain."""
    record_of_old = stored("job.hold_placed", (GOLDEN / "job.hold_placed.json").read_bytes())

    assert record_of_old.digest == "3ca80b8bee66c257c40340af839b2cf0e11a876912b3d74089349c27f691c20e"


# Reading back ---------------------------------------------------------------------------------------------------------


@for_all(st.data())
@pytest.mark.parametrize("topic", NAMES)
def test_any_event_is_read_back_equal(topic: str, data: st.DataObject) -> None:
    """Also what Python calls equal and writes differently: storing the read event gives the same bytes again."""
    event = data.draw(any_of(TOPICS[topic]))
    cause = data.draw(st.none() | st.builds(Cause, id=TEXTS, name=TEXTS, arguments=TEXTS))

    first = record(STREAM, 1, event, previous="p", cause=cause)
    back = read(first)

    assert back.event == event
    assert (back.cause, back.previous, back.topic, back.sequence) == (cause, "p", topic, 1)
    assert record(STREAM, 1, back.event, previous="p", cause=back.cause) == first


@pytest.mark.parametrize("topic", NAMES)
def test_a_recorded_event_shows_its_fields_as_plain_json(topic: str) -> None:
    """Faces and exports need no class of ours."""
    back = read(record(STREAM, 3, EVENTS[topic], previous=PREVIOUS, cause=CAUSE))

    assert is_same(json.loads(json.dumps(back.data)), back.data)
    assert set(back.data) == {field.name for field in fields(TOPICS[topic])}
    assert (back.name, back.at, back.job_id, back.digest) == (
        NAMES[topic],
        NOON,
        STREAM,
        record(STREAM, 3, EVENTS[topic], previous=PREVIOUS, cause=CAUSE).digest,
    )
    assert back.generation == getattr(EVENTS[topic], "generation", None)


def test_the_facts_of_one_command_share_their_cause() -> None:
    """A repeated command is answered from the events that it caused."""
    facts: list[JobEvent] = [hold_released(), hold_placed()]

    records = record_all(STREAM, 4, facts, previous="p", cause=CAUSE)

    assert [(each.sequence, each.command_id) for each in records] == [(5, "command-7"), (6, "command-7")]
    assert [read(each).cause for each in records] == [CAUSE, CAUSE]


# What cannot be read --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "topic", ["", "os:system", "this", "this:d", "job.Created", "job.created ", "jobledger.domain.events:Created"]
)
def test_an_unknown_topic_stops_the_job_and_imports_nothing(topic: str) -> None:
    """A stored name is never taken for the name of a module."""
    loaded = set(sys.modules)

    with pytest.raises(HistoryCorruptError) as refusal:
        read(stored(topic, (GOLDEN / "job.hold_placed.json").read_bytes()))

    assert (refusal.value.job_id, refusal.value.sequence) == (STREAM, 3)
    assert repr(topic) in refusal.value.problem
    assert set(sys.modules) == loaded
    assert "this" not in sys.modules


HOLD: Final = {"at": "2026-01-01T12:00:00Z", "by": "ann", "reason": "look"}

GARBAGE: Final[dict[str, bytes]] = {
    "nothing": b"",
    "half": b'{"event":{"at":"2026-01-01T12:0',
    "no utf-8": b'{"event":{"at":"2026-01-01T12:00:00Z","by":"\xff","reason":"r"}}',
    "null": b"null",
    "number": b"1",
    "list": b"[]",
    "text": b'"event"',
    "no event": b"{}",
    "event is a number": b'{"event":1}',
    "event is null": b'{"event":null}',
    "event is a list": b'{"event":[]}',
    "deep": b"[" * 100_000,
    "deep event": b'{"event":' * 100_000,
    "field missing": json.dumps({"event": {"at": HOLD["at"], "by": "ann"}}).encode(),
    "field of another type": json.dumps({"event": HOLD | {"by": 1}}).encode(),
    "no instant": json.dumps({"event": HOLD | {"at": "noon"}}).encode(),
    "field too many": json.dumps({"event": HOLD | {"colour": "red"}}).encode(),
    "envelope too many": json.dumps({"event": HOLD, "colour": "red"}).encode(),
    "cause of another shape": json.dumps({"event": HOLD, "cause": "c"}).encode(),
    "previous of another type": json.dumps({"event": HOLD, "previous": 1}).encode(),
}


@pytest.mark.parametrize("state", GARBAGE.values(), ids=GARBAGE)
def test_bytes_that_are_no_event_stop_the_job(state: bytes) -> None:
    """The refusal names job and sequence, and calls for an auditor."""
    with pytest.raises(HistoryCorruptError) as refusal:
        read(stored("job.hold_placed", state))

    assert (refusal.value.job_id, refusal.value.sequence) == (STREAM, 3)
    assert "auditor" in str(refusal.value)


@pytest.mark.parametrize("version", [2, 99, 0, -1, "1", 1.5, None, True], ids=repr)
def test_a_version_that_nobody_knows_stops_the_job(version: object) -> None:
    """A newer shape is not guessed at, even where its fields look the same."""
    state = json.dumps({"version": version, "event": HOLD}).encode()

    with pytest.raises(HistoryCorruptError):
        read(stored("job.hold_placed", state))


def test_a_record_without_a_version_is_of_the_first() -> None:
    """The control: the same bytes, with nothing wrong."""
    back = read(stored("job.hold_placed", json.dumps({"event": HOLD}).encode()))

    assert back.event == HoldPlaced(at=NOON, by="ann", reason="look")


# Upcasting ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def upcasters(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]]]:
    """The registry, which is put back after the test."""
    with monkeypatch.context():
        before = dict(history.UPCASTERS)
        _forget()
        yield history.UPCASTERS
        history.UPCASTERS.clear()
        history.UPCASTERS.update(before)
        _forget()


def _forget() -> None:
    """Let the registry be read anew, where its versions were remembered."""
    forget = getattr(history.version_of, "cache_clear", None)
    if forget is not None:
        forget()


Registry = dict[tuple[str, int], Any]

OLD: Final = json.dumps({"event": {"at": HOLD["at"], "who": "ann", "reason": "look"}}).encode()


def test_an_old_shape_is_read_through_its_upcasters(upcasters: Registry) -> None:
    """Each one leads to the next version; what is stored stays as it is, and so does its digest."""
    upcasters["job.hold_placed", 1] = lambda event: {**event, "name": event["who"]}
    upcasters["job.hold_placed", 2] = lambda event: {"at": event["at"], "by": event["name"], "reason": event["reason"]}

    back = read(stored("job.hold_placed", OLD))

    assert back.event == HoldPlaced(at=NOON, by="ann", reason="look")
    assert back.digest == stored("job.hold_placed", OLD).digest


def test_a_shape_in_between_takes_the_rest_of_the_way(upcasters: Registry) -> None:
    """An upcaster sees only its own version."""
    upcasters["job.hold_placed", 1] = lambda _: pytest.fail("this is no event of version 1")
    upcasters["job.hold_placed", 2] = lambda event: {"at": event["at"], "by": event["name"], "reason": event["reason"]}
    state = json.dumps({"version": 2, "event": {"at": HOLD["at"], "name": "ann", "reason": "look"}}).encode()

    assert read(stored("job.hold_placed", state)).event == HoldPlaced(at=NOON, by="ann", reason="look")


def test_new_events_are_stored_in_the_newest_version(upcasters: Registry) -> None:
    """And are read back without any upcaster being asked."""
    upcasters["job.hold_placed", 1] = lambda _: pytest.fail("this is no event of version 1")

    new = record(STREAM, 1, hold_placed(), previous="", cause=None)

    assert json.loads(new.state)["version"] == 2
    assert read(new).event == hold_placed()


def test_an_upcaster_touches_no_other_topic(upcasters: Registry) -> None:
    """Each topic has versions of its own."""
    upcasters["job.hold_placed", 1] = lambda event: event

    assert json.loads(record(STREAM, 1, hold_released(), previous="", cause=None).state).get("version", 1) == 1


@pytest.mark.parametrize("state", GARBAGE.values(), ids=GARBAGE)
def test_garbage_stops_the_job_also_where_there_are_upcasters(state: bytes, upcasters: Registry) -> None:
    """An upcaster may take for granted what garbage does not have."""
    upcasters["job.hold_placed", 1] = lambda event: event | {"by": event.pop("by")}

    with pytest.raises(HistoryCorruptError):
        read(stored("job.hold_placed", state))


@pytest.mark.parametrize("version", [3, 0, -1, "1", 1.5, None], ids=repr)
def test_an_unknown_version_stops_the_job_also_where_there_are_upcasters(version: object, upcasters: Registry) -> None:
    """There is no way from it to the newest shape."""
    upcasters["job.hold_placed", 1] = lambda event: event

    with pytest.raises(HistoryCorruptError):
        read(stored("job.hold_placed", json.dumps({"version": version, "event": HOLD}).encode()))


@pytest.mark.parametrize("problem", [KeyError("who"), AttributeError("who"), IndexError(0)], ids=repr)
def test_an_upcaster_that_fails_stops_the_job(problem: Exception, upcasters: Registry) -> None:
    """Whatever it stumbles over: the reader is told which record it was."""

    def stumble(_: dict[str, Any]) -> dict[str, Any]:
        raise problem

    upcasters["job.hold_placed", 1] = stumble

    with pytest.raises(HistoryCorruptError) as refusal:
        read(stored("job.hold_placed", OLD))

    assert (refusal.value.job_id, refusal.value.sequence) == (STREAM, 3)


# The chain ------------------------------------------------------------------------------------------------------------

FACTS: Final[list[JobEvent]] = [
    created(payload={"n": 1}),
    claimed(1),
    checkpointed(1, 4),
    unit_recorded(1),
    hold_placed(),
    hold_released(),
    completed(1),
]
CHAIN: Final = record_all(STREAM, 0, list(FACTS), previous="", cause=None)
HEAD: Final = CHAIN[-1].digest


def is_whole(records: list[StoredRecord], head: str) -> bool:
    """What an auditor checks: every record in its place, each with the digest before it, the last being the head."""
    previous = ""
    for number, each in enumerate(records, start=1):
        try:
            back = read(each)
        except HistoryCorruptError:
            return False
        if (each.sequence, back.previous) != (number, previous):
            return False
        previous = each.digest
    return previous == head


def test_an_untouched_chain_is_whole() -> None:
    """The control for all that follows."""
    assert is_whole(list(CHAIN), HEAD)


@for_all(st.data())
def test_any_changed_byte_is_seen(data: st.DataObject) -> None:
    """In any record, at any place, into anything."""
    records = list(CHAIN)
    number = data.draw(st.integers(0, len(records) - 1))
    state = records[number].state
    place = data.draw(st.integers(0, len(state) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != state[place]))
    records[number] = replace(records[number], state=state[:place] + bytes([byte]) + state[place + 1 :])

    assert records[number].digest != CHAIN[number].digest
    assert not is_whole(records, HEAD)


@for_all(st.data())
def test_any_dropped_record_is_seen(data: st.DataObject) -> None:
    """Also when those behind it are numbered anew, also at the end."""
    number = data.draw(st.integers(0, len(CHAIN) - 1))
    kept = [each for each in CHAIN if each is not CHAIN[number]]

    assert not is_whole(kept, HEAD)
    assert not is_whole([replace(each, sequence=place) for place, each in enumerate(kept, start=1)], HEAD)


@for_all(st.permutations(range(len(CHAIN))).filter(lambda order: order != sorted(order)))
def test_any_other_order_is_seen(order: list[int]) -> None:
    """Also when the places are numbered anew."""
    moved = [CHAIN[place] for place in order]

    assert not is_whole(moved, HEAD)
    assert not is_whole([replace(each, sequence=place) for place, each in enumerate(moved, start=1)], HEAD)


@pytest.mark.parametrize("number", range(len(CHAIN)))
@pytest.mark.parametrize(
    "change",
    [{"stream": "another"}, {"sequence": 99}, {"topic": "job.resumed"}],
    ids=["stream", "sequence", "topic"],
)
def test_place_and_topic_are_part_of_the_digest(number: int, change: dict[str, Any]) -> None:
    """The same bytes elsewhere, or under another name, are another record."""
    assert replace(CHAIN[number], **change).digest != CHAIN[number].digest


def test_a_record_cannot_be_moved_between_its_fields() -> None:
    """Where one field ends and the next begins is part of what is hashed."""
    assert StoredRecord("a", 11, "t", b"x").digest != StoredRecord("a1", 1, "t", b"x").digest
    assert StoredRecord("a", 1, "tx", b"").digest != StoredRecord("a", 1, "t", b"x").digest


def test_a_rewritten_history_has_another_head() -> None:
    """Who changes the first event and chains all the others anew is found out by the head that was kept."""
    forged = record_all(STREAM, 0, [created(payload={"n": 2}), *FACTS[1:]], previous="", cause=None)

    assert is_whole(list(forged), forged[-1].digest)
    assert not is_whole(list(forged), HEAD)
