"""A job's course as bars of text: when it waited, and which generation ran when, with its checkpoints and its end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from rich.text import Text

from jobledger.adapters.terminal.showing import lasted, table
from jobledger.adapters.terminal.texts import clock, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from jobledger.projections.timeline import AttemptSpan, Mark, Timeline, WaitSpan

BAR: Final = 20

_GLYPHS: Final = {"wait": "·", "run": "=", "checkpoint": "|"}
"""The bars are drawn in ASCII, but for the middle dot, so that every terminal and file shows them alike."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """Places of instants on a bar."""

    start: datetime
    length: timedelta

    def place(self, at: datetime) -> int:
        share = (at - self.start) / self.length if self.length else 0.0
        return min(BAR - 1, max(0, int(share * BAR)))


def course_table(course: Timeline, now: datetime) -> tuple[RenderableType, ...]:
    """Waits and attempts in their order, each with its bar; the marks within an attempt are its checkpoints."""
    end = course.ended_at or now
    scale = _Scale(course.created_at, max(end - course.created_at, timedelta(milliseconds=1)))
    columns = ("gen", "who", "from", "lasted", "course", "saved", "ended")
    whole = ("gen", "from", "lasted", "course", "saved")
    built = table(*columns, right=("gen", "lasted", "saved"), whole=whole)
    rows = [(wait.start, _wait(wait, end, now, scale)) for wait in course.waits]
    rows += [(attempt.start, _attempt(attempt, end, now, scale)) for attempt in course.attempts]
    for _, cells in sorted(rows, key=lambda row: row[0]):
        built.add_row(*cells)
    legend = f"{_GLYPHS['run']} runs, {_GLYPHS['checkpoint']} checkpoint saved, {_GLYPHS['wait']} waits"
    return built, Text(legend, style="dim")


def _wait(wait: WaitSpan, end: datetime, now: datetime, scale: _Scale) -> list[RenderableType]:
    until = wait.end or end
    bar = Text(_bar(wait.start, until, scale, _GLYPHS["wait"], ()), style="dim")
    return ["", Text(f"({wait.state.replace('_', ' ')})", style="dim"), *_when(wait.start, until, now), bar, "", ""]


def _attempt(attempt: AttemptSpan, end: datetime, now: datetime, scale: _Scale) -> list[RenderableType]:
    until = attempt.end or end
    ended_by = attempt.ended_by or "it runs"
    style = "blue" if attempt.end is None else "green" if ended_by.startswith("completed") else "yellow"
    bar = Text(_bar(attempt.start, until, scale, _GLYPHS["run"], attempt.checkpoints), style=style)
    saved, how = str(len(attempt.checkpoints)), Text(ended_by.replace("_", " "))
    return [str(attempt.generation), Text(visible(attempt.worker)), *_when(attempt.start, until, now), bar, saved, how]


def _when(start: datetime, until: datetime, now: datetime) -> tuple[str, str]:
    return clock(start), lasted(start, until, now)


def _bar(start: datetime, end: datetime, scale: _Scale, glyph: str, marks: tuple[Mark, ...]) -> str:
    first, last = scale.place(start), scale.place(end)
    cells = [glyph if first <= place <= last else " " for place in range(BAR)]
    for mark in marks:
        cells[scale.place(mark.at)] = _GLYPHS["checkpoint"]
    return "".join(cells)
