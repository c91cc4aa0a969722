"""The end of the demonstration: the course of the job, its events, the verification, and a question to the index."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.text import Text

from jobledger.adapters.demo.story import Story, check
from jobledger.adapters.demo.telling import INDENT
from jobledger.adapters.terminal.courses import course_table
from jobledger.adapters.terminal.showing import event_style, table
from jobledger.adapters.terminal.texts import clock, many, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from jobledger.domain.history import RecordedEvent

LEFT_OUT: Final = "ProgressReported"
HITS: Final = 5


def show_the_course(story: Story) -> None:
    """The attempts as bars, then what happened as a table."""
    story.teller.chapter("5. What the store says about it")
    course = story.store.timeline(story.job_id)
    story.teller.show(*(Padding(part, INDENT) for part in course_table(course, datetime.now(UTC))))
    events = list(story.store.history(story.job_id))
    told = [event for event in events if event.name != LEFT_OUT]
    story.teller.show(Text(""), Padding(_events(told), INDENT))
    if len(told) < len(events):
        story.teller.say(f"({many(len(events) - len(told), 'progress report')} left out)")
    story.facts |= {"attempts": course.attempts, "events": len(events)}


def verify(story: Story) -> None:
    """Walk both histories: every digest, every fence, every rule."""
    story.teller.show(Text(""))
    for job_id in (story.job_id, story.patrol_id):
        found = story.store.verify(job_id)
        check(found.ok, f"the history of job {job_id} is sound: {[problem.text for problem in found.problems]}")
        story.teller.say(f"verify: ok ({many(found.events, 'event')}) — job {job_id}")
        story.facts.setdefault("verified", []).append({"job_id": job_id, "ok": found.ok, "events": found.events})


def ask(story: Story, query: str) -> None:
    """Put a question to the index that was built."""
    story.teller.chapter(f"6. The index answers: {visible(query)}")
    hits = story.index.search(query, HITS)
    built = table("module", "where", whole=("module",))
    for hit in hits:
        built.add_row(Text(visible(hit.module), style="cyan"), Text(visible(" ".join(hit.snippet.split()))))
    story.teller.show(Padding(built if hits else Text("nothing matches; ask with other words: --query"), INDENT))
    story.facts |= {"query": query, "hits": hits}


def _events(events: list[RecordedEvent]) -> RenderableType:
    built = table("seq", "time", "event", "gen", "what", right=("seq", "gen"), whole=("seq", "time", "event", "gen"))
    for event in events:
        built.add_row(
            str(event.sequence),
            clock(event.at),
            Text(event.name, style=event_style(event.name)),
            str(event.generation or ""),
            Text(_telling(event)),
        )
    return built


def _telling(event: RecordedEvent) -> str:
    """The one thing about an event that the story is about."""
    data = event.data
    match event.name:
        case "Claimed":
            return f"by {visible(data['worker'])}"
        case "UnitRecorded":
            value = data["receipt"].get("value") or {}
            return f"{visible(data['unit'])}: {value.get('documents')} documents, {value.get('bytes'):,} bytes"
        case "Checkpointed":
            return f"next batch: {data['state'].get('value')}"
        case "Interrupted":
            return visible(str(data["cause"]))
        case "Completed":
            return f"{data['outcome']}: {visible(str((data.get('result') or {}).get('value')))}"
        case _:
            return ""
