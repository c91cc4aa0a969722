"""Tables for people of what the feed was folded into: totals, paces, workers, operators, projections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from jobledger.adapters.terminal.showing import CELL, table
from jobledger.adapters.terminal.texts import age, clipped, instant, many, span, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from rich.console import RenderableType

    from jobledger.domain.events import Outcome
    from jobledger.projections.histograms import Histogram
    from jobledger.projections.operators import OperatorAction
    from jobledger.projections.projected import OperatorPage, Paces, TotalsPage, WorkerPage
    from jobledger.projections.standings import ProjectionStatus

SHARE: Final = 0.95


def totals_table(page: TotalsPage, now: datetime) -> list[RenderableType]:
    """A page of totals by queue and kind."""
    counts = ("created", "queued", "running", "paused")
    built = table("queue", "kind", *counts, "finished", "oldest", "95 % ran within", right=counts)
    for total in page.totals:
        built.add_row(
            _short(total.queue),
            _short(total.kind),
            *(f"{getattr(total, name):,}" for name in counts),
            _outcomes(total.finished),
            age(total.oldest_ready_at, now) if total.oldest_ready_at else "",
            _within(total.ran),
        )
    return [*([built] if page.totals else [Text("nothing is counted")]), *_footer(page)]


def paces_table(paces: Paces) -> list[RenderableType]:
    """What happened in each minute or day."""
    counts = ("created", "attempts")
    built = table("from", *counts, "finished", right=counts, whole=("from",))
    for pace in paces.paces:
        built.add_row(instant(pace.start), f"{pace.created:,}", f"{pace.attempts:,}", _outcomes(pace.finished))
    return [*([built] if paces.paces else [Text("nothing happened")]), *_footer(paces)]


def workers_table(page: WorkerPage, now: datetime) -> list[RenderableType]:
    """A page of workers, with what each holds."""
    counts = ("holds", "attempts", "failed", "lost")
    built = table("worker", "group", *counts, "finished", "seen", right=counts)
    for worker in page.workers:
        numbers = (worker.holding, worker.attempts, worker.failed, worker.lost + worker.fenced)
        built.add_row(
            _short(worker.worker),
            _short(f"{worker.group} (epoch {worker.epoch})"),
            *(f"{number:,}" for number in numbers),
            _outcomes(worker.finished),
            age(worker.last_seen_at, now),
        )
    held = [(worker.worker, lease) for worker in page.workers for lease in worker.held]
    leases = table("job", "worker", "gen", "since", "lease", right=("gen",), whole=("job",))
    for name, lease in held:
        ends = age(lease.expires_at, now) if lease.expires_at else "ended"
        leases.add_row(visible(lease.job_id), _short(name), str(lease.generation), age(lease.since, now), ends)
    shown: list[RenderableType] = [built] if page.workers else [Text("no worker was seen")]
    if held:
        shown += [Text(""), leases]
    return [*shown, *_footer(page)]


def operators_table(page: OperatorPage, now: datetime) -> list[RenderableType]:
    """A page of the operators' log."""
    built = table("when", "who", "asked", "of", "why", whole=("when",))
    for action in page.actions:
        built.add_row(age(action.at, now), _short(action.by), action.asked, _subject(action), _short(action.reason))
    return [*([built] if page.actions else [Text("no operator has asked for anything")]), *_footer(page)]


def projections_table(found: Sequence[ProjectionStatus], now: datetime) -> list[RenderableType]:
    """How each projection stands, and what to do about those that do not follow."""
    built = table("projection", "state", "position", "behind", "lag", "moved", "runner", right=("position", "behind"))
    notes: list[RenderableType] = []
    for status in found:
        built.add_row(
            status.name,
            status.state.value,
            f"{status.position:,}",
            f"{status.lag_events:,}",
            span(status.lag) if status.lag_events else "",
            age(status.moved_at, now) if status.moved_at else "never",
            _short(status.runner),
        )
        if (trouble := status.trouble) is not None:
            where = f"{visible(trouble.stream)} at sequence {trouble.sequence} ({visible(trouble.topic)})"
            why = f"{status.name} is parked at {where} since {instant(trouble.at)}: {visible(trouble.error)}"
            notes.append(Text(why, style="yellow"))
        if status.advice:
            notes.append(Text(f"{status.name}: {status.advice}", style="dim"))
        if status.rebuilding is not None:
            notes.append(Text(f"{status.name} is being rebuilt, at position {status.rebuilding:,}", style="dim"))
    return [built, *notes]


def _footer(page: Any) -> list[RenderableType]:
    """How to read on, and how old the answer is, where that matters."""
    lines: list[str] = []
    if getattr(page, "next_cursor", None):
        lines.append(f"there are more: --cursor {page.next_cursor}")
    status: ProjectionStatus = page.as_of
    if status.advice:
        lines.append(f"{status.name}: {status.advice}")
    elif status.lag_events:
        behind = f"{many(status.lag_events, 'event')} ({span(status.lag)}) behind"
        lines.append(f"{behind}; to catch up: jobledger projections run {status.name}")
    return [Text(line, style="dim") for line in lines]


def _outcomes(finished: Mapping[Outcome, int]) -> str:
    return ", ".join(f"{count:,} {outcome.value}" for outcome, count in finished.items() if count)


def _within(histogram: Histogram) -> str:
    bound = histogram.quantile(SHARE)
    return span(bound) if bound else ""


def _subject(action: OperatorAction) -> Text:
    return _short(action.name or action.stream)


def _short(text: str) -> Text:
    return Text(clipped(visible(text), CELL))
