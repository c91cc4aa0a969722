"""Tables for people: jobs, one job, its events, units and controls, in any width, with other people's text escaped."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from jobledger.adapters.terminal.texts import age, clipped, clock, compact, dated, exact, instant, many, span, visible
from jobledger.domain.job import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import RenderableType

    from jobledger.domain.answers import Controls, JobStatus, UnitReceipt
    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.values import Json
    from jobledger.projections.audit import Verification
    from jobledger.projections.pages import JobPage
    from jobledger.projections.windows import EventWindow, FeedEntry

STATE_STYLES: Final[dict[State, str]] = {
    State.QUEUED: "cyan",
    State.RUNNING: "bold blue",
    State.PAUSED: "yellow",
    State.COMPLETE: "green",
    State.PARTIAL: "green dim",
    State.FAILED: "bold red",
    State.UNAVAILABLE: "red",
    State.CANCELLED: "magenta",
}

COMMANDS: Final = {"release_hold": "release", "request_cancel": "cancel"}
"""What the command line calls those of the store's commands that have another name there."""

HIDDEN: Final = frozenset({"at", "job_id", "namespace", "generation", "token_digest", "fingerprint"})
"""Fields of events that a table leaves out: they stand in other columns, or say nothing to people."""

RENEWING: Final = frozenset({"Checkpointed", "UnitRecorded", "ProgressReported"})
"""Events that also renew the lease, which is not what they are about."""

USUAL: Final[dict[str, Any]] = {
    "policy": "default",
    "queue": "default",
    "group": "default",
    "priority": 0,
    "units": 0,
    "epoch": 1,
    "respects_hold": True,
    "controls": ["pause", "cancel", "retry"],
}
"""Values of events that a table leaves out, since they say that nothing special was asked for."""

CELL: Final = 120
VALUE: Final = 2_000


def state_text(state: State) -> Text:
    """A state in its colour."""
    return Text(state.value, style=STATE_STYLES[state])


def table(*columns: str, right: Sequence[str] = (), whole: Sequence[str] = ()) -> Table:
    """An open table without a frame, with ``right`` aligned columns, and ``whole`` ones that never wrap."""
    built = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for name in columns:
        built.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name in whole,
            overflow="fold",
            min_width=len(name),
        )
    return built


def pairs(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    """Names and values, one pair on each line."""
    built = Table.grid(padding=(0, 2, 0, 0))
    built.add_column(no_wrap=True, style="bold")
    built.add_column(overflow="fold")
    for name, value in rows:
        built.add_row(name, value)
    return built


# Many jobs ------------------------------------------------------------------------------------------------------------


def jobs_table(page: JobPage, now: datetime) -> RenderableType:
    """A page of jobs, newest first."""
    if not page.jobs:
        return Text("no jobs match")
    built = table(
        "id", "state", "gen", "kind", "owner/key", "changed", right=("gen",), whole=("id", "state", "gen", "changed")
    )
    for job in page.jobs:
        state = state_text(job.state)
        if job.hold and not job.is_terminal:
            state.append(" held", style="yellow")
        built.add_row(
            Text(visible(job.job_id)),
            state,
            str(job.generation),
            Text(clipped(visible(job.kind), CELL)),
            Text(clipped(visible(_business(job)), CELL)),
            age(job.updated_at, now),
        )
    return built


def jobs_footer(page: JobPage) -> Text:
    """How many jobs match, and how to read on."""
    total = f"more than {page.total_at_least:,} jobs" if page.total is None else many(page.total, "job")
    text = f"{len(page.jobs):,} of {total}"
    return Text(f"{text}; read on with --cursor {page.next_cursor}" if page.next_cursor else text, style="dim")


def counts_line(counts: Mapping[State, int]) -> Text:
    """How many jobs stand in each state that has any."""
    parts = [Text.assemble(state_text(state), f" {count:,}") for state, count in counts.items() if count]
    return Text(" · ").join(parts)


def _business(job: JobStatus) -> str:
    return f"{job.owner}/{job.key}" if job.key is not None else job.owner


# One job --------------------------------------------------------------------------------------------------------------


def status_table(status: JobStatus, now: datetime, controls: Controls | None = None, *, is_past: bool = False) -> Table:
    """Everything about one job; ``controls``: what may be asked of it now, ``is_past``: it is as the job stood then."""
    then = status.updated_at if is_past else now
    rows = [*_identity_rows(status), *_course_rows(status, now, then), *_work_rows(status)]
    if controls is not None:
        rows.append(("controls", _controls_text(controls)))
    return pairs(rows)


def _identity_rows(status: JobStatus) -> Iterable[tuple[str, RenderableType]]:
    yield "job", Text(visible(status.job_id), style="bold")
    yield "owner", Text(visible(status.owner))
    if status.key is not None:
        yield "key", Text(visible(status.key))
    yield "kind", Text(visible(status.kind))
    yield "queue", Text(f"{visible(status.queue)} (priority {status.priority}, policy {visible(status.policy)})")
    if status.labels:
        yield "labels", Text(", ".join(f"{visible(name)}={visible(value)}" for name, value in status.labels.items()))
    if status.submission is not None:
        yield "submission", Text(visible(status.submission))
    if status.origin is not None:
        yield "origin", Text(visible(status.origin))
    yield "payload", Text(compact(status.payload, VALUE))


def _course_rows(status: JobStatus, now: datetime, then: datetime) -> Iterable[tuple[str, RenderableType]]:
    yield "state", Text.assemble(state_text(status.state), f", generation {status.generation}")
    if lease := status.lease:
        who = f"{visible(lease.worker)}, group {visible(lease.group)} (epoch {lease.epoch})"
        word = "until" if lease.expires_at > then else "ran out at"
        yield "lease", Text(f"{who}, {word} {dated(lease.expires_at, now)}")
    for name, asked in (("hold", status.hold), ("cancel", status.cancel_request)):
        if asked:
            yield name, Text(f"by {visible(asked.by)}, {dated(asked.at, now)}: {visible(asked.reason)}")
    if not status.is_terminal and status.lease is None and status.ready_at > then:
        yield "due", Text(dated(status.ready_at, now))
    for name, at in (("created", status.created_at), ("changed", status.updated_at)):
        yield name, Text(f"{exact(at)} ({age(at, now)})")
    yield "sequence", Text(f"{status.sequence} (control sequence {status.control_sequence})")
    if status.archived:
        yield "archived", Text(f"events 1 to {status.archived - 1}; event {status.archived} tells where they are")


def _work_rows(status: JobStatus) -> Iterable[tuple[str, RenderableType]]:
    if status.progress is not None:
        yield "progress", Text(progress_text(status))
    if status.checkpoint_sequence is not None:
        yield "checkpoint", Text(f"{compact(status.checkpoint, VALUE)} (at sequence {status.checkpoint_sequence})")
    if status.units:
        yield "units", Text(f"{many(status.units, 'receipt')}; see 'jobledger units'")
    if status.failures or status.interrupts:
        lost = f"{many(status.failures, 'failure')}, {many(status.interrupts, 'interruption')}"
        yield "in a row", Text(f"{lost} without progress")
    if status.error is not None:
        yield "error", Text(clipped(visible(status.error), VALUE), style="red")
    if status.result is not None:
        yield "result", Text(compact(status.result, VALUE))


def progress_text(status: JobStatus) -> str:
    """How far the job says it is: ``4 of 10 (40 %), batch four``."""
    progress = status.progress
    if progress is None:
        return "none reported"
    text = f"{progress.done:g}"
    if progress.total:
        text += f" of {progress.total:g} ({100 * progress.done / progress.total:.0f} %)"
    return f"{text}, {visible(progress.message)}" if progress.message else text


def _controls_text(controls: Controls) -> Text:
    named = ", ".join(COMMANDS.get(name, name) for name in controls.available)
    return Text(f"{named} (why not the others: 'jobledger controls')" if named else "none")


def controls_table(controls: Controls, status: JobStatus) -> tuple[RenderableType, ...]:
    """What may be asked of a job now, and why the rest may not."""
    built = table("control", "now", "why not", whole=("control", "now"))
    for name in controls.available:
        built.add_row(COMMANDS.get(name, name), Text("yes", style="green"), "")
    for name, refusal in controls.unavailable.items():
        built.add_row(COMMANDS.get(name, name), Text("no", style="yellow"), Text(visible(refusal.text)))
    supported = ", ".join(controls.supported) or "none"
    note = f"created with the controls: {supported}; control sequence {status.control_sequence}"
    return built, Text(visible(note), style="dim")


def units_table(units: Iterable[UnitReceipt]) -> RenderableType:
    """Unit receipts by name."""
    built = table("unit", "gen", "sequence", "receipt", right=("gen", "sequence"), whole=("gen", "sequence"))
    for unit in units:
        built.add_row(
            Text(visible(unit.unit)), str(unit.generation), str(unit.sequence), Text(compact(unit.receipt, 4 * CELL))
        )
    return built if built.row_count else Text("no units were recorded")


# Events ---------------------------------------------------------------------------------------------------------------


def events_table(window: EventWindow, now: datetime) -> tuple[RenderableType, ...]:
    """A window of a job's events; a gap before it is told, never silent."""
    parts: list[RenderableType] = []
    if window.snapshot is not None:
        gap = f"events before {window.floor} are out of reach; at sequence {window.snapshot.sequence} the job was:"
        parts += [Text(gap, style="yellow"), status_table(window.snapshot, now, is_past=True), Text("")]
    built = table("seq", "time", "event", "gen", "details", right=("seq", "gen"), whole=("seq", "time", "event", "gen"))
    day = None
    for event in window.events:
        if event.at.date() != day:
            day = event.at.date()
            built.add_row("", Text(f"{day:%Y-%m-%d}", style="dim"), "", "", "")
        built.add_row(
            str(event.sequence),
            clock(event.at),
            Text(event.name, style=event_style(event.name)),
            str(event.generation or ""),
            Text(details(event, 4 * CELL)),
        )
    parts.append(built if window.events else Text(f"no events after {window.next_after}"))
    if window.next_after < window.head:
        parts.append(Text(f"read on with --after {window.next_after} (head {window.head})", style="dim"))
    return tuple(parts)


def event_line(event: RecordedEvent | FeedEntry, *, job: str = "") -> Text:
    """One event as one line."""
    generation = event.data.get("generation")
    parts: list[tuple[str, str]] = [(f"{instant(event.at)}  ", "dim")]
    if job:
        parts.append((f"{visible(job)}  ", ""))
    parts += [(f"#{event.sequence:<4} ", ""), (f"{event.name:<17}", event_style(event.name))]
    parts += [(f" gen {generation}" if generation else "", "dim"), (f"  {details(event, 2 * CELL)}", "")]
    text = Text.assemble(*parts)
    text.rstrip()
    return text


def event_style(name: str) -> str:
    """The colour of an event: what ended well, what was lost, what operators asked."""
    if name in {"Interrupted", "AttemptFailed", "LeaseRenewedLate"}:
        return "red"
    if name in {"HoldPlaced", "HoldReleased", "Resumed", "RetryRequested", "CancelRequested", "Cancelled", "Paused"}:
        return "yellow"
    return {"Completed": "green", "Claimed": "blue", "Created": "cyan"}.get(name, "")


def details(event: RecordedEvent | FeedEntry, longest: int) -> str:
    """An event's own fields as ``name=value``, without those that are empty, usual, or stand elsewhere."""
    hidden = HIDDEN | {"expires_at"} if event.name in RENEWING else HIDDEN
    data = {name: value for name, value in event.data.items() if name not in hidden}
    shown = [f"{name}={_detail(value)}" for name, value in data.items() if _is_telling(name, value, event.data["at"])]
    return clipped(" ".join(shown), longest)


def _is_telling(name: str, value: Json, at: Json) -> bool:
    if value in (None, "", [], {}):
        return False
    usual = at if name == "ready_at" else USUAL.get(name)
    return bool(value != usual)


def _detail(value: Any) -> str:
    if isinstance(value, dict) and "size" in value and set(value) <= {"size", "value", "digest"}:
        if value.get("digest"):
            return f"({value['size']:,} bytes, digest {value['digest'][:12]}…)"
        return compact(value.get("value"))
    if isinstance(value, str):
        return visible(_short_instant(value))
    return compact(value)


def _short_instant(text: str) -> str:
    """An instant in ISO 8601 as people read it; any other text as it is."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return text
    return instant(read) if read.tzinfo and len(text) > len("2026-11-29T13:52Z") else text


# Audit ----------------------------------------------------------------------------------------------------------------


def verification_text(found: Verification) -> Text:
    """The verdict on one job."""
    if found.ok:
        return Text.assemble(("ok", "green"), f"  {visible(found.job_id)}  {many(found.events, 'event')}")
    problems = many(len(found.problems), "problem")
    return Text.assemble(
        ("NOT ok", "bold red"), f"  {visible(found.job_id)}  {many(found.events, 'event')}, {problems}"
    )


def problems_table(found: Iterable[Verification]) -> Table:
    """Every problem that verifications found."""
    built = table("job", "seq", "rule", "problem", right=("seq",), whole=("job", "seq"))
    for verification in found:
        for problem in verification.problems:
            built.add_row(
                Text(visible(verification.job_id)), str(problem.sequence), problem.rule, Text(visible(problem.text))
            )
    return built


def receipt_line(what: str, job_id: str, state: State, sequence: int) -> Text:
    """What a command left behind, as one line."""
    return Text.assemble(f"{what} job {visible(job_id)}: ", state_text(state), f", sequence {sequence}")


def lasted(start: datetime, end: datetime | None, now: datetime) -> str:
    """How long a span lasted, or lasts."""
    length = (end or now) - start
    return span(length) if length >= timedelta(0) else "0.0s"
