"""Maintenance: dead leases that nobody takes over are found and recovered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobledger.domain import decisions
from jobledger.domain.answers import ControlReceipt
from jobledger.domain.bounds import BATCH_MAX, require_integer, require_text
from jobledger.domain.decisions.sweeping import Dead, is_dead, is_suspicious
from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError, UnavailableError
from jobledger.domain.job import ENGINE, State
from jobledger.domain.store.answering import control_receipt
from jobledger.domain.store.base import Commands
from jobledger.domain.store.executing import Command, Decision, execute, stand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobledger.domain.lease import Standing
    from jobledger.domain.ports import Reader

PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Survey:
    """How many jobs run, how many of them were abandoned though a claim may take them, and the longest lease of those.

    ``abandoned`` is counted no further than it takes to be ``is_suspicious``.
    """

    running: int
    abandoned: int
    longest_lease: timedelta

    @property
    def is_suspicious(self) -> bool:
        """Whether so many died at once that a clock or a server is likelier than so many workers."""
        return is_suspicious(self.abandoned, self.running)


class SweepCommands(Commands):
    """What maintenance does; it takes no live lease, and completes nothing."""

    def recover(self, job_id: str, *, by: str = ENGINE, command_id: str | None = None) -> ControlReceipt:
        """Park a running job whose lease is not live; never complete it.

        Raises:
            AlreadyTerminalError, NothingToRecoverError, LeaseLiveError: nothing was changed.
        """
        return self._run(self._recovery(job_id, by, command_id))

    def recover_expired(self, limit: int = 100, *, which: Dead | str = Dead.ALL) -> list[ControlReceipt]:
        """Recover up to ``limit`` jobs whose lease is not live; the sweep that maintenance runs.

        ``which``: ``all`` of them, ``abandoned`` ones only, or only ``unclaimable`` ones (see ``Dead``). A job that
        somebody else recovered, renewed or claimed meanwhile, or that cannot be read, is passed over.

        Raises:
            InvalidRequestError: an argument is out of its range.
        """
        require_integer("limit", limit, 1, BATCH_MAX)
        meant = _meant(which)
        receipts: list[ControlReceipt] = []
        after: str | None = ""
        while after is not None and len(receipts) < limit:
            with self._setting.storage.reading() as reader:
                ids = reader.dead(self._setting.namespace, after=after, limit=limit - len(receipts))
                after = ids[-1] if ids else None
                if meant is not Dead.ALL:
                    ids = [each.job.id for each in _standings(reader, ids) if is_dead(each, meant)]
            commands = [self._recovery(job_id, ENGINE, None) for job_id in ids]
            for answer in execute(self._setting.storage, commands, self._call()):
                if isinstance(answer, ControlReceipt):
                    receipts.append(answer)
                elif isinstance(answer, UnavailableError) and not receipts:
                    raise answer
        return receipts

    def survey(self) -> Survey:
        """How many running leases there are, and how many of them were abandoned; nothing is changed."""
        with self._setting.storage.reading() as reader:
            running = reader.counts(self._setting.namespace, None, None).get(State.RUNNING, 0)
            abandoned, longest = 0, timedelta(0)
            for standing in self._abandoned(reader):
                abandoned += 1
                longest = max(longest, standing.job.attempt.lease if standing.job.attempt else longest)
                if is_suspicious(abandoned, running):
                    break
            return Survey(running, abandoned, longest)

    def _abandoned(self, reader: Reader) -> Iterator[Standing]:
        """Those that a claim may take and none took."""
        ids = reader.dead(self._setting.namespace, after="", limit=PAGE)
        while ids:
            for standing in _standings(reader, ids):
                if is_dead(standing, Dead.ABANDONED) and not is_dead(standing, Dead.UNCLAIMABLE):
                    yield standing
            ids = reader.dead(self._setting.namespace, after=ids[-1], limit=PAGE)

    def _recovery(self, job_id: str, by: str, command_id: str | None) -> Command[ControlReceipt]:
        require_text("by", by)
        return self._command(
            job_id,
            "recover",
            [by],
            command_id=command_id,
            decide=lambda _, standing: Decision(facts=decisions.recover(standing, by=by)),
            answer=control_receipt,
        )


def _standings(reader: Reader, ids: Sequence[str]) -> list[Standing]:
    """Jobs as they stand; one that cannot be read is passed over, and hides no other."""
    try:
        loaded = reader.load(ids)
    except HistoryCorruptError:
        if len(ids) == 1:
            return []
        return [standing for job_id in ids for standing in _standings(reader, [job_id])]
    now = reader.now()
    return [stand(loaded[job_id], now) for job_id in ids if job_id in loaded]


def _meant(which: Dead | str) -> Dead:
    try:
        return Dead(which)
    except ValueError:
        known = ", ".join(each.value for each in Dead)
        raise InvalidRequestError("which", f"one of {known} is needed, not {which!r}") from None
