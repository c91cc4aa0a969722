"""Durable, event-sourced jobs: every worker write fenced, the whole history kept and tamper-evident."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobledger.adapters.aio import AsyncJobStore
    from jobledger.adapters.bootstrap import JobStore
    from jobledger.adapters.clients import DurableJobs, JobClient
    from jobledger.adapters.remote import RemoteStore
    from jobledger.adapters.storage.clocks import ManualClock
    from jobledger.adapters.worker import (
        AsyncJobContext,
        Defer,
        Depends,
        DrainReport,
        JobCancelled,
        JobContext,
        JobHost,
        JobLogFields,
        JobParked,
        LeaseLost,
        Partial,
        Retry,
        Unavailable,
        checkpoint,
        durable_job,
        job_context,
        progress,
        restore,
    )
    from jobledger.domain.answers import (
        ControlReceipt,
        Controls,
        CreateReceipt,
        Dropped,
        ExecutionResult,
        JobStatus,
        Lease,
        Progress,
        Refusal,
        Renewal,
        Resource,
        UnitReceipt,
    )
    from jobledger.domain.decisions.creating import JobRequest
    from jobledger.domain.decisions.working import Effect
    from jobledger.domain.errors import JobledgerError
    from jobledger.domain.events import Outcome
    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.job import State
    from jobledger.domain.lease import Fence
    from jobledger.domain.policies import Backoff, Policy
    from jobledger.domain.queue_events import QueueLimits
    from jobledger.domain.queues.answers import QueueReceipt, QueueStatus
    from jobledger.domain.schedules.answers import BackfillReceipt, FiringReport, ScheduleReceipt, ScheduleStatus
    from jobledger.domain.schedules.definition import Schedule
    from jobledger.domain.store import KEEP, Completion
    from jobledger.projections.anchors import Anchor, Proof
    from jobledger.projections.audit import Verification
    from jobledger.projections.auditing import RebuildReport
    from jobledger.projections.bundles import ExportReport
    from jobledger.projections.checking import Replay
    from jobledger.projections.histograms import Histogram
    from jobledger.projections.operators import OperatorAction
    from jobledger.projections.pages import JobPage, UnitPage
    from jobledger.projections.projected import OperatorPage, Paces, TotalsPage, WorkerPage
    from jobledger.projections.queues import QueuePage, QueueWindow
    from jobledger.projections.rules import Problem
    from jobledger.projections.schedules import SchedulePage, ScheduleWindow
    from jobledger.projections.standings import ProjectionStatus
    from jobledger.projections.timeline import Timeline
    from jobledger.projections.totals import Pace, Total
    from jobledger.projections.windows import EventWindow, Feed, FeedEntry
    from jobledger.projections.workers import HeldLease, LostLease, WorkerStatus

__version__ = version("jobledger")

_HOMES = {
    "jobledger.adapters.aio": ("AsyncJobStore",),
    "jobledger.adapters.bootstrap": ("JobStore",),
    "jobledger.adapters.clients": ("DurableJobs", "JobClient"),
    "jobledger.adapters.remote": ("RemoteStore",),
    "jobledger.adapters.storage.clocks": ("ManualClock",),
    "jobledger.adapters.worker": (
        "AsyncJobContext",
        "Defer",
        "Depends",
        "DrainReport",
        "JobCancelled",
        "JobContext",
        "JobHost",
        "JobLogFields",
        "JobLogFields",
        "JobParked",
        "LeaseLost",
        "Partial",
        "Retry",
        "Unavailable",
        "checkpoint",
        "durable_job",
        "job_context",
        "progress",
        "restore",
    ),
    "jobledger.domain.answers": (
        "ControlReceipt",
        "Controls",
        "CreateReceipt",
        "Dropped",
        "ExecutionResult",
        "JobStatus",
        "Lease",
        "Progress",
        "Proof",
        "Refusal",
        "Renewal",
        "Resource",
        "UnitReceipt",
    ),
    "jobledger.domain.decisions.creating": ("JobRequest",),
    "jobledger.domain.decisions.working": ("Effect",),
    "jobledger.domain.errors": ("JobledgerError",),
    "jobledger.domain.events": ("Outcome",),
    "jobledger.domain.history": ("RecordedEvent",),
    "jobledger.domain.job": ("State",),
    "jobledger.domain.lease": ("Fence",),
    "jobledger.domain.policies": ("Backoff", "Policy"),
    "jobledger.domain.queue_events": ("QueueLimits",),
    "jobledger.domain.queues.answers": ("QueueReceipt", "QueueStatus"),
    "jobledger.domain.schedules.answers": ("BackfillReceipt", "FiringReport", "ScheduleReceipt", "ScheduleStatus"),
    "jobledger.domain.schedules.definition": ("Schedule",),
    "jobledger.domain.store": ("KEEP", "Completion"),
    "jobledger.projections.anchors": ("Anchor", "Proof"),
    "jobledger.projections.audit": ("Verification",),
    "jobledger.projections.auditing": ("RebuildReport",),
    "jobledger.projections.bundles": ("ExportReport",),
    "jobledger.projections.checking": ("Replay",),
    "jobledger.projections.histograms": ("Histogram",),
    "jobledger.projections.operators": ("OperatorAction",),
    "jobledger.projections.pages": ("JobPage", "UnitPage"),
    "jobledger.projections.projected": ("OperatorPage", "Paces", "TotalsPage", "WorkerPage"),
    "jobledger.projections.queues": ("QueuePage", "QueueWindow"),
    "jobledger.projections.rules": ("Problem",),
    "jobledger.projections.schedules": ("SchedulePage", "ScheduleWindow"),
    "jobledger.projections.standings": ("ProjectionStatus",),
    "jobledger.projections.timeline": ("Timeline",),
    "jobledger.projections.totals": ("Pace", "Total"),
    "jobledger.projections.windows": ("EventWindow", "Feed", "FeedEntry"),
    "jobledger.projections.workers": ("HeldLease", "LostLease", "WorkerStatus"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "KEEP",
    "Anchor",
    "AsyncJobContext",
    "AsyncJobStore",
    "BackfillReceipt",
    "Backoff",
    "Completion",
    "ControlReceipt",
    "Controls",
    "CreateReceipt",
    "Defer",
    "Depends",
    "DrainReport",
    "Dropped",
    "DurableJobs",
    "Effect",
    "EventWindow",
    "ExecutionResult",
    "ExportReport",
    "Feed",
    "FeedEntry",
    "Fence",
    "FiringReport",
    "HeldLease",
    "Histogram",
    "JobCancelled",
    "JobClient",
    "JobContext",
    "JobHost",
    "JobLogFields",
    "JobPage",
    "JobParked",
    "JobRequest",
    "JobStatus",
    "JobStore",
    "JobledgerError",
    "Lease",
    "LeaseLost",
    "LostLease",
    "ManualClock",
    "OperatorAction",
    "OperatorPage",
    "Outcome",
    "Pace",
    "Paces",
    "Partial",
    "Policy",
    "Problem",
    "Progress",
    "ProjectionStatus",
    "Proof",
    "QueueLimits",
    "QueuePage",
    "QueueReceipt",
    "QueueStatus",
    "QueueWindow",
    "RebuildReport",
    "RecordedEvent",
    "Refusal",
    "RemoteStore",
    "Renewal",
    "Replay",
    "Resource",
    "Retry",
    "Schedule",
    "SchedulePage",
    "ScheduleReceipt",
    "ScheduleStatus",
    "ScheduleWindow",
    "State",
    "Timeline",
    "Total",
    "TotalsPage",
    "Unavailable",
    "UnitPage",
    "UnitReceipt",
    "Verification",
    "WorkerPage",
    "WorkerStatus",
    "__version__",
    "checkpoint",
    "durable_job",
    "job_context",
    "progress",
    "restore",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that ``import jobledger`` stays quick."""
    if name not in _HOME_OF:
        msg = f"module 'jobledger' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return __all__
