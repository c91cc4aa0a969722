"""Creating: one job per key, whatever races, repeats or changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from jobledger import CreateReceipt, JobledgerError, JobRequest, JobStore, ManualClock, State
from tests.contracts.jobs import created, refuses, running, topics, trace


def test_a_key_seen_before_answers_the_recorded_receipt(store: JobStore) -> None:
    """Whatever became of the job, the receipt of its creation is answered, marked as reused."""
    request = JobRequest(owner="team", key="k", kind="index", payload={"p": 7})
    first = store.create(request)
    store.complete(store.claim(first.job_id, worker="w").fence, result="done")

    again = store.create(request)

    assert first == CreateReceipt(first.job_id, reused=False, sequence=1, state=State.QUEUED)
    assert again == CreateReceipt(first.job_id, reused=True, sequence=1, state=State.QUEUED)
    assert store.status(first.job_id).state is State.COMPLETE


def test_same_key_with_changed_payload_is_refused_and_makes_no_duplicate(store: JobStore) -> None:
    """Failure boundary: same key, changed payload. The refusal names the job and never its payload."""
    job_id = created(store, payload={"secret": "first"})
    before = trace(store, job_id)

    error = refuses("payload_changed", created, store, payload={"secret": "other"})

    assert job_id in str(error)
    assert "first" not in str(error)
    assert trace(store, job_id) == before
    assert store.counts()[State.QUEUED] == 1


def test_numbers_are_compared_as_written_and_key_order_is_not(store: JobStore) -> None:
    """1 and 1.0 are different payloads; the order of an object's keys is not part of it."""
    job_id = created(store, payload={"a": 1, "b": 2})

    assert created(store, payload={"b": 2, "a": 1}) == job_id
    refuses("payload_changed", created, store, payload={"a": 1.0, "b": 2})
    refuses("payload_changed", created, store, payload={"a": True, "b": 2})


def test_queue_priority_labels_and_policy_are_no_part_of_the_fingerprint(store: JobStore) -> None:
    """A repeat may differ in how the job would be scheduled; the first one stands."""
    job_id = created(store, queue="a", priority=1)

    assert created(store, queue="b", priority=9, labels={"x": "y"}, policy="quick") == job_id
    assert store.status(job_id).queue == "a"


def test_keys_belong_to_their_owner_and_namespace(store: JobStore) -> None:
    """Two owners with one key have two jobs."""
    assert created(store) != created(store, owner="other")


def test_an_unkeyed_job_is_new_each_time(store: JobStore) -> None:
    """Without a key nothing is reused."""
    assert created(store, None) != created(store, None)


def test_queuing_claims_nothing(store: JobStore) -> None:
    """A created job has no attempt, and no lease."""
    status = store.status(created(store))

    assert (status.state, status.generation, status.lease) == (State.QUEUED, 0, None)


def test_fifty_threads_creating_one_key_make_one_job(store: JobStore) -> None:
    """All get equal receipts; exactly one is not reused."""
    request = JobRequest(owner="team", key="k", kind="index", payload=[1, 2])

    with ThreadPoolExecutor(50) as pool:
        receipts = list(pool.map(lambda _: store.create(request), range(50)))

    assert len({(r.job_id, r.sequence, r.state) for r in receipts}) == 1
    assert sorted(r.reused for r in receipts) == [False] + [True] * 49
    assert topics(store, receipts[0].job_id) == ["Created"]


def test_two_payloads_racing_for_one_key_make_one_job(store: JobStore) -> None:
    """Every loser is told that the payload changed; nobody gets a second job."""

    def create(number: int) -> CreateReceipt | str:
        try:
            return store.create(JobRequest(owner="team", key="k", kind="index", payload=number % 2))
        except JobledgerError as refusal:
            return refusal.code

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(create, range(50)))

    receipts = [answer for answer in answers if isinstance(answer, CreateReceipt)]
    assert len({receipt.job_id for receipt in receipts}) == 1
    assert len(receipts) == 25
    assert {answer for answer in answers if isinstance(answer, str)} == {"payload_changed"}


def test_a_batch_answers_each_item_for_itself(store: JobStore) -> None:
    """Repeats, a mismatch and a bad item fail or are reused alone; the order is kept."""
    requests = [JobRequest(owner="team", key=f"k{n}", kind="index", payload=n) for n in range(100)]
    requests[50] = requests[3]
    requests[60] = JobRequest(owner="team", key="k4", kind="index", payload="changed")
    requests[70] = JobRequest(owner="team", key="k70", kind="index", payload=(1, 2))

    answers = store.create_many(requests)

    assert [type(answer).__name__ for answer in answers].count("CreateReceipt") == 98
    assert answers[50] == CreateReceipt(answers[3].job_id, reused=True, sequence=1, state=State.QUEUED)  # type: ignore[union-attr]  # the fourth is a receipt
    assert getattr(answers[60], "code", "") == "payload_changed"
    assert getattr(answers[70], "code", "") == "unstorable_value"


def test_a_submission_belongs_to_one_identity_and_payload(store: JobStore) -> None:
    """The same pair is reused; the submission with anything else has changed; another for the identity exists."""
    job_id = created(store, "rebuild-42", submission="submit-42", payload=1)

    assert created(store, "rebuild-42", submission="submit-42", payload=1) == job_id
    refuses("payload_changed", created, store, "rebuild-42", submission="submit-42", payload=2)
    refuses("payload_changed", created, store, "rebuild-43", submission="submit-42", payload=1)
    refuses("job_exists", created, store, "rebuild-42", submission="submit-43", payload=1)
    assert store.counts()[State.QUEUED] == 1


def test_a_full_queue_admits_no_new_job_but_answers_known_keys(store: JobStore) -> None:
    """The depth counts queued jobs of that queue; what was created before is still answered."""
    known = created(store, "a", policy="shallow", queue="q")
    created(store, "b", policy="shallow", queue="q")

    refuses("admission_refused", created, store, "c", policy="shallow", queue="q")
    assert created(store, "a", policy="shallow", queue="q") == known
    assert created(store, "d", policy="shallow", queue="elsewhere")
    store.claim(known, worker="w")
    assert created(store, "c", policy="shallow", queue="q")


def test_an_unknown_policy_is_refused_and_named(store: JobStore) -> None:
    """The refusal lists the policies that exist."""
    error = refuses("unknown_policy", created, store, policy="nope")

    assert "quick" in str(error)


def test_the_resolved_policy_travels_with_the_job(store: JobStore) -> None:
    """A claim uses the lease of the policy under which the job was created."""
    lease = running(store, policy="quick")

    assert lease.span == timedelta(seconds=2)
    assert lease.status.limits.lease == timedelta(seconds=2)


def test_a_job_waits_for_its_time(store: JobStore, clock: ManualClock) -> None:
    """Before ready_at nobody can claim it, by name or as the next one."""
    job_id = created(store, ready_at=clock.now() + timedelta(minutes=5))

    refuses("not_ready", store.claim, job_id, worker="w")
    assert store.claim_next(worker="w") == []
    clock.advance(timedelta(minutes=5))
    assert [lease.job_id for lease in store.claim_next(worker="w")] == [job_id]


def test_bad_requests_are_refused_by_name(store: JobStore) -> None:
    """Each wrong field is named, and nothing is created."""
    for wrong in (
        {"owner": ""},
        {"owner": "x" * 256},
        {"kind": ""},
        {"key": ""},
        {"controls": ("pause", "pause")},
        {"controls": ("stop",)},
        {"labels": {f"l{n}": "" for n in range(33)}},
        {"priority": 2**31},
    ):
        refuses("invalid_request", created, store, **wrong)
    for wrong in ({"owner": "a\0"}, {"key": "a\0"}, {"queue": "\ud800"}, {"labels": {"a\0": ""}}):
        refuses("unstorable_value", created, store, **wrong)
    refuses("invalid_request", JobRequest, owner="a", kind="b", unknown=1)
    refuses("invalid_request", JobRequest, owner=1, kind="b")
    assert sum(store.counts().values()) == 0


def test_a_submission_without_a_key_may_be_repeated(store: JobStore) -> None:
    """The submission id alone finds the job again; with another payload it has changed."""
    job_id = created(store, None, submission="s-1", payload=1)

    assert created(store, None, submission="s-1", payload=1) == job_id
    refuses("payload_changed", created, store, None, submission="s-1", payload=2)
    assert store.counts()[State.QUEUED] == 1
