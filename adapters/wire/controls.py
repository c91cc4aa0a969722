"""What operators ask over HTTP: controls, upkeep, and what they answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Self

from pydantic import ConfigDict, Field

from jobledger.adapters.wire.base import Name, Reason, Seconds, Wire
from jobledger.adapters.wire.jobs import ControlReceiptOut
from jobledger.domain.answers import Controls, Refusal
from jobledger.domain.bounds import BATCH_MAX
from jobledger.domain.store.sweeping import Survey
from jobledger.projections.auditing import RebuildReport


class ControlIn(Wire):
    """A reason, which every control requires; ``by`` may name somebody else only under the scope ``admin``."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "index host is full"}]})

    reason: Reason
    by: Name | None = None


class RecoverIn(Wire):
    """Who asks to recover; the engine itself where nobody is named."""

    by: Name | None = None


class RerunIn(ControlIn):
    """The key of the new job, and whether it starts from the last checkpoint and receipts."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the input was mended", "key": "rebuild-43"}]})

    key: Name
    from_checkpoint: bool = False


class ForkIn(ControlIn):
    """The key of the new job, and the sequence from whose checkpoint and receipts it starts."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "try another way", "key": "rebuild-44", "at_sequence": 12}]}
    )

    key: Name
    at_sequence: int


class RefusalOut(Wire):
    """Why a control may not be asked now: the stable code and the sentence."""

    code: str
    text: str


class ControlsOut(Wire):
    """The controls a job was created with, those that may be asked now, and why the others may not."""

    supported: list[str]
    available: list[str]
    unavailable: dict[str, RefusalOut]

    @classmethod
    def of(cls, value: object) -> Self:
        """Controls as the store gives them."""
        given: Any = value
        refused = {name: RefusalOut(code=each.code, text=each.text) for name, each in given.unavailable.items()}
        return cls(supported=list(given.supported), available=list(given.available), unavailable=refused)

    def answer(self) -> Controls:
        """The controls as the store gives them."""
        refused = {name: Refusal(each.code, each.text) for name, each in self.unavailable.items()}
        return Controls(tuple(self.supported), tuple(self.available), refused)


class RecoveriesIn(Wire):
    """How many jobs whose lease has run out are recovered at most."""

    limit: int = Field(default=100, ge=1, le=BATCH_MAX)
    which: str = "all"


class SurveyOut(Wire):
    """How many running leases there are, how many were abandoned, and the longest span of those."""

    running: int
    abandoned: int
    longest_lease_s: Seconds

    @classmethod
    def of(cls, value: object) -> Self:
        """A survey as the store gives it."""
        survey: Any = value
        return cls(
            running=survey.running, abandoned=survey.abandoned, longest_lease_s=survey.longest_lease.total_seconds()
        )

    def answer(self) -> Survey:
        """The survey as the store gives it."""
        return Survey(self.running, self.abandoned, timedelta(seconds=self.longest_lease_s))


class RecoveriesOut(Wire):
    """The jobs that were recovered."""

    recovered: list[ControlReceiptOut]


class RebuildIn(Wire):
    """Which projection to rebuild."""

    projection: Name


class RebuildOut(Wire):
    """What a rebuild did: how many jobs it walked, and those whose rows differed from their events."""

    projection: str
    jobs: int
    events: int
    mended: list[str]

    def answer(self) -> RebuildReport:
        """The report as the store gives it."""
        return RebuildReport(self.projection, self.jobs, self.events, tuple(self.mended))


class AdvanceIn(ControlIn):
    """The worker group that moves on, and why."""

    group: Name


class EpochOut(Wire):
    """The current epoch of a worker group."""

    group: str
    epoch: int
