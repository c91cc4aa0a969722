"""One pure function per command: guards first, in the order in which they refuse, then the facts."""

from jobledger.domain.decisions.claiming import Claimable, claim, claimable
from jobledger.domain.decisions.creating import create, fork, rerun
from jobledger.domain.decisions.operating import hold, recover, release_hold, request_cancel, resume, retry
from jobledger.domain.decisions.working import (
    cancel,
    checkpoint,
    complete,
    defer,
    fail_attempt,
    pause,
    record_unit,
    renew,
    report_progress,
)

__all__ = [
    "Claimable",
    "cancel",
    "checkpoint",
    "claim",
    "claimable",
    "complete",
    "create",
    "defer",
    "fail_attempt",
    "fork",
    "hold",
    "pause",
    "record_unit",
    "recover",
    "release_hold",
    "renew",
    "report_progress",
    "request_cancel",
    "rerun",
    "resume",
    "retry",
]
