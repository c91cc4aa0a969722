"""Every command that changes a job, made ready to be given: the job stands where the command is accepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from jobledger import Effect, Fence, JobRequest, JobStore, Lease
from tests.contracts.jobs import created, running

LATER = datetime(2030, 1, 1, tzinfo=UTC)
BY: Mapping[str, Any] = {"by": "ann", "reason": "as planned"}
OTHERWISE: Mapping[str, Any] = {"by": "ann", "reason": "for another reason"}


class Call(Protocol):
    """Gives the command; ``changed`` gives it with other arguments."""

    def __call__(self, command_id: str | None, *, changed: bool = False) -> Any:
        """Give it and answer what the store answers."""
        ...


@dataclass(frozen=True, slots=True)
class Ready:
    """A command on a job; where the command makes the job, ``job_id`` is ``None`` and the answer has it."""

    call: Call
    job_id: str | None = None


def _new(key: str | None) -> Callable[[JobStore], Ready]:
    def ready(store: JobStore) -> Ready:
        def call(command_id: str | None, *, changed: bool = False) -> Any:
            request = JobRequest(owner="team", kind="index", key=key, payload={"n": 2 if changed else 1})
            return store.create(request, command_id=command_id)

        return Ready(call)

    return ready


def _rerun(store: JobStore) -> Ready:
    lease = running(store)
    store.complete(lease.fence, result=1)

    def call(command_id: str | None, *, changed: bool = False) -> Any:
        words = OTHERWISE if changed else BY
        return store.rerun(lease.job_id, key="again", from_checkpoint=True, **words, command_id=command_id)

    return Ready(call)


def _fork(store: JobStore) -> Ready:
    lease = running(store)
    store.record_unit(lease.fence, "u", {"big": "r" * 5_000})
    store.checkpoint(lease.fence, {"big": "s" * 5_000})

    def call(command_id: str | None, *, changed: bool = False) -> Any:
        return store.fork(lease.job_id, at_sequence=3 if changed else 4, key="again", **BY, command_id=command_id)

    return Ready(call)


def _claim(store: JobStore) -> Ready:
    job_id = created(store)

    def call(command_id: str | None, *, changed: bool = False) -> Any:
        token = None if command_id is None else "a-token"
        return store.claim(job_id, worker="w2" if changed else "w1", command_id=command_id, token=token)

    return Ready(call, job_id)


Write = Callable[[JobStore, Fence, str | None, bool], Any]


def _written(write: Write, before: Callable[[JobStore, Lease], object] | None = None) -> Callable[[JobStore], Ready]:
    """A write under the fence of a running job."""

    def ready(store: JobStore) -> Ready:
        lease = running(store)
        if before is not None:
            before(store, lease)

        def call(command_id: str | None, *, changed: bool = False) -> Any:
            return write(store, lease.fence, command_id, changed)

        return Ready(call, lease.job_id)

    return ready


def _checkpoint(store: JobStore, fence: Fence, command_id: str | None, changed: bool) -> Any:
    effect = Effect(resource="r", value=1, expected_version=0)
    return store.checkpoint(fence, {"next": 2 if changed else 1}, effects=[effect], command_id=command_id)


def _record_unit(store: JobStore, fence: Fence, command_id: str | None, changed: bool) -> Any:
    return store.record_unit(fence, "u", {"rows": 2 if changed else 1}, command_id=command_id)


def _report_progress(store: JobStore, fence: Fence, command_id: str | None, changed: bool) -> Any:
    return store.report_progress(fence, 2 if changed else 1, 3, command_id=command_id)


def _pause(store: JobStore, fence: Fence, command_id: str | None, changed: bool) -> Any:
    return store.pause(fence, {"next": 2 if changed else 1}, command_id=command_id)


def _defer(store: JobStore, fence: Fence, command_id: str | None, changed: bool) -> Any:
    return store.defer(fence, LATER.replace(month=2 if changed else 1), command_id=command_id)


def _fail_attempt(store: JobStore, fence: Fence, command_id: str | None, changed: bool) -> Any:
    return store.fail_attempt(fence, "it burnt" if changed else "it broke", command_id=command_id)


def _cancel(store: JobStore, fence: Fence, command_id: str | None, changed: bool) -> Any:
    return store.cancel(fence, {"at": 2 if changed else 1}, command_id=command_id)


def _complete(store: JobStore, fence: Fence, command_id: str | None, changed: bool) -> Any:
    return store.complete(fence, result={"big": ("b" if changed else "a") * 5_000}, command_id=command_id)


def _asked(
    control: str, job: Callable[[JobStore], str], before: Callable[[JobStore, str], object] | None = None
) -> Callable[[JobStore], Ready]:
    """What an operator asks of a job."""

    def ready(store: JobStore) -> Ready:
        job_id = job(store)
        if before is not None:
            before(store, job_id)

        def call(command_id: str | None, *, changed: bool = False) -> Any:
            return getattr(store, control)(job_id, **(OTHERWISE if changed else BY), command_id=command_id)

        return Ready(call, job_id)

    return ready


def _held(store: JobStore, job_id: str) -> None:
    store.hold(job_id, by="bob", reason="to look at it")


def _recover(store: JobStore) -> Ready:
    lease = running(store)
    store.advance_epoch("default", by="bob", reason="a new version")

    def call(command_id: str | None, *, changed: bool = False) -> Any:
        return store.recover(lease.job_id, by="ann" if changed else "engine", command_id=command_id)

    return Ready(call, lease.job_id)


def _advance_epoch(store: JobStore) -> Ready:
    def call(command_id: str | None, *, changed: bool = False) -> Any:
        return store.advance_epoch("default", **(OTHERWISE if changed else BY), command_id=command_id)

    return Ready(call)


def _running_id(store: JobStore) -> str:
    return running(store).job_id


COMMANDS: Mapping[str, Callable[[JobStore], Ready]] = {
    "create keyed": _new("new"),
    "create unkeyed": _new(None),
    "rerun": _rerun,
    "fork": _fork,
    "claim": _claim,
    "checkpoint": _written(_checkpoint),
    "record_unit": _written(_record_unit),
    "report_progress": _written(_report_progress),
    "pause": _written(_pause),
    "defer": _written(_defer),
    "fail_attempt": _written(_fail_attempt),
    "cancel": _written(_cancel, lambda store, lease: store.request_cancel(lease.job_id, **BY)),
    "complete": _written(_complete),
    "hold": _asked("hold", created),
    "hold, running": _asked("hold", _running_id),
    "release_hold": _asked("release_hold", created, _held),
    "resume": _asked("resume", created, _held),
    "request_cancel": _asked("request_cancel", created),
    "request_cancel, running": _asked("request_cancel", _running_id),
    "retry": _asked("retry", lambda store: created(store, ready_at=LATER)),
    "recover": _recover,
    "advance_epoch": _advance_epoch,
}
"""Each mutating command by its name, and how to bring a store to where it is accepted."""
