"""What a refusal says where it depends on what it is about: each way of it, in the words that people read."""

from __future__ import annotations

import pytest

from jobledger.domain import errors
from jobledger.domain.errors import JobledgerError

SAID: dict[str, tuple[JobledgerError, str]] = {
    "controls that the job has": (
        errors.ControlUnavailableError("j1", "pause", ("cancel", "retry")),
        "use one that it does: cancel, retry",
    ),
    "no control at all": (errors.ControlUnavailableError("j1", "pause", ()), "use one that it does: none"),
    "kinds that are known": (errors.UnknownKindError("build", ("index", "train")), "that has one: index, train"),
    "no kind at all": (errors.UnknownKindError("build", ()), "that has one: none"),
    "a lease that was ended by something": (
        errors.StaleFenceError("j1", 1, 2, "interrupted"),
        "the fence of generation 1 (ended by interrupted) is stale",
    ),
    "a lease that was replaced": (errors.StaleFenceError("j1", 1, 2), "the fence of generation 1 is stale"),
    "a sequence": (errors.UnknownSequenceError("j1", 9, 5), "job j1 has events 1 to 5, not 9;"),
    "a place in words": (
        errors.UnknownSequenceError("j1", "the first at 12:00", 5),
        "job j1 has events 1 to 5, the first at 12:00;",
    ),
    "a projection with its runner": (errors.ProjectionBusyError("totals", "host-1"), "is being rebuilt by host-1;"),
    "a projection": (errors.ProjectionBusyError("totals"), "is being rebuilt;"),
    "a cursor of something else": (errors.UnknownCursorError("feed", "jobs"), "it is one of jobs;"),
    "a cursor of nobody's": (errors.UnknownCursorError("feed"), "another store or release gave it, or it was changed;"),
    "one event": (
        errors.HistoryCorruptError("j1", 3, "cut"),
        "the history of j1 cannot be trusted at sequence 3: cut;",
    ),
    "all that is stored": (errors.HistoryCorruptError("j1", 0, "cut"), "what is stored of j1 cannot be trusted: cut;"),
    "an older schema": (errors.SchemaMismatchError(1, 2, "migrate"), "has schema version 1, this jobledger needs 2;"),
    "a newer schema": (
        errors.SchemaMismatchError(3, 2, "migrate"),
        "has schema version 3, this jobledger knows only 2",
    ),
    "a job": (errors.NotHeldError("j1"), "job j1 is not held"),
    "a schedule": (errors.NotHeldError("schedule:7:default:nightly"), "schedule 'nightly' is not held"),
    "a schedule with a colon": (errors.NotHeldError("schedule:3:a:b:c:d"), "schedule 'c:d' is not held"),
    "a group": (errors.NotHeldError("group:7:default:gpu"), "group 'gpu' is not held"),
    "a job that is named like a stream": (errors.NotHeldError("other:7:default:gpu"), "job other:7:default:gpu is not"),
    "a job that is named like a schedule": (errors.NotHeldError("schedule:x:nightly"), "job schedule:x:nightly is not"),
}


@pytest.mark.parametrize("about", SAID)
def test_a_sentence_says_what_it_is_about(about: str) -> None:
    error, said = SAID[about]

    assert said in str(error)
