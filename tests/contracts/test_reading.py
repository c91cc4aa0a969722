"""Reading: windows that never skip, time travel, pages, the feed, totals."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobledger import FeedEntry, JobStore, ManualClock, State
from jobledger.errors import UnknownCursorError
from tests.contracts.jobs import created, refuses, running, topics


def _busy(store: JobStore, reports: int, **request: object) -> str:
    """A job with ``reports`` progress events behind its creation and claim."""
    lease = running(store, **request)  # type: ignore[arg-type]  # request fields
    for number in range(reports):
        store.report_progress(lease.fence, number)
    return lease.job_id


def test_a_window_is_a_contiguous_slice_with_a_cursor(store: JobStore) -> None:
    """Walking by any page size gives the stream, without a gap or a repeat."""
    job_id = _busy(store, 17)

    for size in (1, 2, 7, 19, 100):
        seen, after = [], 0
        while (window := store.events(job_id, after=after, limit=size)).events:
            assert window.next_after == after + len(window.events)
            seen += [event.sequence for event in window.events]
            after = window.next_after
        assert seen == list(range(1, 20))
        assert window.head == 19


def test_a_cursor_that_is_too_old_gets_a_snapshot_and_the_events_after_it(store: JobStore) -> None:
    """Failure boundary: event cursor too old. The gap is explicit, and snapshot and events fold to the head."""
    job_id = _busy(store, 60, policy="narrow")

    window = store.events(job_id, after=0, limit=1_000)

    assert window.head == 62
    assert window.floor <= 62 - 20 + 1
    assert window.floor > 62 - 20 - 2
    assert window.snapshot == store.status(job_id, at=window.floor - 1)
    assert window.events[0].sequence == window.floor
    assert len(window.events) <= 20
    last = store.events(job_id, after=window.next_after)
    assert last.snapshot is None
    assert last.next_after == 62


def test_at_the_floor_there_is_no_gap_to_tell_of(store: JobStore) -> None:
    """The cursor ``floor - 1`` still sees everything; one before it is told of the gap."""
    job_id = _busy(store, 60, policy="narrow")
    floor = store.events(job_id).floor

    assert store.events(job_id, after=floor - 1).snapshot is None
    assert store.events(job_id, after=floor - 2).snapshot is not None


def test_a_cursor_beyond_the_head_is_refused(store: JobStore) -> None:
    """Nobody gets an empty answer for a place that the history never had."""
    job_id = created(store)

    assert store.events(job_id, after=1).events == ()
    refuses("unknown_sequence", store.events, job_id, after=2)
    refuses("invalid_request", store.events, job_id, after=-1)
    refuses("invalid_request", store.events, job_id, limit=0)


def test_status_at_a_sequence_is_the_status_that_it_was(store: JobStore, clock: ManualClock) -> None:
    """Time travel to any sequence shows what was shown then, but for the expiry that renewals moved."""
    job_id = created(store, policy="narrow")
    then = [store.status(job_id)]
    lease = store.claim(job_id, worker="w")
    then.append(store.status(job_id))
    for number in range(40):
        clock.advance(timedelta(milliseconds=7))
        store.checkpoint(lease.fence, number)
        then.append(store.status(job_id))
    store.complete(lease.fence, result="end")
    then.append(store.status(job_id))

    for sequence, status in enumerate(then, start=1):
        assert store.status(job_id, at=sequence) == status
    refuses("unknown_sequence", store.status, job_id, at=0)
    refuses("unknown_sequence", store.status, job_id, at=len(then) + 1)


def test_status_at_an_instant_is_the_last_one_before_it(store: JobStore, clock: ManualClock) -> None:
    """An instant between two events belongs to the first; before the creation there is nothing."""
    start = clock.now()
    lease = running(store)
    clock.advance(timedelta(seconds=5))
    store.checkpoint(lease.fence, 1)
    clock.advance(timedelta(seconds=5))
    store.checkpoint(lease.fence, 2)

    assert store.status(lease.job_id, at=start).sequence == 2
    assert store.status(lease.job_id, at=start + timedelta(seconds=7)).checkpoint == 1
    assert store.status(lease.job_id, at=start + timedelta(days=1)).checkpoint == 2
    refuses("unknown_sequence", store.status, lease.job_id, at=start - timedelta(seconds=1))
    refuses("invalid_request", store.status, lease.job_id, at=datetime(2026, 6, 1))  # noqa: DTZ001  # no zone is the point
    assert store.status(lease.job_id, at=datetime(2030, 1, 1, tzinfo=UTC)).sequence == 4


def test_jobs_are_listed_newest_first_in_pages(store: JobStore) -> None:
    """The cursor goes on behind the last one shown, whatever is created meanwhile."""
    ids = [created(store, f"k{number}") for number in range(7)]

    first = store.jobs(limit=3)
    created(store, "later")
    second = store.jobs(limit=3, cursor=first.next_cursor)
    third = store.jobs(limit=3, cursor=second.next_cursor)

    pages = [job.job_id for page in (first, second, third) for job in page.jobs]
    assert pages == ids[::-1]
    assert third.next_cursor is None
    assert first.total == 7


def test_jobs_are_found_by_every_filter(store: JobStore) -> None:
    """Each filter narrows the list; together they are all required."""
    job_id = created(store, "a-1", owner="x", kind="k", queue="q", labels={"tier": "gold"})
    created(store, "b_%", owner="y", kind="l", labels={"tier": "iron"})
    store.hold(job_id, by="ops", reason="look")

    for found in (
        store.jobs(owner="x"),
        store.jobs(kind="k"),
        store.jobs(queue="q"),
        store.jobs(state="paused"),
        store.jobs(state=State.PAUSED, owner="x", kind="k", queue="q", held=True),
        store.jobs(label=("tier", "gold")),
        store.jobs(key_prefix="a-"),
        store.jobs(held=True),
    ):
        assert [job.job_id for job in found.jobs] == [job_id]
        assert found.total == 1
    assert store.jobs(label="tier").total == 2
    assert store.jobs(key_prefix="b_").total == 1
    assert store.jobs(key_prefix="b%").total == 0
    assert store.jobs(owner="x", state="queued").jobs == ()
    refuses("invalid_request", store.jobs, state="asleep")
    refuses("unknown_cursor", store.jobs, cursor="rubbish")


def test_counts_name_every_state(store: JobStore) -> None:
    """States without a job count 0."""
    created(store, "a")
    store.complete(running(store, "b", owner="other").fence, result=1)

    assert store.counts() == {state: {"queued": 1, "complete": 1}.get(state.value, 0) for state in State}
    assert store.counts(owner="other")[State.QUEUED] == 0


def test_the_feed_has_every_event_once_in_order_and_resumes(store: JobStore) -> None:
    """Walking by any page size gives all jobs' events; each entry's cursor resumes right behind it."""
    jobs = [running(store, f"k{number}") for number in range(3)]
    for lease in jobs:
        store.complete(lease.fence, result=lease.job_id)
    whole = store.feed(limit=100).entries

    for size in (1, 2, 5, 100):
        seen: list[FeedEntry] = []
        cursor = None
        while (page := store.feed(after=cursor, limit=size)).entries:
            seen += page.entries
            cursor = page.cursor
        assert tuple(seen) == whole
    assert len(whole) == 9
    for entry, following in pairwise(whole):
        assert store.feed(after=entry.cursor, limit=1).entries == (following,)
    for lease in jobs:
        own = [entry for entry in whole if entry.job_id == lease.job_id]
        assert [entry.sequence for entry in own] == [1, 2, 3]
        assert [entry.name for entry in own] == topics(store, lease.job_id)


def test_the_feed_can_be_narrowed_without_losing_its_place(store: JobStore) -> None:
    """A filter passes over what does not match; the cursor moves on all the same."""
    created(store, "a", owner="x")
    created(store, "b", owner="y")
    store.hold(created(store, "c", owner="x"), by="ops", reason="look")

    assert [entry.sequence for entry in store.feed(owner="x").entries] == [1, 1, 2]
    assert [entry.name for entry in store.feed(topics=["job.hold_placed"]).entries] == ["HoldPlaced"]
    end = store.feed(owner="nobody").cursor
    assert store.feed(after=end).entries == ()
    refuses("invalid_request", store.feed, topics=["os:system"])
    refuses("unknown_cursor", store.feed, after="rubbish")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(cursor=st.text(max_size=60))
def test_no_text_is_mistaken_for_a_cursor(store: JobStore, cursor: str) -> None:
    """Whatever text comes as a cursor, it is read or refused by name."""
    with suppress(UnknownCursorError):
        store.feed(after=cursor)


def test_the_timeline_shows_attempts_waits_and_marks(store: JobStore, clock: ManualClock) -> None:
    """Attempts are spans with their checkpoints and units; the time between is waiting, parked, held or backing off."""
    job_id = created(store)
    clock.advance(timedelta(seconds=5))
    lease = store.claim(job_id, worker="w1")
    store.record_unit(lease.fence, "batch-0", 1)
    store.checkpoint(lease.fence, 1)
    clock.advance(timedelta(seconds=30))
    store.recover(job_id)
    clock.advance(timedelta(seconds=5))
    lease = store.claim(job_id, worker="w2")
    clock.advance(timedelta(seconds=5))
    store.complete(lease.fence, result=1)

    timeline = store.timeline(job_id)

    assert [(a.generation, a.worker, a.ended_by) for a in timeline.attempts] == [
        (1, "w1", "interrupted (lease_expired)"),
        (2, "w2", "completed (complete)"),
    ]
    assert [mark.name for mark in timeline.attempts[0].units] == ["batch-0"]
    assert len(timeline.attempts[0].checkpoints) == 1
    assert [(w.state, w.end - w.start) for w in timeline.waits if w.end] == [
        ("waiting", timedelta(seconds=5)),
        ("parked", timedelta(seconds=5)),
    ]
    assert timeline.ended_at == clock.now()


def test_filters_are_checked_like_what_they_are_compared_with(store: JobStore) -> None:
    """A text that nothing can have is refused by name on every store, never met by a driver."""
    job_id = created(store)
    for wrong in ("\ud800", "a\0"):
        for field in ("owner", "kind", "queue", "label", "key_prefix"):
            refuses("unstorable_value", store.jobs, **{field: wrong})
        refuses("unstorable_value", store.counts, owner=wrong)
        refuses("unstorable_value", store.feed, owner=wrong)
        refuses("unstorable_value", store.units, job_id, after=wrong)
    for wrong_label in (3, ("a",), ("a", 3), ["a", "b"]):
        refuses("invalid_request", store.jobs, label=wrong_label)
    refuses("invalid_request", store.jobs, owner=3)


def test_counts_are_exact_or_go_no_further_than_asked(store: JobStore) -> None:
    """A number that reaches the bound means "at least"; what is below it is exact."""
    for number in range(5):
        created(store, f"k{number}", owner="team" if number else "other")
    running(store, "r")

    assert store.counts()[State.QUEUED] == 5
    capped = store.counts(at_most=3)
    assert (capped[State.QUEUED], capped[State.RUNNING], capped[State.FAILED]) == (3, 1, 0)
    assert set(capped) == set(State)
    assert store.counts(owner="other", at_most=3)[State.QUEUED] == 1
    refuses("invalid_request", store.counts, at_most=0)
