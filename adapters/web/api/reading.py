"""Routes that read: none of them has an effect."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Header, Query, Request, Response
from fastapi.sse import EventSourceResponse
from starlette.responses import StreamingResponse

from jobledger.adapters.web.access import Auditor, Reader
from jobledger.adapters.web.api.parameters import (
    Cursor,
    JobId,
    JsonLines,
    Limit,
    NameQuery,
    OptionalName,
    Sequence,
    etag,
    instant_or_sequence,
    router,
)
from jobledger.adapters.web.job_events import JobEvents
from jobledger.adapters.web.refusing import documented
from jobledger.adapters.web.service import Face
from jobledger.adapters.web.showing import entry_out, status_out
from jobledger.adapters.web.streaming import event_stream
from jobledger.adapters.wire.controls import ControlsOut, EpochOut, SurveyOut
from jobledger.adapters.wire.histories import (
    EventOut,
    EventWindowOut,
    FeedOut,
    ResourceFoundOut,
    ResourceOut,
    TimelineOut,
    UnitOut,
    UnitPageOut,
    UnitReceiptOut,
    VerificationOut,
)
from jobledger.adapters.wire.jobs import CountsOut, FoundOut, JobPageOut, JobStatusOut
from jobledger.domain.bounds import INTEGER_MAX, NAME_CHARACTERS_MAX
from jobledger.domain.job import State
from jobledger.projections.cursors import CURSOR_CHARACTERS_MAX

routes = router("reading")

LastEventId = Annotated[str | None, Header(max_length=CURSOR_CHARACTERS_MAX)]
STREAMED: dict[int | str, Any] = {
    200: {
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
        "description": "JSON, or with `Accept: text/event-stream` a stream of events.",
    }
}


def _wants_stream(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")


@routes.get("/jobs", responses=documented())
def list_jobs(
    face: Face,
    caller: Reader,
    owner: OptionalName = None,
    kind: OptionalName = None,
    queue: OptionalName = None,
    state: State | None = None,
    label: Annotated[
        str | None, Query(max_length=2 * NAME_CHARACTERS_MAX + 1, description="A name, or name=value.")
    ] = None,
    key_prefix: OptionalName = None,
    held: bool | None = None,  # noqa: FBT001  # a filter, given by its name
    cursor: Cursor = None,
    limit: Limit = 50,
) -> JobPageOut:
    """Jobs that match every given filter, newest first."""
    name, equals, value = (label or "").partition("=")
    wanted = None if label is None else (name, value) if equals else name
    page = face.store.jobs(
        owner=caller.owner_for(owner),
        kind=kind,
        queue=queue,
        state=state,
        label=wanted,
        key_prefix=key_prefix,
        held=held,
        cursor=cursor,
        limit=limit,
    )
    jobs = [status_out(face, caller, job) for job in page.jobs]
    return JobPageOut(jobs=jobs, next_cursor=page.next_cursor, total=page.total, total_at_least=page.total_at_least)


@routes.get("/find", responses=documented())
def find_job(face: Face, caller: Reader, key: NameQuery, owner: OptionalName = None) -> FoundOut:
    """The job that an owner's key made, or null."""
    whose = caller.owner_for(owner)
    found = face.store.find(whose, key) if whose is not None else None
    return FoundOut(job=status_out(face, caller, found) if found else None)


@routes.get("/counts", responses=documented())
def count_jobs(
    face: Face,
    caller: Reader,
    owner: OptionalName = None,
    queue: OptionalName = None,
    at_most: Annotated[
        int | None, Query(ge=1, le=INTEGER_MAX, description="Count none further; that number means: at least.")
    ] = None,
) -> CountsOut:
    """How many jobs stand in each state: exactly, or as far as it is asked for."""
    return CountsOut.of(face.store.counts(owner=caller.owner_for(owner), queue=queue, at_most=at_most))


@routes.get("/jobs/{job_id}", responses=documented())
def read_job(
    face: Face,
    caller: Reader,
    response: Response,
    job_id: JobId,
    at: Annotated[str | None, Query(max_length=40, description="A sequence or an instant: the job as it was.")] = None,
) -> JobStatusOut:
    """A job's status now, or as it was at a sequence or an instant; a control's `If-Match` takes its `ETag`."""
    caller.require_sight(face.store, job_id)
    status = face.store.status(job_id, at=instant_or_sequence(at))
    response.headers["ETag"] = etag(status)
    return status_out(face, caller, status)


@routes.get("/jobs/{job_id}/controls", responses=documented())
def read_controls(face: Face, caller: Reader, response: Response, job_id: JobId) -> ControlsOut:
    """What may be asked of a job now, and why the rest may not."""
    caller.require_sight(face.store, job_id)
    response.headers["ETag"] = etag(face.store.status(job_id))
    return ControlsOut.of(face.store.controls(job_id))


@routes.get("/jobs/{job_id}/events", response_model=EventWindowOut, responses=STREAMED | documented())
async def read_events(
    request: Request,
    face: Face,
    caller: Reader,
    job_id: JobId,
    after: Sequence = 0,
    limit: Limit = 100,
    last_event_id: LastEventId = None,
) -> EventWindowOut | EventSourceResponse:
    """A bounded slice of a job's events behind a sequence; a gap is answered with a snapshot, never silent.

    As a stream, each event's id is its sequence; an event `reset` carries the snapshot at a gap.
    """
    reading = JobEvents(face, caller, job_id)
    if not _wants_stream(request):
        return await reading.window(after, limit)
    face.hub.require_room()
    resumed = int(last_event_id) if last_event_id and last_event_id.isascii() and last_event_id.isdigit() else after
    await reading.window(resumed, 1)
    return event_stream(reading.stream(resumed))


@routes.get("/jobs/{job_id}/history", response_class=JsonLines, responses=documented())
def read_history(face: Face, caller: Auditor, job_id: JobId) -> StreamingResponse:
    """Every event of a job from the first on, as JSON lines."""
    caller.require_sight(face.store, job_id)
    history = face.store.history(job_id)

    def lines() -> Iterator[str]:
        for event in history:
            yield f"{EventOut.of(event).model_dump_json()}\n"

    return JsonLines(lines())


@routes.get("/jobs/{job_id}/units", responses=documented())
def read_units(
    face: Face, caller: Reader, job_id: JobId, after: OptionalName = None, limit: Limit = 100
) -> UnitPageOut:
    """A job's unit receipts by name."""
    caller.require_sight(face.store, job_id)
    return UnitPageOut.of(face.store.units(job_id, after=after, limit=limit))


@routes.get("/jobs/{job_id}/unit", responses=documented())
def read_unit(face: Face, caller: Reader, job_id: JobId, name: NameQuery) -> UnitOut:
    """The receipt of one unit, or null."""
    caller.require_sight(face.store, job_id)
    found = face.store.unit(job_id, name)
    return UnitOut(unit=UnitReceiptOut.of(found) if found else None)


@routes.get("/jobs/{job_id}/timeline", responses=documented())
def read_timeline(face: Face, caller: Reader, job_id: JobId) -> TimelineOut:
    """A job's attempts and waits as spans, with checkpoints and units as marks."""
    caller.require_sight(face.store, job_id)
    return TimelineOut.of(face.store.timeline(job_id))


@routes.get("/jobs/{job_id}/verification", responses=documented())
def verify_job(face: Face, caller: Auditor, job_id: JobId) -> VerificationOut:
    """Whether every digest, fence and rule of a job's history holds, and the rows beside it."""
    caller.require_sight(face.store, job_id)
    return VerificationOut.of(face.store.verify(job_id))


@routes.get("/verifications", response_class=JsonLines, responses=documented())
def verify_all(face: Face, caller: Auditor) -> StreamingResponse:
    """Verify every history, jobs and worker groups, as JSON lines; for tokens that see every owner's jobs."""
    caller.require_every_owner()

    def lines() -> Iterator[str]:
        for verification in face.store.verify_all():
            yield f"{VerificationOut.of(verification).model_dump_json()}\n"

    return JsonLines(lines())


@routes.get("/survey", responses=documented())
def survey_leases(face: Face, caller: Reader) -> SurveyOut:
    """How many running leases there are, and how many were abandoned; for tokens that see every owner's jobs."""
    caller.require_every_owner()
    return SurveyOut.of(face.store.survey())


@routes.get("/resources", responses=documented())
def read_resource(face: Face, caller: Reader, name: NameQuery, owner: OptionalName = None) -> ResourceFoundOut:
    """A named resource of an owner, or null where there is none (version 0)."""
    whose = caller.owner_for(owner)
    found = face.store.resource(whose, name) if whose is not None else None
    return ResourceFoundOut(resource=ResourceOut.of(found) if found else None)


@routes.get("/epoch", responses=documented())
def read_group(face: Face, _: Reader, group: NameQuery) -> EpochOut:
    """The current epoch of a worker group."""
    return EpochOut(group=group, epoch=face.store.epoch(group))


@routes.get("/feed", response_model=FeedOut, responses=STREAMED | documented())
async def read_feed(
    request: Request,
    face: Face,
    caller: Reader,
    after: Cursor = None,
    limit: Limit = 100,
    topic: Annotated[list[str] | None, Query(max_length=20)] = None,
    owner: OptionalName = None,
    job_id: OptionalName = None,
    start: Annotated[Literal["beginning", "now"], Query()] = "beginning",
    wait_s: Annotated[float, Query(ge=0, le=30, description="Wait this long for something to happen.")] = 0.0,
    last_event_id: LastEventId = None,
) -> FeedOut | EventSourceResponse:
    """All jobs' events in position order behind a cursor; contiguous and resumable.

    `start=now` begins at the end; `wait_s` waits where there is nothing yet (long polling). As a stream, each event's
    id is its cursor, and an event `reset` cuts a slow reader off and says where to resume. `job_id` is for streams.
    """
    whose = caller.owner_for(owner)
    if _wants_stream(request):
        face.hub.require_room()
        cursor = last_event_id or after
        if cursor is not None:  # a stream that has begun could not refuse it any more
            await face.hub.ask(partial(face.store.feed, after=cursor, limit=1, owner=whose))
        is_from_now = cursor is None and start == "now"
        return event_stream(
            face.hub.stream(
                owner=whose,
                job_id=job_id,
                after=cursor,
                is_from_now=is_from_now,
                show=lambda entry: entry_out(face, caller, entry),
            )
        )
    if start == "now" and after is None:
        after = await face.hub.end_of(whose)
    asked = partial(face.store.feed, after=after, limit=limit, topics=topic or (), owner=whose)
    feed = await face.hub.ask(asked)
    if wait_s and not feed.entries:
        await face.hub.something_new(whose, wait_s)
        feed = await face.hub.ask(asked)
    return FeedOut(entries=[entry_out(face, caller, entry) for entry in feed.entries], cursor=feed.cursor)
