"""How a rule is broken on purpose for a while: every name that the code has for a function is bound to its twin."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from jobledger.domain.job import evolve

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from jobledger.domain.events import JobEvent
    from jobledger.domain.job import Job
    from jobledger.domain.lease import Standing

JUDGES: Final = (
    *("folding", "histories", "index", "invariants", "mutating", "occurrences", "quick", "timetables", "transitions"),
)
"""Modules of the proof whose own use of a rule stays whole, whatever is broken: they judge."""

Scope = Literal["decision", "creation", "store", "schedule"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule that is broken on purpose, under a name, with a sentence on what is broken.

    ``twins`` maps each function to the one that stands in for it. ``scope`` says where it shows: in the pure decisions
    and the fold of one job (``decision``), in those that make jobs (``creation``), where commands meet a store, or in
    the rules of schedules.
    """

    name: str
    sentence: str
    twins: Mapping[Callable[..., Any], Callable[..., Any]]
    scope: Scope = "decision"

    @contextmanager
    def applied(self) -> Generator[None]:
        """Break the rule until the block ends."""
        with ExitStack() as stack:
            for original, twin in self.twins.items():
                stack.enter_context(replaced(original, twin))
            yield


@contextmanager
def replaced(original: Callable[..., Any], twin: Callable[..., Any]) -> Generator[None]:
    """Bind every module's name for a function to its twin, and give all of them back at the end."""
    places = [
        (module, name)
        for path, module in list(sys.modules.items())
        if path.startswith(("jobledger.", "tests.proof.")) and path.rsplit(".", 1)[-1].split("_")[0] not in JUDGES
        for name, value in list(vars(module).items())
        if value is original and not path.startswith("tests.proof.mutants")
    ]
    if not places:
        msg = f"nobody knows {original.__qualname__}"
        raise LookupError(msg)
    for module, name in places:
        setattr(module, name, twin)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, original)


# Parts that twins are made of -----------------------------------------------------------------------------------------


def with_job(standing: Standing, **changes: Any) -> Standing:
    """The same standing of a job that differs."""
    return replace(standing, job=replace(standing.job, **changes))


def as_dead(standing: Standing) -> Standing:
    """The same standing, its lease just run out."""
    return replace(standing, lease=standing.lease and replace(standing.lease, expires_at=standing.now))


def changing(
    event: type | tuple[type, ...], change: Callable[[Any], Any], decide: Callable[..., Any]
) -> Callable[..., list[JobEvent]]:
    """A decision whose events of a kind are changed, or left out."""

    def twin(*args: Any, **asked: Any) -> list[JobEvent]:
        changed = [change(each) if isinstance(each, event) else each for each in decide(*args, **asked)]
        return [each for each in changed if each is not None]

    return twin


def folding(event: type, change: Callable[[Job, Any, Job], dict[str, Any]]) -> Mapping[Any, Any]:
    """An evolve that makes something else of one kind of event: given the job before, the event, and the job after."""

    def twin(job: Job | None, fact: JobEvent) -> Job:
        after = evolve(job, fact)
        return replace(after, **change(job, fact, after)) if job is not None and isinstance(fact, event) else after

    return {evolve: twin}
