"""What pages say: instants that browsers turn into the viewer's zone, values as JSON, and what changed between two."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from jobledger.adapters.calendars import in_words
from jobledger.adapters.terminal.texts import age, clipped, instant, span, visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobledger.domain.schedules.answers import ScheduleStatus

VALUE_MAX: Final = 20_000
SHORT_MAX: Final = 140
FAILURES: Final = frozenset({"Interrupted", "AttemptFailed", "LeaseRenewedLate"})
CONTROL_NAMES: Final[Mapping[str, str]] = {
    "hold": "Hold",
    "release_hold": "Release",
    "resume": "Resume",
    "request_cancel": "Cancel",
    "retry": "Retry",
    "recover": "Recover",
    "rerun": "Rerun",
    "fork": "Fork",
}
CONTROL_HINTS: Final[Mapping[str, str]] = {
    "hold": "What waits is paused at once; what runs parks at its next boundary.",
    "release_hold": "Parked work may be claimed again, with a new budget.",
    "resume": "Put it back into its queue; no worker ever had it.",
    "request_cancel": "What waits ends at once; what runs is asked to stop at its next boundary.",
    "retry": "Make it due now, with a new budget.",
    "recover": "Park it: its worker's lease has run out.",
    "rerun": "Run it again, as a new job under a key of its own.",
    "fork": "Start a new job from what this one was at an event.",
}


def moment(at: datetime | None) -> Markup:
    """An instant: UTC in the page, the viewer's zone once the script has run, UTC again on hover."""
    if at is None:
        return Markup("-")
    iso = at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(iso, instant(at), instant(at))


def ago(at: datetime | None, now: datetime) -> Markup:
    """How far an instant lies from now, with the instant on hover."""
    if at is None:
        return Markup("-")
    iso = at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return Markup('<time data-relative datetime="{}" title="{}">{}</time>').format(iso, instant(at), age(at, now))


def when_due(schedule: ScheduleStatus) -> str:
    """When a schedule is due, in words."""
    if schedule.cron is not None:
        return in_words(schedule.cron)
    return f"Every {span(schedule.every)}" if schedule.every is not None else ""


def pretty(value: Any) -> Markup:
    """A value as indented JSON, cut where it is very long; nothing in it can move a cursor."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    lines = "\n".join(visible(line) for line in text.split("\n"))
    return escape(clipped(lines, VALUE_MAX))


def short(value: Any, longest: int = SHORT_MAX) -> str:
    """A value as one line of JSON, cut to fit."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clipped(visible(text), longest)


def percent(done: float, total: float | None) -> float | None:
    """How much is done, from 0 to 100; ``None`` where nobody knows."""
    return None if not total or total <= 0 else max(0.0, min(100.0, 100 * done / total))


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs between two versions of a job."""

    field: str
    before: str
    after: str


UNTOLD: Final = frozenset({"head", "sequence", "updated_at", "limits", "is_terminal"})


def changes(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[Change]:
    """What one event changed: the fields of a status that differ from those of the version before."""
    found: list[Change] = []
    for field, value in after.items():
        then = before.get(field) if before else None
        if field not in UNTOLD and then != value:
            found.append(Change(field.replace("_", " "), short(then), short(value)))
    return found


def tell_event(name: str, data: Mapping[str, Any]) -> str:
    """An event's own fields in one line, without what stands elsewhere on the page."""
    hidden = {"at", "job_id", "namespace", "fingerprint", "token_digest", "generation", "policy_changes", "expires_at"}
    parts: list[str] = []
    for field, given in data.items():
        value = given
        if isinstance(given, dict) and "size" in given and set(given) <= {"size", "value", "digest"}:
            value = f"({given['size']:,} bytes)" if given.get("digest") else given.get("value")
        if field in hidden or value in (None, "", [], {}):
            continue
        parts.append(f"{field.replace('_', ' ')}: {short(value, 80)}")
    return clipped(" · ".join(parts), 2 * SHORT_MAX) or name
