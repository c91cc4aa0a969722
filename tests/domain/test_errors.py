"""Errors: a stable code, typed fields, a sentence that names the next step, and a family that says what to do."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from jobledger.domain import errors
from jobledger.domain.errors import (
    CorruptError,
    InvalidError,
    JobledgerError,
    RefusedError,
    UnavailableError,
)
from jobledger.domain.ports import RolledBackError

FAMILIES: Final = (RefusedError, InvalidError, UnavailableError, CorruptError)

AT: Final = datetime(2026, 1, 1, tzinfo=UTC)

PUBLISHED: Final[dict[type[JobledgerError], dict[str, tuple[Any, ...]]]] = {
    RefusedError: {
        "payload_changed": ("PayloadChangedError", "j1", "rebuild-42"),
        "job_exists": ("JobExistsError", "j1", "rebuild-42"),
        "lease_live": ("LeaseLiveError", "j1", "w1", AT),
        "stale_fence": ("StaleFenceError", "j1", 1, 2, "lease_expired"),
        "lease_expired": ("LeaseExpiredError", "j1", 1, AT),
        "stale_epoch": ("StaleEpochError", "gpu", 1, 2),
        "hold_in_force": ("HoldInForceError", "j1", "ann", "disk full"),
        "not_held": ("NotHeldError", "j1"),
        "control_unavailable": ("ControlUnavailableError", "j1", "pause", ("cancel",)),
        "not_resumable": ("NotResumableError", "j1", "paused", 1),
        "nothing_to_recover": ("NothingToRecoverError", "j1", "queued"),
        "already_terminal": ("AlreadyTerminalError", "j1", "complete"),
        "not_terminal": ("NotTerminalError", "j1", "running"),
        "not_ready": ("NotReadyError", "j1", AT),
        "cancel_pending": ("CancelPendingError", "j1", "ann"),
        "cancel_not_requested": ("CancelNotRequestedError", "j1"),
        "receipt_changed": ("ReceiptChangedError", "j1", "batch-1", {"rows": 1}, 1),
        "effect_conflict": ("EffectConflictError", "index", 1, 2),
        "budget_exhausted": ("BudgetExhaustedError", "j1", 5, 5),
        "sequence_moved": ("SequenceMovedError", "j1", 3, 5),
        "command_changed": ("CommandChangedError", "c1", "j1"),
        "out_of_order": ("OutOfOrderError", "j1", 3, 5),
        "unknown_job": ("UnknownJobError", "j1"),
        "unknown_sequence": ("UnknownSequenceError", "j1", 9, 5),
        "history_archived": ("HistoryArchivedError", "j1", 9, "jobs.jsonl.zst"),
        "unknown_schedule": ("UnknownScheduleError", "nightly"),
        "schedule_busy": ("ScheduleBusyError", "nightly", "j1", "skip"),
        "projection_busy": ("ProjectionBusyError", "totals", "host-1"),
        "queue_held": ("QueueHeldError", "j1", "index", "ann", "disk full"),
        "queue_limited": ("QueueLimitedError", "j1", "index", "running_max", 3),
        "admission_refused": ("AdmissionRefusedError", "queue 'default' is full"),
    },
    InvalidError: {
        "payload_too_large": ("PayloadTooLargeError", 11, 10),
        "checkpoint_too_large": ("CheckpointTooLargeError", 11, 10),
        "receipt_too_large": ("ReceiptTooLargeError", 11, 10),
        "result_too_large": ("ResultTooLargeError", 11, 10),
        "unstorable_value": ("UnstorableValueError", "payload", "payload.a", "text with a NUL character"),
        "unknown_policy": ("UnknownPolicyError", "fast", ("default",)),
        "unknown_cursor": ("UnknownCursorError", "feed", "jobs"),
        "unknown_kind": ("UnknownKindError", "rebuild", ("delete",)),
        "invalid_hook": (
            "InvalidHookError",
            "Rebuild.load",
            "a restore hook takes the saved state: give it one argument",
        ),
        "invalid_request": ("InvalidRequestError", "priority", "a whole number is needed, not str"),
    },
    UnavailableError: {
        "producer_unavailable": ("ProducerUnavailableError", "draining"),
        "store_unavailable": ("StoreUnavailableError", "connection refused"),
        "deadline_exceeded": ("DeadlineExceededError", "the store"),
        "outcome_unknown": ("OutcomeUnknownError", "connection lost"),
    },
    CorruptError: {
        "history_corrupt": ("HistoryCorruptError", "j1", 3, "unknown topic 'x'"),
        "schema_mismatch": ("SchemaMismatchError", 1, 2, "jobledger migrate"),
    },
}

CLASSES: Final = {code: getattr(errors, row[0]) for rows in PUBLISHED.values() for code, row in rows.items()}
EXAMPLES: Final[dict[str, JobledgerError]] = {
    code: CLASSES[code](*row[1:]) for rows in PUBLISHED.values() for code, row in rows.items()
}
UNNAMED: Final = {JobledgerError, *FAMILIES, errors.PayloadTooLargeError.__base__, RolledBackError}
"""The root, the families, what the four sizes share, and what no caller is ever shown: none of these is met."""

every_example = pytest.mark.parametrize("error", EXAMPLES.values(), ids=EXAMPLES)


def _all_classes(of: type[JobledgerError]) -> set[type[JobledgerError]]:
    return {of}.union(*(_all_classes(each) for each in of.__subclasses__()))


def test_the_errors_are_exactly_those_that_were_published() -> None:
    """By class name and code: neither is ever renamed, and none is added in silence."""
    found = {
        (each.__name__, each.code)
        for each in _all_classes(JobledgerError) - UNNAMED
        if each.__module__.startswith("jobledger.domain.")
    }

    assert found == {(row[0], code) for rows in PUBLISHED.values() for code, row in rows.items()}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_each_error_belongs_to_the_one_family_that_says_what_to_do_next(family: type[JobledgerError]) -> None:
    """Do not repeat, mend the input, back off, or stop: never two of them."""
    for code in PUBLISHED[family]:
        assert issubclass(CLASSES[code], family)
        assert [each for each in FAMILIES if issubclass(CLASSES[code], each)] == [family]


@every_example
def test_an_error_survives_its_journey_between_processes(error: JobledgerError) -> None:
    """Pickled and copied it is the same class with the same fields and sentence."""
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301  # our own bytes
        assert type(twin) is type(error)
        assert vars(twin) == vars(error)
        assert str(twin) == str(error)
        assert twin.args == error.args


@every_example
def test_the_fields_of_an_error_are_typed(error: JobledgerError) -> None:
    """A caller decides by fields, never by reading the sentence; only a first receipt may be any value."""
    declared = {field.name: str(field.type) for field in fields(error)}  # type: ignore[arg-type]  # a dataclass, each of them

    assert declared, "an error without fields says nothing to a program"
    assert set(declared) == set(vars(error))
    assert not [name for name, kind in declared.items() if kind in ("Any", "object") and name != "first"]


NEXT_STEPS: Final = {
    *("ask", "back", "call", "check", "choose", "claim", "complete", "decide", "drop", "fork", "give", "look", "pause"),
    *("read", "recover", "register", "release", "renew", "repeat", "rerun", "run", "send", "start", "stop", "submit"),
    *("try", "upgrade", "use", "wait"),
}


def names_a_next_step(sentence: str) -> bool:
    """Whether, behind what was refused, stands what the caller can do."""
    _, _, rest = sentence.replace(":", ";").partition(";")
    return any(re.search(rf"\b{step}\b", rest) for step in NEXT_STEPS)


@pytest.mark.parametrize(
    "code",
    [code for code in EXAMPLES if code not in ("invalid_hook", "invalid_request", "not_held", "nothing_to_recover")],
)
def test_a_sentence_names_the_callers_next_step(code: str) -> None:
    """One line, which says what was refused, why, and what can be done.

    Left out are those whose step is in the words that the caller of the class gives, and those where nothing is to be
    done, which say so.
    """
    sentence = str(EXAMPLES[code])

    assert "\n" not in sentence
    assert names_a_next_step(sentence), sentence


def test_a_sentence_without_a_next_step_is_noticed() -> None:
    """The control."""
    assert not names_a_next_step("job j1 is queued")
    assert not names_a_next_step("read this; the job is queued")
    assert names_a_next_step("job j1 is queued; wait for its end")


@pytest.mark.parametrize("code", ["invalid_hook", "invalid_request"])
def test_a_mistaken_argument_is_named_with_what_is_needed(code: str) -> None:
    """The place first, then the problem in the words of whoever found it."""
    error = EXAMPLES[code]

    assert str(error) == f"{error.args[0]}: {error.args[1]}"


@pytest.mark.parametrize(
    ("code", "text"), [("not_held", "nothing to release"), ("nothing_to_recover", "nothing to recover")]
)
def test_where_nothing_is_to_be_done_the_sentence_says_so(code: str, text: str) -> None:
    """What was asked for is so already."""
    assert text in str(EXAMPLES[code])


def test_nothing_to_resume_says_why() -> None:
    """A job that is not paused needs nothing; one that was leased goes on by another way."""
    assert "not paused" in str(errors.NotResumableError("j1", "running", 0))
    assert "release its hold" in str(EXAMPLES["not_resumable"])


def test_a_newer_schema_is_never_touched() -> None:
    """The older program is the one to be upgraded."""
    assert "jobledger migrate" in str(EXAMPLES["schema_mismatch"])
    assert "upgrade jobledger" in str(errors.SchemaMismatchError(3, 2, "jobledger migrate"))


def test_a_changed_receipt_carries_the_first_without_showing_it() -> None:
    """The value is for the program; a sentence in a log shows nobody's data."""
    error = errors.ReceiptChangedError("j1", "batch-1", {"iban": "secret"}, 1)

    assert error.first == {"iban": "secret"}
    assert "secret" not in str(error)


@pytest.mark.parametrize("code", ["deadline_exceeded", "outcome_unknown"])
def test_an_unknown_outcome_says_that_repeating_is_safe(code: str) -> None:
    """With the same command id."""
    assert "same command id" in str(EXAMPLES[code])


@every_example
def test_every_class_says_what_it_means(error: JobledgerError) -> None:
    """A docstring of its own, for whoever reads the code of an ``except``."""
    said = type(error).__doc__ or ""

    assert said.endswith(".")
    assert not said.startswith(f"{type(error).__name__}(")
