"""JobStore's commands: load, decide, append, retry on conflict; every answer is made from the facts."""

from jobledger.domain.store.base import PATIENCE, Setting
from jobledger.domain.store.claiming import ClaimCommands
from jobledger.domain.store.creating import CreateCommands
from jobledger.domain.store.firing import FiringCommands
from jobledger.domain.store.operating import OperatorCommands
from jobledger.domain.store.queueing import QueueCommands
from jobledger.domain.store.sweeping import SweepCommands
from jobledger.domain.store.working import KEEP, Completion, WorkerCommands

__all__ = ["KEEP", "PATIENCE", "Completion", "FiringCommands", "JobCommands", "QueueCommands", "Setting"]


class JobCommands(CreateCommands, ClaimCommands, OperatorCommands, SweepCommands, WorkerCommands):
    """Every command of every actor, over one storage and one namespace."""
