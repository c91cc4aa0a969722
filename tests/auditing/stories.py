"""Stories that leave every kind of event behind, told to a store; the bundles of them are what tests look at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from jobledger import Effect, JobRequest, JobStore, ManualClock, Policy, Schedule
from jobledger.projections.bundles import Scope, export

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger import Lease

NOON: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
OPS: Final[Any] = {"by": "ops", "reason": "look"}
POLICIES: Final = {
    "fragile": Policy(lease=2, interrupts_max=2, failures_max=2),
    "stepwise": Policy(window_events_max=40),
    "forgetful": Policy(checkpoints_keep=1),
}


def opened(url: str = "memory:", clock: ManualClock | None = None) -> JobStore:
    """A store with a clock that only the story moves."""
    return JobStore.open(url, clock=clock or ManualClock(NOON), policies=POLICIES)


def bundle_of(store: JobStore, job_id: str | None = None) -> bytes:
    """Everything in a store, or one job, as an unpacked bundle."""
    parts: list[bytes] = []
    with store._setting.storage.reading() as reader:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # a view
        export(reader, Scope(store.namespace, job_id), parts.append, made_by="a test", made_at=NOON)
    return b"".join(parts)


def told(story: Callable[[JobStore, ManualClock], object]) -> bytes:
    """The bundle of a story."""
    clock = ManualClock(NOON)
    with opened(clock=clock) as store:
        story(store, clock)
        return bundle_of(store)


def _job(store: JobStore, key: str = "k", **given: Any) -> str:
    request: dict[str, Any] = {"owner": "team", "kind": "index", "key": key} | given
    return store.create(JobRequest(**request)).job_id


def _lease(store: JobStore, key: str = "k", **given: Any) -> Lease:
    return store.claim(_job(store, key, **given), worker="w1")


def completed(store: JobStore, clock: ManualClock) -> None:
    lease = _lease(store, payload={"part": "p7"}, labels={"quarter": "3"}, submission="s-1")
    store.record_unit(lease.fence, "u0", {"rows": 1})
    store.report_progress(lease.fence, 1, 3, "one")
    clock.advance(timedelta(seconds=1.5))
    store.checkpoint(lease.fence, {"next": 1}, effects=[Effect(resource="r", value=[1], expected_version=0)])
    store.complete(lease.fence, result={"ok": True}, effects=[Effect(resource="r", value=[2], expected_version=1)])


def bodies(store: JobStore, clock: ManualClock) -> None:
    lease = _lease(store, payload="ü" * 5_000, policy="forgetful")
    for n in range(3):
        store.checkpoint(lease.fence, f"{n}" * 5_000)
    store.record_unit(lease.fence, "u0", "r" * 5_000)
    clock.advance(timedelta(seconds=1))
    store.complete(
        lease.fence,
        result='x\u2028\\"' * 2_000,
        effects=[Effect(resource="big", value="v" * 9_000, expected_version=0)],
    )


def taken_over(store: JobStore, clock: ManualClock) -> None:
    lease = _lease(store)
    store.checkpoint(lease.fence, 1)
    clock.advance(timedelta(seconds=31))
    lease = store.claim(lease.job_id, worker="w2")
    clock.advance(timedelta(seconds=40))
    store.renew(lease.fence)
    store.complete(lease.fence, "unavailable", error="the index host is gone")


def crash_loop(store: JobStore, clock: ManualClock) -> None:
    lease = _lease(store, policy="fragile")
    for _ in range(2):
        clock.advance(timedelta(seconds=3))
        store.recover(lease.job_id)
        if store.status(lease.job_id).hold is None:
            lease = store.claim(lease.job_id, worker="w2")
    store.release_hold(lease.job_id, **OPS)
    store.claim(lease.job_id, worker="w3")


def failures(store: JobStore, clock: ManualClock) -> None:
    lease = _lease(store, policy="fragile")
    store.fail_attempt(lease.fence, "broke")
    store.retry(lease.job_id, **OPS)
    lease = store.claim(lease.job_id, worker="w2")
    store.fail_attempt(lease.fence, "broke again")
    clock.advance(timedelta(hours=1))
    lease = store.claim(lease.job_id, worker="w3")
    store.fail_attempt(lease.fence, "for good")


def held(store: JobStore, clock: ManualClock) -> None:
    job_id = _job(store)
    store.hold(job_id, **OPS)
    store.resume(job_id, **OPS)
    lease = store.claim(job_id, worker="w1")
    store.hold(job_id, **OPS)
    store.pause(lease.fence, {"at": 1})
    clock.advance(timedelta(minutes=1))
    store.release_hold(job_id, **OPS)
    lease = store.claim(job_id, worker="w2")
    store.defer(lease.fence, clock.now() + timedelta(hours=1))
    clock.advance(timedelta(hours=2))
    lease = store.claim(job_id, worker="w3")
    store.pause(lease.fence)
    store.hold(job_id, **OPS)
    store.claim(job_id, worker="w4", respect_hold=False)


def cancelled(store: JobStore, clock: ManualClock) -> None:
    store.request_cancel(_job(store, "waiting"), **OPS)
    lease = _lease(store, "running")
    store.record_unit(lease.fence, "u", 1)
    store.request_cancel(lease.job_id, **OPS)
    store.cancel(lease.fence, {"stopped": "clean"})
    lease = _lease(store, "lost")
    store.request_cancel(lease.job_id, **OPS)
    clock.advance(timedelta(minutes=1))
    store.recover(lease.job_id)
    lease = _lease(store, "pausing")
    store.request_cancel(lease.job_id, **OPS)
    store.pause(lease.fence, "last")


def groups(store: JobStore, clock: ManualClock) -> None:
    lease = _lease(store)
    clock.advance(timedelta(seconds=1))
    store.advance_epoch("default", by="ops", reason="release")
    clock.advance(timedelta(seconds=1))
    store.claim(lease.job_id, worker="w2")
    store.advance_epoch("gpu", by="ops", reason="driver")
    store.advance_epoch("default", by="ops", reason="release")
    store.recover(lease.job_id)


def derived(store: JobStore, clock: ManualClock) -> None:
    lease = _lease(store, payload="p" * 5_000)
    store.record_unit(lease.fence, "u0", "r" * 5_000)
    store.record_unit(lease.fence, "u1", 1)
    store.checkpoint(lease.fence, "s" * 5_000)
    fork = store.fork(lease.job_id, at_sequence=4, key="forked", **OPS)
    clock.advance(timedelta(seconds=1))
    store.complete(lease.fence, "partial", result=1, error="half")
    store.rerun(lease.job_id, key="again", from_checkpoint=True, **OPS)
    lease = store.claim(fork.job_id, worker="w2")
    store.record_unit(lease.fence, "u2", 2)


def shared(store: JobStore, clock: ManualClock) -> None:
    for n in range(3):
        lease = _lease(store, f"k{n}")
        clock.advance(timedelta(milliseconds=7))
        store.complete(lease.fence, result=n, effects=[Effect(resource="total", value=n, expected_version=n)])


def long(store: JobStore, clock: ManualClock) -> None:
    lease = _lease(store, policy="stepwise")
    for n in range(60):
        clock.advance(timedelta(seconds=1))
        store.report_progress(lease.fence, n, 60)


def scheduled(store: JobStore, clock: ManualClock) -> None:
    store.schedules.put(Schedule(name="nightly", kind="index", owner="team", every=timedelta(hours=1)), by="ops")
    for _ in range(3):
        clock.advance(timedelta(hours=1))
        store.schedules.fire_due()
    store.schedules.hold("nightly", by="ops", reason="disk")
    clock.advance(timedelta(hours=5))
    store.schedules.release("nightly", by="ops", reason="mended")
    store.schedules.fire_due()
    store.schedules.remove("nightly", by="ops", reason="over")


STORIES: Final[dict[str, Callable[[JobStore, ManualClock], object]]] = {
    story.__name__: story
    for story in (
        completed,
        bodies,
        taken_over,
        crash_loop,
        failures,
        held,
        cancelled,
        groups,
        derived,
        shared,
        long,
        scheduled,
    )
}
"""Every story by its name."""
