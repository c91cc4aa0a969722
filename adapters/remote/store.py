"""``RemoteStore``: what callers and operators ask over HTTP, and every question."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self

from jobledger.adapters import telemetry
from jobledger.adapters.bootstrap import LOOK_EVERY
from jobledger.adapters.remote.calling import ANY, Line, each_for_itself, quoted
from jobledger.adapters.remote.projecting import RemoteProjections
from jobledger.adapters.remote.queueing import RemoteQueues
from jobledger.adapters.remote.scheduling import RemoteSchedules
from jobledger.adapters.remote.working import RemoteWork
from jobledger.adapters.wire.controls import ControlsOut, EpochOut, RebuildOut, RecoveriesOut, SurveyOut
from jobledger.adapters.wire.histories import (
    EventOut,
    EventWindowOut,
    FeedOut,
    ResourceFoundOut,
    TimelineOut,
    UnitOut,
    UnitPageOut,
    VerificationOut,
)
from jobledger.adapters.wire.jobs import (
    ControlReceiptOut,
    CountsOut,
    CreateReceiptOut,
    FoundOut,
    JobPageOut,
    JobStatusOut,
)
from jobledger.adapters.wire.working import CreatedItem, CreatedItems
from jobledger.domain.bounds import (
    PAGE_MAX,
    require_batch,
    require_instant,
    require_integer,
    require_span,
    require_text,
)
from jobledger.domain.decisions.creating import JobRequest
from jobledger.domain.decisions.sweeping import Dead
from jobledger.domain.errors import DeadlineExceededError, InvalidRequestError
from jobledger.domain.job import ENGINE, State
from jobledger.domain.store import PATIENCE
from jobledger.domain.store.base import require_expected
from jobledger.projections.windows import following, position_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    import httpx

    from jobledger.domain.answers import ControlReceipt, Controls, CreateReceipt, JobStatus, Resource, UnitReceipt
    from jobledger.domain.errors import JobledgerError
    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.store.sweeping import Survey
    from jobledger.projections.audit import Verification
    from jobledger.projections.auditing import RebuildReport
    from jobledger.projections.pages import JobPage, UnitPage
    from jobledger.projections.timeline import Timeline
    from jobledger.projections.windows import EventWindow, Feed, FeedEntry

POLL_S: Final = 20


class RemoteStore(RemoteWork, RemoteProjections, AbstractContextManager["RemoteStore"]):
    """A ``JobStore`` behind ``jobledger serve``: the same methods, the same answers, the same errors.

    Calls are repeated under their command ids while the server does not answer, as long as ``patience`` lasts. What
    needs the store's own connection (``connection=``, ``inside=``) is refused. Safe to share between threads.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        patience: timedelta | float = PATIENCE,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Work on the store that is served at ``url``; ``token`` is one that ``jobledger tokens create`` made.

        Raises:
            InvalidRequestError: the address is none.
        """
        span = require_span("patience", patience)
        super().__init__(Line.to(url, token=token, patience=span, transport=transport))

    def within(self, patience: timedelta | float) -> Self:
        """The same store for calls that wait at most ``patience`` for an answer."""
        store = type(self).__new__(type(self))
        RemoteWork.__init__(store, self._line.within(require_span("patience", patience)))
        return store

    def close(self) -> None:
        """Close the connections."""
        self._line.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    @property
    def queues(self) -> RemoteQueues:
        """Limits and holds of queues; see ``JobStore.queues``."""
        return RemoteQueues(self._line)

    @property
    def schedules(self) -> RemoteSchedules:
        """Recurring jobs; see ``JobStore.schedules``."""
        return RemoteSchedules(self._line)

    # Creating ---------------------------------------------------------------------------------------------------------

    def create(
        self, request: JobRequest, *, connection: object | None = None, command_id: str | None = None
    ) -> CreateReceipt:
        """Create a job, or answer the receipt of the one that was made before; see ``JobStore.create``."""
        if connection is not None:
            raise InvalidRequestError("connection", "a transaction of yours cannot be joined over HTTP")
        known_id = self._id(command_id)

        def create(asked: JobRequest) -> CreateReceipt:
            return self._line.post(CreateReceiptOut, "/jobs", _job(asked), command_id=known_id).answer()

        return telemetry.sent(request, create)

    def create_many(self, requests: Sequence[JobRequest]) -> list[CreateReceipt | JobledgerError]:
        """Create many jobs at once; see ``JobStore.create_many``. Those without a key are not repeated safely."""

        def send(jobs: list[dict[str, Any]]) -> list[CreatedItem]:
            is_keyed = all(job["key"] is not None for job in jobs)
            command_id = self._id(None) if is_keyed else None
            return self._line.post(CreatedItems, "/batches/create", {"jobs": jobs}, command_id=command_id).items

        return telemetry.sent_many(
            require_batch("requests", requests), lambda asked: each_for_itself(asked, _job, send)
        )

    def rerun(
        self,
        job_id: str,
        *,
        by: str,
        reason: str,
        key: str,
        from_checkpoint: bool = False,
        command_id: str | None = None,
    ) -> CreateReceipt:
        """Run an ended job again; see ``JobStore.rerun``."""
        body = {"by": by, "reason": reason, "key": key, "from_checkpoint": from_checkpoint}
        return self._line.post(CreateReceiptOut, _path(job_id, "rerun"), body, command_id=self._id(command_id)).answer()

    def fork(
        self, job_id: str, *, at_sequence: int, by: str, reason: str, key: str, command_id: str | None = None
    ) -> CreateReceipt:
        """Start a new job from what a job was at a sequence; see ``JobStore.fork``."""
        body = {"by": by, "reason": reason, "key": key, "at_sequence": at_sequence}
        return self._line.post(CreateReceiptOut, _path(job_id, "fork"), body, command_id=self._id(command_id)).answer()

    # Operating --------------------------------------------------------------------------------------------------------

    def hold(
        self, job_id: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ControlReceipt:
        """Place a stop sign; see ``JobStore.hold``."""
        return self._ask("hold", job_id, by, reason, expected_sequence, command_id)

    def release_hold(
        self, job_id: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ControlReceipt:
        """Take the stop sign away; see ``JobStore.release_hold``."""
        return self._ask("release", job_id, by, reason, expected_sequence, command_id)

    def resume(
        self, job_id: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ControlReceipt:
        """Put a paused job that was never leased back into its queue; see ``JobStore.resume``."""
        return self._ask("resume", job_id, by, reason, expected_sequence, command_id)

    def request_cancel(
        self, job_id: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ControlReceipt:
        """Cancel what is not running, or ask what runs to stop; see ``JobStore.request_cancel``."""
        return self._ask("cancel", job_id, by, reason, expected_sequence, command_id)

    def retry(
        self, job_id: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ControlReceipt:
        """Make waiting or parked work due now; see ``JobStore.retry``."""
        return self._ask("retry", job_id, by, reason, expected_sequence, command_id)

    def recover(self, job_id: str, *, by: str = ENGINE, command_id: str | None = None) -> ControlReceipt:
        """Park a running job whose lease is not live; see ``JobStore.recover``."""
        body = {} if by == ENGINE else {"by": by}
        sent_id = self._id(command_id)
        return self._line.post(ControlReceiptOut, _path(job_id, "recover"), body, command_id=sent_id).answer()

    def recover_expired(self, limit: int = 100, *, which: Dead | str = Dead.ALL) -> list[ControlReceipt]:
        """Recover jobs whose lease is not live; see ``JobStore.recover_expired``."""
        body = {"limit": limit, "which": which.value if isinstance(which, Dead) else which}
        found = self._line.post(RecoveriesOut, "/recoveries", body, command_id=self._id(None))
        return [each.answer() for each in found.recovered]

    def survey(self) -> Survey:
        """How many running leases there are, and how many of them were abandoned."""
        return self._line.get(SurveyOut, "/survey").answer()

    def epoch(self, group: str) -> int:
        """The current epoch of a worker group."""
        return self._line.get(EpochOut, "/epoch", group=group).epoch

    def advance_epoch(self, group: str, *, by: str, reason: str, command_id: str | None = None) -> int:
        """Fence off all work of a group's current epoch; see ``JobStore.advance_epoch``."""
        body = {"group": group, "by": by, "reason": reason}
        return self._line.post(EpochOut, "/epoch", body, command_id=self._id(command_id)).epoch

    def _ask(
        self, control: str, job_id: str, by: str, reason: str, expected: int | None, command_id: str | None
    ) -> ControlReceipt:
        sequence = require_expected(expected)
        seen = ANY if sequence is None else f'"0-{sequence}"'
        body = {"by": by, "reason": reason}
        sent_id = self._id(command_id)
        answered = self._line.post(
            ControlReceiptOut, _path(job_id, control), body, command_id=sent_id, headers={"If-Match": seen}
        )
        return answered.answer()

    # Questions --------------------------------------------------------------------------------------------------------

    def status(self, job_id: str, *, at: int | datetime | None = None) -> JobStatus:
        """A job's status now, or as it was; see ``JobStore.status``."""
        if at is not None and type(at) is not int and not isinstance(at, datetime):
            raise InvalidRequestError("at", f"a sequence or an instant is needed, not {type(at).__name__}")
        place = require_instant("at", at).isoformat() if isinstance(at, datetime) else at
        return self._line.get(JobStatusOut, _path(job_id), at=place).answer()

    def find(self, owner: str, key: str) -> JobStatus | None:
        """The job that an owner's key made, or ``None``."""
        found = self._line.get(FoundOut, "/find", owner=owner, key=key).job
        return found.answer() if found else None

    def wait(self, job_id: str, timeout: timedelta | float) -> JobStatus:
        """Wait until a job is terminal; see ``JobStore.wait``."""
        deadline = time.monotonic() + require_span("timeout", timeout).total_seconds()
        while not (status := self.status(job_id)).is_terminal:
            left = deadline - time.monotonic()
            if left <= 0:
                waited_for = f"job {job_id}, which is {status.state.value}, to end"
                raise DeadlineExceededError(waited_for)
            self.wait_for_change(min(LOOK_EVERY, timedelta(seconds=left)))
        return status

    def wait_for_change(self, timeout: timedelta | float) -> None:
        """Return when something may have been appended, at the latest after ``timeout``; a hint, never a promise."""
        wait_s = min(require_span("timeout", timeout).total_seconds(), POLL_S)
        self._line.get(FeedOut, "/feed", start="now", wait_s=wait_s, limit=1)

    def events(self, job_id: str, *, after: int = 0, limit: int = 100) -> EventWindow:
        """A bounded slice of a job's events; see ``JobStore.events``."""
        require_integer("limit", limit, 1, 2**63 - 1)
        size = min(limit, PAGE_MAX)
        return self._line.get(EventWindowOut, _path(job_id, "events"), after=after, limit=size).answer()

    def history(self, job_id: str) -> Iterator[RecordedEvent]:
        """Every event of a job from the first on, streamed; see ``JobStore.history``."""
        for line in self._line.lines(_path(job_id, "history")):
            yield EventOut.model_validate_json(line, strict=False).answer()

    def timeline(self, job_id: str) -> Timeline:
        """A job's attempts as spans; see ``JobStore.timeline``."""
        return self._line.get(TimelineOut, _path(job_id, "timeline")).answer()

    def units(self, job_id: str, *, after: str | None = None, limit: int = 100) -> UnitPage:
        """A job's unit receipts by name; see ``JobStore.units``."""
        require_integer("limit", limit, 1, 2**63 - 1)
        return self._line.get(UnitPageOut, _path(job_id, "units"), after=after, limit=min(limit, PAGE_MAX)).answer()

    def unit(self, job_id: str, unit: str) -> UnitReceipt | None:
        """The receipt of one unit, or ``None``."""
        found = self._line.get(UnitOut, _path(job_id, "unit"), name=unit).unit
        return found.answer() if found else None

    def controls(self, job_id: str) -> Controls:
        """What may be asked of a job now, and why the rest may not; see ``JobStore.controls``."""
        return self._line.get(ControlsOut, _path(job_id, "controls")).answer()

    def jobs(
        self,
        *,
        owner: str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        state: State | str | None = None,
        label: str | tuple[str, str] | None = None,
        key_prefix: str | None = None,
        held: bool | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> JobPage:
        """Jobs that match every given filter, newest first; see ``JobStore.jobs``."""
        require_integer("limit", limit, 1, 2**63 - 1)
        position_of(cursor)
        page = self._line.get(
            JobPageOut,
            "/jobs",
            owner=_text("owner", owner),
            kind=_text("kind", kind),
            queue=_text("queue", queue),
            state=state.value if isinstance(state, State) else state,
            label=_label(label),
            key_prefix=_text("key_prefix", key_prefix),
            held=held,
            cursor=cursor,
            limit=min(limit, PAGE_MAX),
        )
        return page.answer()

    def counts(
        self, *, owner: str | None = None, queue: str | None = None, at_most: int | None = None
    ) -> Mapping[State, int]:
        """How many jobs stand in each state; see ``JobStore.counts``."""
        return self._line.get(CountsOut, "/counts", owner=owner, queue=queue, at_most=at_most).answer()

    def feed(
        self,
        *,
        after: str | None = None,
        limit: int = 100,
        topics: Sequence[str] = (),
        owner: str | None = None,
        wait: timedelta | float = timedelta(0),
    ) -> Feed:
        """All jobs' events in position order behind a cursor; see ``JobStore.feed``."""
        require_integer("limit", limit, 1, 2**63 - 1)
        size, topic = min(limit, PAGE_MAX), list(topics)
        position_of(after)
        deadline = time.monotonic() + require_span("wait", wait).total_seconds()
        while True:
            wait_s = min(max(deadline - time.monotonic(), 0.0), POLL_S)
            asked = {"after": after, "limit": size, "topic": topic, "owner": owner, "wait_s": wait_s}
            page = self._line.get(FeedOut, "/feed", **asked).answer()
            if page.entries or time.monotonic() >= deadline:
                return page
            after = page.cursor

    def feed_end(self) -> str:
        """The cursor at the end of the feed; see ``JobStore.feed_end``."""
        return self._line.get(FeedOut, "/feed", start="now", limit=1).cursor

    def follow(
        self,
        *,
        after: str | None = None,
        topics: Sequence[str] = (),
        owner: str | None = None,
        idle: timedelta | float | None = None,
    ) -> Iterator[FeedEntry]:
        """Every event behind a cursor, and then each as it comes; see ``JobStore.follow``."""
        wait = timedelta(hours=1) if idle is None else require_span("idle", idle)

        def ask(cursor: str | None) -> Feed:
            return self.feed(after=cursor, limit=PAGE_MAX, topics=topics, owner=owner, wait=wait)

        return following(ask, after, is_endless=idle is None)

    def resource(self, owner: str, name: str) -> Resource | None:
        """A named resource of an owner; ``None``: absent (version 0)."""
        found = self._line.get(ResourceFoundOut, "/resources", owner=owner, name=name).resource
        return found.answer() if found else None

    def verify(self, job_id: str) -> Verification:
        """Check a job's whole history and the rows beside it; see ``JobStore.verify``."""
        return self._line.get(VerificationOut, _path(job_id, "verification")).answer()

    def verify_all(self) -> Iterator[Verification]:
        """Verify every history, jobs and worker groups; see ``JobStore.verify_all``."""
        for line in self._line.lines("/verifications"):
            yield VerificationOut.model_validate_json(line, strict=False).answer()

    def rebuild(self, projection: str) -> RebuildReport:
        """Rebuild a projection from the events; see ``JobStore.rebuild``."""
        body = {"projection": projection}
        return self._line.post(RebuildOut, "/rebuilds", body, command_id=self._id(None)).answer()


def _path(job_id: str, rest: str = "") -> str:
    path = f"/jobs/{quoted('job_id', job_id)}"
    return f"{path}/{rest}" if rest else path


def _text(field: str, value: object) -> str | None:
    return None if value is None else require_text(field, value, empty=True)


def _label(label: object) -> str | None:
    """A label's filter as it travels: a name, or ``name=value``."""
    if not isinstance(label, tuple):
        return _text("label", label)
    if len(label) != 2:  # noqa: PLR2004  # a name and a value
        raise InvalidRequestError("label", "a name, or a tuple of a name and a value, is needed")
    return f"{require_text('label', label[0])}={require_text('label', label[1], empty=True)}"


def _job(request: object) -> dict[str, Any]:
    if not isinstance(request, JobRequest):
        raise InvalidRequestError("request", f"a JobRequest is needed, not {type(request).__name__}")
    body = dict(request) | {"controls": list(request.controls)}
    if request.ready_at is not None:
        body["ready_at"] = request.ready_at.isoformat()
    return body
