"""The story of a job for people: every event is told, with who, when, fence and wait."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobledger import ManualClock
from jobledger.domain.history import TOPICS
from jobledger.projections.story import TELLING, lasted
from tests.auditing.stories import NOON, STORIES, opened
from tests.contracts.jobs import refuses


def _told(name: str) -> dict[str, list[str]]:
    """The sentences of each job of a story, by its key."""
    clock = ManualClock(NOON)
    with opened(clock=clock) as store:
        STORIES[name](store, clock)
        jobs = store.jobs(limit=100).jobs
        return {str(job.key): [f"{each.who} {each.text}" for each in store.story(job.job_id)] for job in jobs}


def test_every_kind_of_event_is_told() -> None:
    assert set(TELLING) == {event for topic, event in TOPICS.items() if topic.startswith("job.")} - _reports()


def _reports() -> set[type]:
    return {event for topic, event in TOPICS.items() if topic == "job.progress_reported"}


@pytest.mark.parametrize("name", STORIES)
def test_every_event_of_every_story_is_told_once(name: str) -> None:
    """In order; several reports in a row count as one sentence that names them all."""
    clock = ManualClock(NOON)
    with opened(clock=clock) as store:
        STORIES[name](store, clock)
        for job in store.jobs(limit=100).jobs:
            told = list(store.story(job.job_id))

            covered = [number for each in told for number in range(each.sequence, each.last + 1)]
            assert covered == list(range(1, job.sequence + 1))
            assert sum((each.since for each in told), timedelta(0)) == job.updated_at - job.created_at


def test_who_did_what_under_which_fence_and_how_long_it_waited() -> None:
    failures = _told("failures")["k"]
    assert failures[:2] + failures[3:5] + failures[6:] == [
        "team created it: kind index, key k",
        "w1 took it under a lease of 2 s, after a wait of 0 ms",
        "ops made it due at once, with a new budget: look",
        "w2 took it under a lease of 2 s, after a wait of 0 ms",
        "w3 took it under a lease of 2 s, after a wait of 1 h",
        "w3 ended it as failed after 0 ms of work: for good (in all 1 h, of which 0 ms in 3 attempts)",
    ]
    assert failures[2].startswith("w1 failed after 0 ms of work: broke (to be tried again in ")
    taken_over = _told("taken_over")["k"]
    assert "engine ended the attempt of w1: its lease had run out 1 s before" in taken_over
    assert "w2 renewed its lease 10 s late; nobody had taken over" in taken_over
    assert "ops released the hold after 1 min: look" in _told("held")["k"]
    assert _told("long")["k"][-1] == "w1 reported 59 of 60 (the last of 60 reports)"
    assert _told("cancelled")["running"][-1].startswith("w1 stopped for ops's cancel request with 1 units done: look")


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(0), "0 ms"),
        (timedelta(seconds=-1), "0 ms"),
        (timedelta(milliseconds=12), "12 ms"),
        (timedelta(seconds=1), "1 s"),
        (timedelta(seconds=3.25), "3.2 s"),
        (timedelta(minutes=1), "1 min"),
        (timedelta(minutes=59, seconds=59), "59 min 59 s"),
        (timedelta(hours=2, seconds=59), "2 h"),
        (timedelta(days=3, hours=4, minutes=5), "3 d 4 h"),
    ],
)
def test_a_span_is_told_in_its_two_largest_units(span: timedelta, text: str) -> None:
    assert lasted(span) == text


def test_two_sequences_of_a_job_are_compared_field_by_field() -> None:
    """What changed between them, and nothing else."""
    clock = ManualClock(NOON)
    with opened(clock=clock) as store:
        STORIES["completed"](store, clock)
        [job] = store.jobs().jobs
        found = {each.field: (each.told, each.folded) for each in store.diff(job.job_id, 2, 3)}

        assert found == {"units": (0, 1), "sequence": (2, 3)}
        assert store.diff(job.job_id, 3, 3) == []
        refuses("unknown_sequence", store.diff, job.job_id, 1, 99)
