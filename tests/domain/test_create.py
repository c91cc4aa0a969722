"""Creating a job: admission, the idempotency key, submissions, and every bound of a request."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from jobledger.domain.decisions import create
from jobledger.domain.decisions.creating import JobRequest, Met, job_id_of, prepare, require_operator
from jobledger.domain.errors import (
    AdmissionRefusedError,
    InvalidRequestError,
    JobExistsError,
    PayloadChangedError,
    PayloadTooLargeError,
    UnknownPolicyError,
    UnstorableValueError,
)
from jobledger.domain.events import Created, JobEvent, Origin
from jobledger.domain.job import State
from jobledger.domain.policies import Policy
from tests.domain.given import (
    HOUR,
    JOB_ID,
    NOON,
    cancelled,
    claimed,
    completed,
    created,
    hold_placed,
    paused,
    replay,
)
from tests.domain.when import POLICIES, only, request

ENDED: dict[str, list[JobEvent]] = {
    "queued": [],
    "running": [claimed(1)],
    "paused": [claimed(1), paused(1)],
    "held": [hold_placed()],
    "complete": [claimed(1), completed(1)],
    "cancelled": [cancelled()],
}


def test_a_new_job_is_queued_and_nobody_works_on_it() -> None:
    """Queuing alone claims nothing."""
    events = create(request(), Met(), now=NOON)

    job = replay(events)
    assert (job.state, job.generation, job.attempt, job.ready_at) == (State.QUEUED, 0, None, NOON)


def test_created_carries_all_that_was_asked() -> None:
    """Whoever reads the first event knows the whole request, without any registry."""
    later = NOON + HOUR
    new = request(
        payload={"partition": "p7"},
        submission="submit-42",
        queue="slow",
        priority=-3,
        ready_at=later,
        controls=("cancel",),
        labels={"team": "search"},
    )

    fact = only(create(new, Met(), now=NOON), Created)

    assert (fact.job_id, fact.namespace, fact.owner, fact.key, fact.kind) == (
        JOB_ID,
        "default",
        "team-a",
        "rebuild-42",
        "rebuild",
    )
    assert (fact.payload.value, fact.submission, fact.queue, fact.priority) == (
        {"partition": "p7"},
        "submit-42",
        "slow",
        -3,
    )
    assert (fact.ready_at, fact.controls, fact.labels, fact.origin) == (later, ("cancel",), {"team": "search"}, None)
    assert fact.at == NOON


def test_only_the_policy_values_that_differ_from_the_defaults_travel() -> None:
    """A process that does not know the policy's name can still run the job, and a default may be improved later."""
    fact = only(create(request(policy=Policy(interrupts_max=1)), Met(), now=NOON), Created)

    assert fact.policy_changes == {"interrupts_max": 1}
    assert replay([fact]).policy == Policy(interrupts_max=1)


def test_a_time_to_start_is_kept_in_utc() -> None:
    """One instant has one form, whatever zone the caller lives in."""
    there = timezone(timedelta(hours=-5))

    fact = only(create(request(ready_at=datetime(2026, 1, 1, 8, tzinfo=there)), Met(), now=NOON), Created)

    assert fact.ready_at == NOON + HOUR
    assert fact.ready_at.tzinfo is UTC


# Reuse ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("since", ENDED.values(), ids=ENDED)
def test_the_same_key_and_payload_find_the_job_again_whatever_became_of_it(since: list[JobEvent]) -> None:
    """A key never becomes free, and asking again never starts another attempt."""
    job = replay([created(payload={"n": 1}), *since])

    events = create(request(payload={"n": 1}), Met(job=job), now=NOON)

    assert events == []


@pytest.mark.parametrize("since", ENDED.values(), ids=ENDED)
def test_the_same_key_with_another_payload_is_refused_whatever_became_of_the_job(since: list[JobEvent]) -> None:
    """No duplicate and no new attempt; the refusal names the job and never shows its payload."""
    job = replay([created(payload="secret-1"), *since])

    with pytest.raises(PayloadChangedError) as refusal:
        create(request(payload="secret-2"), Met(job=job), now=NOON)

    assert (refusal.value.job_id, refusal.value.key) == (JOB_ID, "rebuild-42")
    assert "secret" not in str(refusal.value)
    assert "secret" not in repr(refusal.value)


def test_another_kind_under_the_same_key_is_another_payload() -> None:
    """The fingerprint covers the kind: one key cannot mean two kinds of work."""
    job = replay([created()])

    with pytest.raises(PayloadChangedError):
        create(request(kind="delete"), Met(job=job), now=NOON)


@pytest.mark.parametrize(
    ("first", "second"), [(1, 1.0), (1, True), (0, False), (0.0, -0.0), (None, {}), ([], {}), ("1", 1)]
)
def test_values_that_python_calls_equal_are_other_payloads(first: object, second: object) -> None:
    """The fingerprint compares what is written, not what Python's ``==`` says."""
    job = replay([created(payload=first)])

    with pytest.raises(PayloadChangedError):
        create(request(payload=second), Met(job=job), now=NOON)


def test_the_order_of_keys_is_no_change() -> None:
    """JSON objects have no order, at any depth."""
    job = replay([created(payload={"a": 1, "b": {"c": 2, "d": 3}})])

    events = create(request(payload={"b": {"d": 3, "c": 2}, "a": 1}), Met(job=job), now=NOON)

    assert events == []


@pytest.mark.parametrize(
    "changed",
    [
        {"queue": "other"},
        {"priority": 9},
        {"labels": {"a": "b"}},
        {"ready_at": NOON + HOUR},
        {"policy": Policy(failures_max=1)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_queue_priority_labels_time_and_policy_are_not_compared(changed: dict[str, Any]) -> None:
    """They say how the work is done, not what the work is."""
    job = replay([created()])

    events = create(request(**changed), Met(job=job), now=NOON)

    assert events == []


def test_the_key_decides_the_job_id_within_its_namespace_and_owner() -> None:
    """Two creators of one key meet at one job; shifting a letter between the names makes another."""
    ids = {
        job_id_of(*names)
        for names in [("n", "o", "k"), ("n", "o", "k2"), ("n", "o2", "k"), ("n2", "o", "k"), ("no", "", "k")]
    }

    assert len(ids) == 5
    assert job_id_of("n", "o", "k") == job_id_of("n", "o", "k")


# Submissions: a submission id of its own, beside the business identity that is the key --------------------------------


def test_a_repeated_submission_is_reused() -> None:
    """The same submission of the same identity and payload finds the job."""
    job = replay([created(submission="submit-42")])

    events = create(request(submission="submit-42"), Met(job=job, submitted=job), now=NOON)

    assert events == []


def test_a_submission_with_another_payload_is_refused() -> None:
    """One submission id is one request."""
    job = replay([created(submission="submit-42")])

    with pytest.raises(PayloadChangedError) as refusal:
        create(request(submission="submit-42", payload=2), Met(job=job, submitted=job), now=NOON)

    assert refusal.value.key == "submit-42"


def test_a_submission_for_another_identity_is_refused() -> None:
    """The same submission with anything else, also another key, is a changed request."""
    job = replay([created(submission="submit-42")])

    with pytest.raises(PayloadChangedError):
        create(request(job_id="another", key="rebuild-43", submission="submit-42"), Met(submitted=job), now=NOON)


def test_another_submission_of_the_same_identity_is_refused() -> None:
    """A separate submission needs its own business identity."""
    job = replay([created(submission="submit-42")])

    with pytest.raises(JobExistsError) as refusal:
        create(request(submission="submit-43"), Met(job=job), now=NOON)

    assert refusal.value.job_id == JOB_ID


def test_a_key_that_a_rerun_took_belongs_to_that_rerun() -> None:
    """What is compared includes where the job came from."""
    job = replay([created(origin=Origin(how="rerun", of="another", sequence=3))])

    with pytest.raises(JobExistsError):
        create(request(), Met(job=job), now=NOON)


# Admission ------------------------------------------------------------------------------------------------------------


def test_a_full_queue_admits_nothing_new() -> None:
    """The bound counts what waits already."""
    new = request(policy=Policy(queue_depth_max=3))

    assert len(create(new, Met(queued=2), now=NOON)) == 1
    with pytest.raises(AdmissionRefusedError, match="3"):
        create(new, Met(queued=3), now=NOON)


def test_a_full_queue_still_answers_for_jobs_it_knows() -> None:
    """The recorded receipt comes before admission: nothing new would wait."""
    new = request(policy=Policy(queue_depth_max=1))

    assert create(new, Met(job=replay([created()]), queued=9), now=NOON) == []
    with pytest.raises(PayloadChangedError):
        create(new, Met(job=replay([created(payload=7)]), queued=9), now=NOON)


def test_what_the_host_does_not_admit_is_refused_with_its_reason() -> None:
    """The host's own word is carried to the caller; a job that is known already needs no admission."""
    with pytest.raises(AdmissionRefusedError, match="closed for the night"):
        create(request(), Met(unadmitted="closed for the night"), now=NOON)
    assert create(request(), Met(job=replay([created()]), unadmitted="closed for the night"), now=NOON) == []


def test_a_create_is_refused_in_the_stated_order() -> None:
    """A changed payload first, then what its policy says, then whether there is room."""
    small, met = Policy(payload_bytes_max=2, queue_depth_max=1), replay([created(payload=1)])
    room = Met(queued=1, unadmitted="closed", policies=("default",))
    unknown = prepare(
        JobRequest(owner="team-a", kind="rebuild", key="rebuild-42", payload="too large", policy="fast"),
        job_id=JOB_ID,
        namespace="default",
        policies={},
    )

    for new in (unknown, request(payload="too large", policy=small)):
        with pytest.raises(PayloadChangedError):
            create(new, Met(job=met), now=NOON)
    with pytest.raises(UnknownPolicyError):
        create(unknown, room, now=NOON)
    with pytest.raises(PayloadTooLargeError):
        create(request(payload="too large", policy=small), room, now=NOON)
    with pytest.raises(AdmissionRefusedError, match="queued"):
        create(request(payload=1, policy=small), room, now=NOON)
    with pytest.raises(AdmissionRefusedError, match="closed"):
        create(request(payload=1), room, now=NOON)


def test_a_known_key_is_answered_whatever_its_policy_would_say_today() -> None:
    """The recorded receipt does not depend on a policy that was renamed or tightened since."""
    met = replay([created(payload="long enough")])
    again = prepare(
        JobRequest(owner="team-a", kind="rebuild", key="rebuild-42", payload="long enough", policy="gone"),
        job_id=JOB_ID,
        namespace="default",
        policies={},
    )

    assert create(again, Met(job=met), now=NOON) == []
    assert create(request(payload="long enough", policy=Policy(payload_bytes_max=2)), Met(job=met), now=NOON) == []


# Bounds of a request --------------------------------------------------------------------------------------------------


def test_an_unknown_policy_is_refused_and_the_known_ones_are_named() -> None:
    """A misspelt name never falls back to other limits."""
    asked = JobRequest(owner="o", kind="k", policy="fast")

    new = prepare(asked, job_id=JOB_ID, namespace="default", policies={"quick": Policy(), "default": Policy()})

    with pytest.raises(UnknownPolicyError) as refusal:
        create(new, Met(policies=("default", "quick")), now=NOON)

    assert refusal.value.known == ("default", "quick")


def test_a_payload_may_be_as_large_as_its_policy_says_and_not_a_byte_larger() -> None:
    """Sizes are bytes of compact UTF-8 JSON, quotes included."""
    policy = Policy(payload_bytes_max=6)

    assert len(create(request(payload="éé", policy=policy), Met(), now=NOON)) == 1
    with pytest.raises(PayloadTooLargeError) as refusal:
        create(request(payload="ééa", policy=policy), Met(), now=NOON)
    assert (refusal.value.size, refusal.value.limit) == (7, 6)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"owner": ""}, "owner"),
        ({"owner": "x" * 256}, "owner"),
        ({"kind": " "}, "kind"),
        ({"key": ""}, "key"),
        ({"key": "x" * 256}, "key"),
        ({"queue": ""}, "queue"),
        ({"submission": ""}, "submission"),
        ({"priority": 2**31}, "priority"),
        ({"priority": -(2**31)}, "priority"),
        ({"controls": ("pause", "stop")}, "controls"),
        ({"controls": ("pause", "pause")}, "controls"),
        ({"labels": {str(n): "" for n in range(33)}}, "labels"),
        ({"labels": {"": "x"}}, "labels"),
        ({"labels": {"a": "x" * 256}}, "labels.a"),
        ({"ready_at": datetime(1969, 12, 31, tzinfo=UTC)}, "ready_at"),
        ({"ready_at": datetime(2026, 1, 1)}, "ready_at"),  # noqa: DTZ001  # a time without a zone is what is refused
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_field_out_of_its_bounds_is_named(fields: dict[str, Any], named: str) -> None:
    """Every field is checked before anything is decided."""
    given: dict[str, Any] = {"owner": "o", "kind": "k"} | fields
    asked = JobRequest(**given)

    with pytest.raises(InvalidRequestError) as refusal:
        prepare(asked, job_id=JOB_ID, namespace="default", policies=POLICIES)

    assert refusal.value.field == named


@pytest.mark.parametrize("text", ["a\0b", "\ud800"], ids=["NUL", "surrogate"])
@pytest.mark.parametrize("field", ["owner", "kind", "key", "queue", "submission", "policy", "payload"])
def test_a_text_that_no_store_may_hold_is_refused_in_every_field(field: str, text: str) -> None:
    """NUL and lone surrogates are refused at the boundary, equally for every store."""
    values: dict[str, Any] = {"owner": "o", "kind": "k", field: text}
    asked = JobRequest(**values)

    with pytest.raises(UnstorableValueError) as refusal:
        prepare(asked, job_id=JOB_ID, namespace="default", policies=POLICIES)

    assert refusal.value.what == field


@pytest.mark.parametrize("labels", [{"a\0": "x"}, {"a": "\ud800"}], ids=["name", "value"])
def test_a_label_that_no_store_may_hold_is_refused(labels: dict[str, str]) -> None:
    """Labels are texts like all others."""
    asked = JobRequest(owner="o", kind="k", labels=labels)

    with pytest.raises(UnstorableValueError):
        prepare(asked, job_id=JOB_ID, namespace="default", policies=POLICIES)


@pytest.mark.parametrize(
    "fields",
    [
        {"owner": 1},
        {"key": 1},
        {"priority": True},
        {"priority": 1.0},
        {"priority": "1"},
        {"labels": {"a": 1}},
        {"ready_at": "2026-01-01"},
        {"colour": "red"},
        {"controls": "pause"},
    ],
    ids=str,
)
def test_a_request_of_another_shape_cannot_be_made(fields: dict[str, Any]) -> None:
    """Nothing is converted silently, and unknown fields are refused by name."""
    given: dict[str, Any] = {"owner": "o", "kind": "k"} | fields

    with pytest.raises(InvalidRequestError) as refusal:
        JobRequest(**given)

    assert next(iter(fields)) in refusal.value.field


def test_an_owner_and_a_kind_have_to_be_given() -> None:
    """There is no owner that everybody shares by accident."""
    no_owner: dict[str, Any] = {"kind": "k"}
    no_kind: dict[str, Any] = {"owner": "o"}

    with pytest.raises(InvalidRequestError, match="owner"):
        JobRequest(**no_owner)
    with pytest.raises(InvalidRequestError, match="kind"):
        JobRequest(**no_kind)


def test_the_engines_name_is_reserved() -> None:
    """An operator cannot act, hold or release in the engine's name."""
    require_operator("ann", "why")

    with pytest.raises(InvalidRequestError) as refusal:
        require_operator("engine", "why")

    assert refusal.value.field == "by"


@pytest.mark.parametrize(("by", "reason"), [("", "why"), ("ann", ""), ("ann", "x" * 2_001), ("x" * 256, "why")])
def test_an_operator_gives_a_name_and_a_reason_within_bounds(by: str, reason: str) -> None:
    """An auditor later reads who did it and why."""
    with pytest.raises(InvalidRequestError):
        require_operator(by, reason)
