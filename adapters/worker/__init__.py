"""The worker runtime: handlers are registered, hosts run them, and a job's context is how they speak with it."""

from jobledger.adapters.worker.awaiting import AsyncJobContext
from jobledger.adapters.worker.context import JobContext
from jobledger.adapters.worker.current import job_context
from jobledger.adapters.worker.depending import Depends
from jobledger.adapters.worker.hooks import checkpoint, progress, restore
from jobledger.adapters.worker.host import HostState, JobHost
from jobledger.adapters.worker.logs import JobLogFields
from jobledger.adapters.worker.outcomes import Defer, Partial, Retry, Unavailable
from jobledger.adapters.worker.registration import durable_job
from jobledger.adapters.worker.running import DrainedAttempt, DrainReport
from jobledger.adapters.worker.unwinding import JobCancelled, JobParked, LeaseLost

__all__ = [
    "AsyncJobContext",
    "Defer",
    "Depends",
    "DrainReport",
    "DrainedAttempt",
    "HostState",
    "JobCancelled",
    "JobContext",
    "JobHost",
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
]
