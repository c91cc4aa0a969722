"""The jobs that one transaction makes of schedules' instants, each under the key that its instant gives it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from jobledger.domain import decisions
from jobledger.domain.decisions.creating import JobRequest, NewJob, job_id_of, prepare
from jobledger.domain.errors import HistoryCorruptError, InvalidError, RefusedError
from jobledger.domain.events import Origin
from jobledger.domain.schedules.definition import LABEL
from jobledger.domain.schedules.firing import Before, Made
from jobledger.domain.schedules.templates import filled, instant_text, values_of
from jobledger.domain.store.creating import create_command, made, meet
from jobledger.domain.store.executing import Decision, Told, cause_of, draft
from jobledger.domain.values import fingerprint, sha256_hex

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jobledger.domain.lease import Standing
    from jobledger.domain.ports import Append, Loaded, Session
    from jobledger.domain.schedules.state import ScheduleState
    from jobledger.domain.schedules.timing import Calendar
    from jobledger.domain.store.base import Setting


def occurrence_key(name: str, instant: datetime) -> str:
    """The key of the job that an instant of a schedule makes: two that make it meet at one job."""
    return f"schedule:{name}:{instant_text(instant)}"


def triggered_key(name: str, command_id: str) -> str:
    """The key of the job that an operator's command makes."""
    return f"schedule:{name}:triggered:{sha256_hex(command_id.encode())[:32]}"


class Occurrences:
    """Makes jobs within one session; they are written with ``appends``, after the schedules' own events."""

    def __init__(self, setting: Setting, calendar: Calendar, session: Session) -> None:
        """Make jobs as this setting's policies say."""
        self._setting, self._calendar, self._session = setting, calendar, session
        self._known: dict[str, Loaded | None] = {}
        self._drafted: Counter[str] = Counter()
        self.appends: list[tuple[str, Append]] = []
        """What is to be written, each with the name of its schedule."""

    def look_up(self, states: Sequence[ScheduleState]) -> None:
        """Read with one question what settling these schedules will look at first.

        Raises:
            HistoryCorruptError: a job's row cannot be read.
        """
        wanted = {state.last_job_id for state in states if state.last_job_id}
        wanted |= {self._id_of(state, state.next_at) for state in states if state.next_at}
        self._look_up(sorted(wanted))

    def before(self, state: ScheduleState) -> Before | None:
        """The newest occurrence, and whether it has ended; ``None``: there is none any more."""
        loaded = self._loaded(state.last_job_id) if state.last_job_id else None
        if loaded is None:
            return None
        return Before(loaded.job.id, loaded.job.updated_at if loaded.job.is_terminal else None)

    def make(
        self,
        state: ScheduleState,
        instant: datetime,
        now: datetime,
        *,
        key: str = "",
        by: str = "engine",
        reason: str = "",
    ) -> Made:
        """Draft the job of an instant, or say why there is none; ``key`` is the instant's own where none is given."""
        key = key or occurrence_key(state.name, instant)
        job_id = job_id_of(state.namespace, state.definition.owner, key)
        if (standing := self._loaded(job_id)) is not None:
            origin = standing.job.origin
            is_ours = origin is not None and origin.how == "occurrence" and origin.of == state.name
            return Made(job_id, "fired_before" if is_ours else "key_taken")
        origin = Origin(how="occurrence", of=state.name, instant=instant, by=by, reason=reason)
        try:
            new = self._prepared(state, instant, key, job_id, origin)
            append = self._drafted_for(new, now)
        except (RefusedError, InvalidError) as refusal:
            return Made(None, "refused", refusal)
        self._drafted[new.request.queue] += 1
        self.appends.append((state.name, append))
        return Made(job_id)

    def _prepared(self, state: ScheduleState, instant: datetime, key: str, job_id: str, origin: Origin) -> NewJob:
        definition = state.definition
        local = self._calendar.local(instant, definition.zone)
        payload = filled(definition.payload.value, values_of(state.name, instant, local))
        request = JobRequest(
            owner=definition.owner,
            kind=definition.kind,
            key=key,
            payload=payload,
            policy=definition.policy,
            queue=definition.queue,
            priority=definition.priority,
            controls=definition.controls,
            labels={**definition.labels, LABEL: state.name},
        )
        policies = dict(self._setting.policies)
        new = prepare(request, job_id=job_id, namespace=state.namespace, policies=policies)
        mark = fingerprint(request.kind, payload, [origin.how, origin.of, instant_text(instant)])
        return replace(new, origin=origin, fingerprint=mark)

    def _drafted_for(self, new: NewJob, now: datetime) -> Append:
        """What is to be written for a new job; raises its refusal."""

        def decide(session: Session, standing: Standing | None, at: datetime) -> Decision:
            met = meet(self._setting, session, new, standing, drafted=self._drafted[new.request.queue])
            return made(decisions.create(new, met, now=at), new)

        cause = cause_of("fire", [new.job_id], f"fire {new.job_id}")
        outcome = draft(self._session, create_command(new, cause, decide, is_given=False), None, now)
        if isinstance(outcome, Told):
            raise HistoryCorruptError(new.job_id, 0, "it was not there a moment ago, under its schedule's lock")
        return outcome[0]

    def _id_of(self, state: ScheduleState, instant: datetime) -> str:
        return job_id_of(state.namespace, state.definition.owner, occurrence_key(state.name, instant))

    def _loaded(self, job_id: str) -> Loaded | None:
        if job_id not in self._known:
            self._look_up([job_id])
        return self._known[job_id]

    def _look_up(self, job_ids: Sequence[str]) -> None:
        found = self._session.peek(job_ids)
        self._known |= {job_id: found.get(job_id) for job_id in job_ids}
