"""The workers' commands over HTTP; the steps of an attempt's writes are counted here, as they are in the library."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from jobledger.adapters.remote.calling import Line, Out, each_for_itself, quoted, stepped
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.wire.histories import UnitReceiptOut
from jobledger.adapters.wire.jobs import ControlReceiptOut
from jobledger.adapters.wire.working import (
    CompletedItem,
    CompletedItems,
    ExecutionOut,
    LeaseOut,
    LeasesOut,
    RenewalOut,
    RenewedItem,
    RenewedItems,
)
from jobledger.domain.answers import Progress
from jobledger.domain.bounds import error_text, require_batch, require_instant, require_lease, require_span
from jobledger.domain.decisions.working import Effect, stage
from jobledger.domain.errors import InvalidRequestError
from jobledger.domain.lease import Fence
from jobledger.domain.store import KEEP, Completion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from jobledger.domain.answers import ControlReceipt, ExecutionResult, Lease, Renewal, UnitReceipt
    from jobledger.domain.errors import JobledgerError
    from jobledger.domain.store.working import Keep
    from jobledger.domain.values import Json


class RemoteWork:
    """Claims, and everything that is written under a fence; raises what ``JobStore`` raises."""

    def __init__(self, line: Line) -> None:
        """Send commands over this line."""
        self._line = line
        self._entropy = SystemEntropy()

    def _id(self, command_id: str | None) -> str:
        return self._entropy.new_id() if command_id is None else command_id

    # Claims -----------------------------------------------------------------------------------------------------------

    def claim(
        self,
        job_id: str,
        *,
        worker: str,
        lease: timedelta | float | None = None,
        group: str = "default",
        epoch: int | None = None,
        respect_hold: bool = True,
        command_id: str | None = None,
        token: str | None = None,
    ) -> Lease:
        """Start the next attempt of a job; see ``JobStore.claim``. The fence's secret is made here."""
        body = {
            "worker": worker,
            "lease_s": None if lease is None else require_lease("lease", lease).total_seconds(),
            "group": group,
            "epoch": epoch,
            "respect_hold": respect_hold,
            "token": self._entropy.new_token() if token is None else token,
        }
        path = f"/jobs/{quoted('job_id', job_id)}/claim"
        return self._line.post(LeaseOut, path, body, command_id=self._id(command_id)).answer()

    def claim_next(
        self,
        *,
        worker: str,
        queues: Sequence[str] = ("default",),
        kinds: Sequence[str] | None = None,
        limit: int = 1,
        lease: timedelta | float | None = None,
        group: str = "default",
        epoch: int | None = None,
    ) -> list[Lease]:
        """Start attempts of jobs that are due; see ``JobStore.claim_next``.

        A lost reply leaves its leases to expire.
        """
        body = {
            "worker": worker,
            "queues": _names("queues", queues),
            "kinds": None if kinds is None else _names("kinds", kinds),
            "limit": limit,
            "lease_s": None if lease is None else require_lease("lease", lease).total_seconds(),
            "group": group,
            "epoch": epoch,
        }
        return [each.answer() for each in self._line.post(LeasesOut, "/claims", body, command_id=None).leases]

    # Writes -----------------------------------------------------------------------------------------------------------

    def renew(self, fence: Fence, *, command_id: str | None = None) -> Renewal:
        """Move the expiry of the lease on; see ``JobStore.renew``."""
        sent = _fence(fence)
        return self._line.post(RenewalOut, "/leases/renew", command_id=self._id(command_id), fence=sent).answer()

    def renew_many(self, fences: Sequence[Fence]) -> list[Renewal | JobledgerError]:
        """Renew many leases at once; see ``JobStore.renew_many``."""

        def send(texts: list[str]) -> list[RenewedItem]:
            return self._line.post(RenewedItems, "/batches/renew", {"fences": texts}, command_id=self._id(None)).items

        return each_for_itself(require_batch("fences", fences), lambda fence: _fence(fence).to_token(), send)

    def checkpoint(
        self,
        fence: Fence,
        state: Json,
        *,
        progress: Progress | float | None = None,
        effects: Sequence[Effect] = (),
        inside: Callable[[Any], object] | None = None,
        command_id: str | None = None,
    ) -> Renewal:
        """Save application state; see ``JobStore.checkpoint``."""
        _require_no_statements(inside)
        body: dict[str, Any] = {"state": state, "effects": _effects(effects)}
        if progress is not None:
            body["progress"] = _progress(progress)
        return self._write(RenewalOut, "checkpoint", fence, body, command_id).answer()

    def record_unit(self, fence: Fence, unit: str, receipt: Json, *, command_id: str | None = None) -> UnitReceipt:
        """Record that a unit was done; see ``JobStore.record_unit``."""
        return self._write(UnitReceiptOut, "unit", fence, {"unit": unit, "receipt": receipt}, command_id).answer()

    def report_progress(
        self,
        fence: Fence,
        done: float,
        total: float | None = None,
        message: str | None = None,
        *,
        command_id: str | None = None,
    ) -> Renewal:
        """Report how far the attempt is; see ``JobStore.report_progress``."""
        return self._write(
            RenewalOut, "progress", fence, _progress(Progress(done, total, message)), command_id
        ).answer()

    def pause(
        self, fence: Fence, state: Json | Keep = KEEP, *, effects: Sequence[Effect] = (), command_id: str | None = None
    ) -> ControlReceipt:
        """Park at a boundary; see ``JobStore.pause``."""
        return self._write(ControlReceiptOut, "pause", fence, _parked(state, effects), command_id).answer()

    def defer(
        self,
        fence: Fence,
        ready_at: datetime,
        state: Json | Keep = KEEP,
        *,
        effects: Sequence[Effect] = (),
        command_id: str | None = None,
    ) -> ControlReceipt:
        """Give the job back until an instant; see ``JobStore.defer``."""
        body = _parked(state, effects) | {"ready_at": require_instant("ready_at", ready_at).isoformat()}
        return self._write(ControlReceiptOut, "defer", fence, body, command_id).answer()

    def fail_attempt(
        self,
        fence: Fence,
        error: str | BaseException,
        *,
        retry_after: timedelta | float | None = None,
        command_id: str | None = None,
    ) -> ControlReceipt:
        """Report a failure; see ``JobStore.fail_attempt``."""
        wait = None if retry_after is None else require_span("retry_after", retry_after).total_seconds()
        body = {"error": error_text(error), "retry_after_s": wait}
        return self._write(ControlReceiptOut, "fail", fence, body, command_id).answer()

    def cancel(self, fence: Fence, boundary: Json = None, *, command_id: str | None = None) -> ControlReceipt:
        """Record that the attempt stopped for a cancel request; see ``JobStore.cancel``."""
        return self._write(ControlReceiptOut, "cancel", fence, {"boundary": boundary}, command_id).answer()

    def complete(
        self,
        fence: Fence,
        outcome: str = "complete",
        result: Json = None,
        error: str | None = None,
        effects: Sequence[Effect] = (),
        *,
        inside: Callable[[Any], object] | None = None,
        command_id: str | None = None,
    ) -> ExecutionResult:
        """Publish the terminal outcome; see ``JobStore.complete``."""
        _require_no_statements(inside)
        body = _completion(Completion(fence, outcome, result, error, effects))
        return self._write(ExecutionOut, "complete", fence, body, command_id).answer()

    def complete_many(self, completions: Sequence[Completion]) -> list[ExecutionResult | JobledgerError]:
        """Publish many outcomes at once; see ``JobStore.complete_many``."""
        batch = require_batch("completions", completions)
        fences = [item.fence for item in batch if isinstance(item, Completion) and isinstance(item.fence, Fence)]
        with ExitStack() as orders:
            for fence in sorted({id(fence.steps): fence for fence in fences}.values(), key=_place):
                orders.enter_context(fence.steps.order)
            return each_for_itself(batch, self._stepped, self._send_completions)

    def _stepped(self, item: object) -> dict[str, Any]:
        """One outcome as it is sent, with its step; its fence's order is held."""
        if not isinstance(item, Completion):
            raise InvalidRequestError("completions", f"a Completion is needed, not {type(item).__name__}")
        body = _completion(item)
        fence = stepped(_fence(item.fence), item.fence.steps.draw())
        return body | {"fence": fence.to_token(), "command_id": self._id(item.command_id)}

    def _send_completions(self, completions: list[dict[str, Any]]) -> list[CompletedItem]:
        body = {"completions": completions}
        return self._line.post(CompletedItems, "/batches/complete", body, command_id=self._id(None)).items

    def _write(self, model: type[Out], path: str, fence: Fence, body: dict[str, Any], command_id: str | None) -> Out:
        with _fence(fence).steps.order:
            sent = stepped(fence, fence.steps.draw())
            return self._line.post(model, f"/leases/{path}", body, command_id=self._id(command_id), fence=sent)


def _fence(fence: object) -> Fence:
    if not isinstance(fence, Fence):
        raise InvalidRequestError("fence", f"a Fence is needed, not {type(fence).__name__}; Lease.fence has it")
    return fence


def _place(fence: Fence) -> tuple[str, int]:
    return fence.job_id, fence.generation


def _names(field: str, values: object) -> list[Any]:
    if not isinstance(values, list | tuple | set | frozenset):
        raise InvalidRequestError(field, f"a list of texts is needed, not {type(values).__name__}")
    return list(values)


def _effects(effects: Sequence[Effect]) -> list[dict[str, Any]]:
    stage(effects)
    return [dict(effect) for effect in effects]


def _progress(progress: Progress | float) -> dict[str, Any]:
    if isinstance(progress, int | float):
        progress = Progress(progress)
    if not isinstance(progress, Progress):
        raise InvalidRequestError("progress", f"a Progress is needed, not {type(progress).__name__}")
    return {"done": progress.done, "total": progress.total, "message": progress.message}


def _parked(state: Json | Keep, effects: Sequence[Effect]) -> dict[str, Any]:
    body: dict[str, Any] = {"effects": _effects(effects)}
    return body if state is KEEP else body | {"state": state}


def _completion(item: Completion) -> dict[str, Any]:
    error = None if item.error is None else error_text(item.error)
    return {"outcome": item.outcome, "result": item.result, "error": error, "effects": _effects(item.effects)}


def _require_no_statements(inside: object) -> None:
    if inside is not None:
        raise InvalidRequestError("inside", "statements of yours need the store's own connection, not one over HTTP")
