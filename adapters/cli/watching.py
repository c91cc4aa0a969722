"""Following what happens: one job until it ends, or all jobs; live on a terminal, a line for each event elsewhere."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from jobledger.adapters.cli.commands import READ, command
from jobledger.adapters.cli.reading import Owner
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.documents import plain
from jobledger.adapters.terminal.failing import TimedOutError
from jobledger.adapters.terminal.showing import event_line, progress_text, receipt_line, status_table
from jobledger.domain.bounds import require_span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from jobledger.adapters.bootstrap import JobStore
    from jobledger.domain.answers import JobStatus
    from jobledger.domain.history import RecordedEvent

PAGE: Final = 200
LOOK_EVERY: Final = timedelta(seconds=1)
LIVE_EVENTS: Final = 8
FRAMES_PER_SECOND: Final = 8
RARE_TOPIC: Final = "job.archived"


def register(app: typer.Typer) -> None:
    """Give these commands to an app."""
    command(app, READ, "watch ID", "watch", "watch --after CURSOR --json")(watch)


def watch(
    desk: Desk,
    job_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The job to watch until it ends; without one, all jobs.")
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            "--after", metavar="CURSOR", help="Watch all jobs from this place on (start: from the first event)."
        ),
    ] = None,
    owner: Owner = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="Give up after this time, with exit code 3.")
    ] = None,
) -> None:
    """Watch a job until it ends, or what happens to all jobs; with --json, one event on each line."""
    patience = _Patience(None if timeout is None else require_span("timeout", timeout).total_seconds())
    with desk.open() as store:
        if job_id is None:
            _watch_feed(desk, store, after, owner, patience)
        elif desk.console.is_terminal and not desk.as_json:
            _watch_live(desk, store, job_id, patience)
        else:
            _watch_lines(desk, store, job_id, patience)


class _Patience:
    """How long to go on watching, in seconds of the monotonic clock; ``None``: for ever."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def wait(self, store: JobStore, what: str) -> None:
        """Wait until something may have changed.

        Raises:
            TimedOutError: there is no time left.
        """
        left = LOOK_EVERY if self._end is None else timedelta(seconds=max(0.0, self._end - time.monotonic()))
        if not left:
            raise TimedOutError(what)
        store.wait_for_change(min(left, LOOK_EVERY))


def happenings(store: JobStore, job_id: str, after: int = 0) -> Iterator[RecordedEvent]:
    """The events of a job behind a sequence that are there now; a gap that a window leaves is passed over."""
    while True:
        window = store.events(job_id, after=after, limit=PAGE)
        yield from window.events
        after = window.next_after
        if after >= window.head:
            return


def _watch_lines(desk: Desk, store: JobStore, job_id: str, patience: _Patience) -> None:
    after = 0
    while True:
        # The status is read first, so that everything up to the end that it tells of is printed.
        status = store.status(job_id)
        for event in happenings(store, job_id, after):
            after = event.sequence
            desk.line({"event": event}, event_line(event))
        if status.is_terminal:
            end = receipt_line("ended:", job_id, status.state, status.sequence)
            desk.line({"status": status}, end)
            return
        patience.wait(store, f"job {job_id} is {status.state.value} and has not ended")


def _watch_live(desk: Desk, store: JobStore, job_id: str, patience: _Patience) -> None:
    latest: list[RecordedEvent] = []
    after = 0
    with Live(console=desk.console, refresh_per_second=FRAMES_PER_SECOND, transient=False) as live:
        while True:
            status = store.status(job_id)
            for event in happenings(store, job_id, after):
                after = event.sequence
                latest = [*latest, event][-LIVE_EVENTS:]
            live.update(_picture(status, latest), refresh=True)
            if status.is_terminal:
                return
            patience.wait(store, f"job {job_id} is {status.state.value} and has not ended")


def _picture(status: JobStatus, latest: list[RecordedEvent]) -> RenderableType:
    parts: list[RenderableType] = [status_table(status, datetime.now(UTC))]
    progress = status.progress
    if progress is not None and progress.total:
        bar = Table.grid(padding=(0, 2, 0, 0))
        bar.add_row(
            ProgressBar(total=progress.total, completed=min(progress.done, progress.total), width=40),
            Text(progress_text(status)),
        )
        parts += [Text(""), bar]
    lines = [event_line(event) for event in latest]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*parts, Text(""), *lines)


# The feed -------------------------------------------------------------------------------------------------------------


def _watch_feed(desk: Desk, store: JobStore, after: str | None, owner: str | None, patience: _Patience) -> None:
    cursor: str | None
    if after is None:
        cursor = _end_of_feed(store)
        if not desk.as_json:
            desk.console.print(Text(f"watching all jobs from {cursor} on; Ctrl-C ends it", style="dim"))
    else:
        cursor = None if after == "start" else after
    while True:
        page = store.feed(after=cursor, limit=PAGE, owner=owner)
        for entry in page.entries:
            desk.line(_entry(entry), event_line(entry, job=entry.job_id))
        cursor = page.cursor
        if not page.entries:
            patience.wait(store, "no further event has come")


def _end_of_feed(store: JobStore) -> str:
    """The place behind all that happened, found by asking for a rare topic, which passes over nearly everything."""
    cursor: str | None = None
    while True:
        page = store.feed(after=cursor, limit=PAGE, topics=(RARE_TOPIC,))
        cursor = page.cursor
        if not page.entries:
            return cursor


def _entry(entry: Any) -> dict[str, Any]:
    return {"event": plain(entry)}
