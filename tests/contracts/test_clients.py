"""The second names of the engine: DurableJobs with submissions and deadlines, JobClient, and the awaitable store."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from jobledger import AsyncJobStore, DurableJobs, JobClient, JobRequest, JobStore, ManualClock, State
from jobledger.domain.errors import DeadlineExceededError, StoreUnavailableError, UnknownJobError
from jobledger.domain.history import RecordedEvent
from tests.contracts.conftest import LEASE
from tests.contracts.jobs import refuses

SOON = timedelta(seconds=20)


def test_a_submission_is_followed_by_its_business_identity(local_store: JobStore, clock: ManualClock) -> None:
    """Submit, claim, checkpoint, lose the worker, take over from the saved number, complete, and read the result."""
    jobs = DurableJobs(local_store, owner="team", kind="rebuild")
    submitted = jobs.submit("submit-42", "rebuild-42", {"partition": "p7"}, SOON)
    lease = jobs.claim("rebuild-42", "w1", SOON)
    jobs.checkpoint(lease, 4, SOON)
    clock.advance(LEASE)

    taken = jobs.claim("rebuild-42", "w2", SOON)

    assert (submitted.key, submitted.state, submitted.reused) == ("rebuild-42", State.QUEUED, False)
    assert (taken.checkpoint, taken.generation) == (4, 2)
    refuses("stale_fence", jobs.renew, lease, SOON)
    assert jobs.complete(taken, "p7:complete", SOON).outcome == "complete"
    assert jobs.status("rebuild-42", SOON).result == "p7:complete"
    again = jobs.submit("submit-42", "rebuild-42", {"partition": "p7"}, SOON)
    assert (again.state, again.reused, again.job_id) == (State.COMPLETE, True, submitted.job_id)


def test_a_submission_id_and_an_identity_belong_together(local_store: JobStore) -> None:
    """The same submission with anything else has changed; another submission of the identity exists already."""
    jobs = DurableJobs(local_store, owner="team", kind="rebuild")
    jobs.submit("submit-42", "rebuild-42", 1, SOON)

    refuses("payload_changed", jobs.submit, "submit-42", "rebuild-42", 2, SOON)
    refuses("payload_changed", jobs.submit, "submit-42", "rebuild-43", 1, SOON)
    refuses("job_exists", jobs.submit, "submit-43", "rebuild-42", 1, SOON)
    refuses("unknown_job", jobs.status, "rebuild-43", SOON)


def test_a_deadline_that_has_passed_is_said_to_have_passed(store: JobStore, clock: ManualClock) -> None:
    """Before anything is sent; a deadline may be a span, a number of seconds, or an instant."""
    jobs = DurableJobs(store, owner="team", kind="rebuild")

    refuses("deadline_exceeded", jobs.submit, "s", "k", 1, 0)
    refuses("deadline_exceeded", jobs.submit, "s", "k", 1, clock.now() - timedelta(days=9_000))
    refuses("invalid_request", jobs.submit, "s", "k", 1, "soon")
    assert sum(store.counts().values()) == 0


def test_a_client_needs_no_workers_credentials(local_store: JobStore) -> None:
    """It submits under a logical id and reads the recorded result; a lost reply is answered by submitting again."""
    client = JobClient(local_store, "rebuild", owner="team")
    submitted = client.submit("rebuild-7", {"p": 7}, SOON)
    local_store.complete(local_store.claim(submitted.job_id, worker="w").fence, result="done")

    assert client.submit("rebuild-7", {"p": 7}, SOON).result == "done"
    assert client.status("rebuild-7", SOON).result == "done"
    refuses("payload_changed", client.submit, "rebuild-7", {"p": 8}, SOON)


def test_waiting_ends_with_the_job_or_with_its_deadline(store: JobStore) -> None:
    """The status is answered once it is terminal; else the wait says that its deadline passed."""
    job_id = store.create(JobRequest(owner="team", kind="k")).job_id
    refuses("deadline_exceeded", store.wait, job_id, 0.01)
    store.request_cancel(job_id, by="ops", reason="no use")

    assert store.wait(job_id, 1).state is State.CANCELLED


def test_the_awaitable_store_has_the_same_methods(local_store: JobStore) -> None:
    """Each is the blocking one, awaited; nothing is missing."""
    for_adapters = {"within", "through", "open", "setting", "completing"}  # they say how commands are run
    questions = {name for name in dir(JobStore) if not name.startswith("_")} - for_adapters

    assert questions <= set(dir(AsyncJobStore))

    async def follow() -> object:
        awaitable = AsyncJobStore(local_store)
        receipts = await asyncio.gather(
            *(awaitable.create(JobRequest(owner="team", key="k", kind="k")) for _ in range(20))
        )
        lease = await awaitable.claim(receipts[0].job_id, worker="w")
        await awaitable.complete(lease.fence, result=1)
        status = await awaitable.wait(lease.job_id, 5)
        return len({receipt.job_id for receipt in receipts}), status.result

    assert asyncio.run(follow()) == (1, 1)


def test_waits_take_no_thread_from_other_calls(local_store: JobStore) -> None:
    """However many wait, the store answers; and a wait that is cancelled keeps nobody who closes it."""
    job_id = local_store.create(JobRequest(owner="team", kind="k")).job_id

    async def follow() -> State:
        awaitable = AsyncJobStore(local_store, threads_max=1)
        waits = [asyncio.ensure_future(awaitable.wait(job_id, 3_600)) for _ in range(40)]
        waits.append(asyncio.ensure_future(awaitable.wait(job_id, timedelta(hours=1))))
        status = await awaitable.status(job_id)
        for each in waits:
            each.cancel()
        ends = await asyncio.gather(*waits, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        await awaitable.close()
        return status.state

    assert asyncio.run(asyncio.wait_for(follow(), 20)) is State.QUEUED


def test_one_cancelled_wait_leaves_the_others_waiting(local_store: JobStore) -> None:
    """They share one thread that watches, and it goes on for those who are left."""
    job_id = local_store.create(JobRequest(owner="team", kind="k")).job_id

    async def follow() -> State:
        awaitable = AsyncJobStore(local_store)
        dropped, kept = (asyncio.ensure_future(awaitable.wait(job_id, 20)) for _ in range(2))
        await awaitable.status(job_id)
        dropped.cancel()
        await awaitable.request_cancel(job_id, by="ops", reason="no use")
        return (await kept).state

    assert asyncio.run(follow()) is State.CANCELLED


def test_an_awaited_wait_ends_with_its_deadline(local_store: JobStore) -> None:
    """It says what it waited for, as the blocking one does."""
    job_id = local_store.create(JobRequest(owner="team", kind="k")).job_id

    async def follow() -> str:
        awaitable = AsyncJobStore(local_store)
        await awaitable.wait_for_change(0.01)
        with pytest.raises(DeadlineExceededError) as refusal:
            await awaitable.wait(job_id, 0.01)
        return str(refusal.value)

    assert job_id in asyncio.run(follow())


def test_a_closed_awaitable_store_says_that_it_was_closed(local_store: JobStore) -> None:
    """Whatever is asked of it, the error is one that callers of a store expect."""

    async def follow() -> None:
        awaitable = AsyncJobStore(local_store)
        await awaitable.close()
        for call in (awaitable.counts(), awaitable.wait("x", 1), awaitable.wait_for_change(1)):
            with pytest.raises(StoreUnavailableError, match="this store was closed"):
                await call

    asyncio.run(follow())


def test_histories_and_verifications_are_read_as_they_come(local_store: JobStore) -> None:
    """Nothing is read before it is asked for, and what is read is what the blocking store gives."""
    job_ids = sorted(local_store.create(JobRequest(owner="team", kind="k")).job_id for _ in range(3))

    async def follow() -> tuple[list[RecordedEvent], list[str]]:
        awaitable = AsyncJobStore(local_store)
        events = [event async for event in awaitable.history(job_ids[0])]
        with pytest.raises(UnknownJobError):
            [event async for event in awaitable.history("nobody")]
        return events, [found.job_id async for found in awaitable.verify_all() if found.ok]

    assert asyncio.run(follow()) == (list(local_store.history(job_ids[0])), job_ids)
