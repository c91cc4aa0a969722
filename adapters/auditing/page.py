"""A job's whole story as one page of HTML that needs nothing else: no script, no style sheet, no network."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from jobledger.adapters.terminal.texts import instant, visible
from jobledger.projections.story import lasted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from jobledger.domain.answers import JobStatus
    from jobledger.projections.audit import Verification
    from jobledger.projections.story import Sentence
    from jobledger.projections.timeline import Timeline

WIDTH: Final = 1_000
ROW: Final = 22
MARKS_MAX: Final = 500
"""So many checkpoints and units are drawn; beyond them the bar alone tells."""

STYLE: Final = """
body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.3rem;overflow-wrap:anywhere}h2{font-size:1.05rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.25rem .6rem;
border-bottom:1px solid #ddd;overflow-wrap:anywhere}td.n{text-align:right;white-space:nowrap}td.t{white-space:nowrap}
.ok{color:#17692f}.bad{color:#a11}.dim{color:#666}svg{width:100%;height:auto}svg text{font-size:12px;fill:#1a1a1a}
@media(prefers-color-scheme:dark){body{background:#16181c;color:#e6e6e6}th,td{border-color:#333}svg text{fill:#e6e6e6}
.ok{color:#6fcf8a}.bad{color:#ff8a80}.dim{color:#999}}
"""

COLOURS: Final = {"waiting": "#c9ced6", "parked": "#e3c77a", "held": "#e0a33e", "backing_off": "#d9b3b3"}
ENDED: Final = {"completed": "#3d8b57", "failed": "#b8433a", "interrupted": "#b8433a", "cancelled": "#8d5fa8"}


def page_of(
    status: JobStatus, course: Timeline, sentences: Iterable[Sentence], verification: Verification, now: datetime
) -> Iterator[str]:
    """The page, in parts; every text of a job is escaped."""
    title = f"{status.kind} {status.key if status.key is not None else status.job_id}"
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">"""
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>{_text(title)}</title><style>{STYLE}</style></head><body>\n<h1>{_text(title)}</h1>\n<table>"
    yield from (f"<tr><th>{name}</th><td>{_text(value)}</td></tr>" for name, value in _facts(status))
    yield "</table>\n"
    yield from _verdict(verification, now)
    yield "<h2>Attempts</h2>\n"
    yield from _gantt(course, now)
    heads = "".join(f"<th>{head}</th>" for head in ("#", "when (UTC)", "after", "who", "what"))
    yield f"\n<h2>What happened</h2>\n<table><tr>{heads}</tr>\n"
    for each in sentences:
        number = f"{each.sequence}" if each.sequence == each.last else f"{each.sequence}-{each.last}"
        fence = f'<br><span class="dim">{_text(each.fence)}</span>' if each.fence else ""
        yield (
            f'<tr><td class="n">{number}</td><td class="t">{_text(instant(each.at))}</td>'
            f'<td class="n">{lasted(each.since)}</td><td>{_text(each.who)}</td>'
            f"<td>{_text(each.text)}{fence}</td></tr>\n"
        )
    yield "</table></body></html>\n"


def _text(value: object) -> str:
    return escape(visible(str(value)))


def _facts(status: JobStatus) -> Iterator[tuple[str, object]]:
    yield "job", status.job_id
    yield "owner", status.owner
    yield "state", f"{status.state.value}, generation {status.generation}"
    yield "queue", f"{status.queue} (priority {status.priority}, policy {status.policy})"
    if status.labels:
        yield "labels", ", ".join(f"{name}={value}" for name, value in status.labels.items())
    if status.hold is not None:
        yield "hold", f"by {status.hold.by}: {status.hold.reason}"
    if status.error is not None:
        yield "error", status.error
    yield "units", f"{status.units:,}"
    yield "sequence", status.sequence
    yield "head", status.head


def _verdict(verification: Verification, now: datetime) -> Iterator[str]:
    when = f'<span class="dim">at {_text(instant(now))}</span>'
    if verification.ok:
        yield f'<p class="ok">Verified: {verification.events:,} events, every digest, fence and rule holds {when}</p>'
        return
    yield f'<p class="bad">NOT ok: {len(verification.problems):,} problems {when}</p>\n<table>'
    for each in verification.problems:
        yield f'<tr><td class="n">{each.sequence}</td><td>{each.rule}</td><td class="bad">{_text(each.text)}</td></tr>'
    yield "</table>"


def _gantt(course: Timeline, now: datetime) -> Iterator[str]:
    """Waits in the first row, then one row for each attempt, over the whole time of the job."""
    end = max(course.ended_at or now, course.created_at)
    length = max((end - course.created_at).total_seconds(), 0.001)

    def place(at: datetime) -> float:
        return min(max((at - course.created_at).total_seconds() / length, 0.0), 1.0) * WIDTH

    height = ROW * (len(course.attempts) + 1) + 4
    yield f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="attempts over time">'
    for wait in course.waits:
        yield _bar(place(wait.start), place(wait.end or end), 2, COLOURS.get(wait.state, "#ccc"), wait.state)
    marks = 0
    for number, attempt in enumerate(course.attempts, start=1):
        top = 2 + ROW * number
        colour = ENDED.get((attempt.ended_by or "").split(" ")[0], "#3b6ea8")
        told = f"generation {attempt.generation}, {attempt.worker}: {attempt.ended_by or 'running'}"
        yield _bar(place(attempt.start), place(attempt.end or end), top, colour, told)
        for mark in (*attempt.checkpoints, *attempt.units):
            marks += 1
            if marks <= MARKS_MAX:
                x = place(mark.at)
                yield f'<path d="M{x:.1f} {top}v{ROW - 6}" stroke="#fff" stroke-width="1.5"/>'
        yield f'<text x="{min(place(attempt.start) + 4, WIDTH - 200):.1f}" y="{top + 12}">{_text(told)}</text>'
    yield "</svg>"


def _bar(start: float, end: float, top: int, colour: str, told: str) -> str:
    width = max(end - start, 1.0)
    shape = f'x="{start:.1f}" y="{top}" width="{width:.1f}" height="{ROW - 6}" rx="2" fill="{colour}"'
    return f"<rect {shape}><title>{_text(told)}</title></rect>"
