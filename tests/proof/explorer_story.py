"""A way through the worlds as a story for a person: who did what, which facts it left, and how things stood then."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tests.proof.explorer_ledger import GENERATION, NOW, Ledger
from tests.proof.explorer_oracle import is_fenced_off
from tests.proof.explorer_orders import ORDERS, Order
from tests.proof.explorer_rows import Fault, take

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobledger.domain.events import JobEvent
    from jobledger.domain.job import Job
    from tests.proof.explorer_crew import Crew
    from tests.proof.explorer_world import Next, Worlds

_BY_LABEL: Final = {str(order): order for order in ORDERS}
_UNTOLD: Final = frozenset({"at", "token_digest", "lease", "worker", "group", "reason", "units", "checkpoint_sequence"})


def told(worlds: Worlds, steps: Sequence[tuple[int, Next | None]], ending: Fault | str) -> str:
    """The story of a way, and how it ends: with an order of which something does not hold, or in a trap."""
    lines = [f"    a job was created: {_standing(worlds, steps[0][0])}"]
    for number, ((before, _), (world, step)) in enumerate(pairwise(steps), start=1):
        ledger, _, generations = worlds.unpacked(before)
        _, text, move = step or (0, "", None)
        label = ": ".join(filter(None, (text, move.label if move else "")))
        facts = _facts(worlds.rows.ledgers[ledger], _BY_LABEL.get(move.label) if move else None, generations)
        lines.append(f"{number:3} {label}")
        lines += [f"      → {fact}" for fact in facts]
        lines.append(f"      {_standing(worlds, world)}")
    lines.append(_ending(worlds, steps[-1][0], len(steps), ending))
    return "\n".join(lines)


def _ending(worlds: Worlds, world: int, number: int, ending: Fault | str) -> str:
    if isinstance(ending, str):
        return f"    From here this is impossible: {ending}"
    ledger, _, generations = worlds.unpacked(world)
    facts = _facts(worlds.rows.ledgers[ledger], ending.order, generations)
    lines = [f"{number:3} {ending.label}", *(f"      → {fact}" for fact in facts)]
    return "\n".join([*lines, *(f"      BROKEN {broken}" for broken in ending.broken)])


def _facts(ledger: Ledger, order: Order | None, generations: int) -> list[str]:
    """What an order makes of a ledger, with the real numbers of generations."""
    if order is None:
        return []
    try:
        taken = take(ledger, order)
    except Exception as error:  # noqa: BLE001  # a broken rule may raise anything
        return [f"raises {type(error).__name__}: {error}"]
    if taken.refusal is not None:
        return [f"refused: {taken.refusal}"]
    shift = generations - (GENERATION if ledger.job.generation else 0)
    return [_fact(fact, shift) for fact in taken.facts] or ["nothing: the lease moves, or it stands already"]


def _fact(fact: JobEvent, shift: int) -> str:
    told_fields = []
    for field in fields(fact):
        value = getattr(fact, field.name)
        if field.name == "generation" and value is not None:
            value += shift
        if field.name not in _UNTOLD and value not in (None, ()):
            told_fields.append(f"{field.name} {_value(value)}")
    return f"{type(fact).__name__}({', '.join(told_fields)})"


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return _distance(value - NOW)
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g} s"
    if isinstance(value, tuple):
        return ", ".join(f"{each.resource} version {each.version}" for each in value)
    return repr(value.value) if hasattr(value, "size") else str(value)


def _distance(span: timedelta) -> str:
    return "now" if not span else f"{span.total_seconds():+g} s"


def _standing(worlds: Worlds, world: int) -> str:
    number, crew, generations = worlds.unpacked(world)
    ledger = worlds.rows.ledgers[number]
    return f"[{_job(ledger.job, ledger, generations)}; {_crew(crew)}]"


def _job(job: Job, ledger: Ledger, generations: int) -> str:
    lease = ledger.standing.lease
    said = [f"{job.state}, generation {generations}"]
    if lease is not None:
        said.append(
            "its epoch is over" if is_fenced_off(ledger) else f"lease until {_distance(lease.expires_at - NOW)}"
        )
    elif job.ready_at > NOW:
        said.append("not due yet")
    said += [f"held by {job.hold.by}"] if job.hold else []
    said += ["cancel requested"] if job.cancel else []
    said += [f"{job.interrupts} interruptions"] if job.interrupts else []
    said += [f"{job.failures} failures"] if job.failures else []
    return ", ".join(said)


def _crew(crew: Crew) -> str:
    workers = f"workers {', '.join(crew.workers)}" if crew.workers else "nobody waits"
    return f"{workers}; on its way: {'; '.join(crew.flight)}" if crew.flight else workers
