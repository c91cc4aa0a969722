"""Archiving: one event stands for all that an ended job's history says; nothing else of the job changes."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta

import pytest

from jobledger.domain.decisions.archiving import archive, archive_at, digest_of
from jobledger.domain.decisions.claiming import Claimable, claimable
from jobledger.domain.errors import NotTerminalError
from jobledger.domain.events import JobEvent
from jobledger.domain.job import Job, evolve, state_before
from jobledger.domain.policies import Policy
from tests.domain.given import HOUR, NOON, archived, checkpointed, claimed, completed, created, erased, replay

KEPT = timedelta(days=30)
DIGESTS = ["01" * 32, "ff" * 32]


def facts(*, keep_finished: timedelta | None = KEPT) -> list[JobEvent]:
    """A history of a job that completed at noon."""
    return [created(policy=Policy(keep_finished=keep_finished)), claimed(1), checkpointed(1, 4), completed(1)]


def test_the_job_that_follows_from_what_stands_for_its_history_is_the_same() -> None:
    """Folded alone, the event gives what it gives behind the history itself, and says where the rest went."""
    ended = replay(facts())

    [fact] = archive(ended, now=NOON + HOUR, digests=DIGESTS, place="a.jsonl", by="ann")

    alone, behind = evolve(None, fact), evolve(ended, fact)
    assert alone == behind
    assert alone == replace(ended, sequence=5, control_sequence=5, updated_at=NOON + HOUR, archived=5)
    assert state_before(fact) == ended
    assert (fact.place, fact.by) == ("a.jsonl", "ann")


def test_the_digest_is_over_those_of_the_events_in_their_order() -> None:
    """32 bytes each, behind each other."""
    [fact] = archive(replay(facts()), now=NOON, digests=DIGESTS)

    assert fact.digest == hashlib.sha256(b"\x01" * 32 + b"\xff" * 32).hexdigest()
    assert digest_of(DIGESTS) != digest_of(DIGESTS[::-1])


def test_only_what_ended_is_archived_and_only_once() -> None:
    with pytest.raises(NotTerminalError):
        archive(replay(facts()[:-1]), now=NOON, digests=DIGESTS)
    once = replay([*facts(), *archive(replay(facts()), now=NOON, digests=DIGESTS)])

    assert archive(once, now=NOON, digests=DIGESTS) == []


def test_time_does_not_go_back_behind_the_last_event() -> None:
    [fact] = archive(replay(facts()), now=NOON - HOUR, digests=DIGESTS)

    assert fact.at == NOON


@pytest.mark.parametrize("upkeep", [archived(), erased()])
def test_an_event_without_a_state_stands_for_nothing(upkeep: JobEvent) -> None:
    """It is in a history whose events are all there."""
    job = replay([*facts(), upkeep])

    assert job.archived == 0
    with pytest.raises(LookupError):
        evolve(None, upkeep)


def test_a_state_that_is_none_is_not_believed() -> None:
    [fact] = archive(replay(facts()), now=NOON, digests=DIGESTS)

    with pytest.raises(LookupError):
        evolve(None, replace(fact, state={"id": "j"}))


@pytest.mark.parametrize(
    ("job", "due"),
    [
        (replay(facts()), NOON + KEPT),
        (replay(facts(keep_finished=None)), None),
        (replay(facts()[:-1]), None),
        (replay([*facts(), erased(at=NOON + HOUR)]), NOON + HOUR + KEPT),
        (replace(replay(facts()), archived=5), None),
    ],
)
def test_a_job_is_due_when_its_policy_lets_it_go(job: Job, due: object) -> None:
    """Counted from its last event; a store finds it by this instant."""
    assert archive_at(job) == due
    assert (claimable(job) is Claimable.FINISHED) == (due is not None)
