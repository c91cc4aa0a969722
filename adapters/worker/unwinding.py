"""The exceptions that unwind a handler; they pass a broad ``except Exception``, and ``finally`` runs."""

from __future__ import annotations

from jobledger.domain.values import Json


class Unwinding(BaseException):
    """The attempt is to stop here; clean up and let it pass."""


class JobCancelled(Unwinding):  # it is no error: somebody asked for it
    """A cancel was requested: it is recorded as soon as the handler has unwound.

    ``boundary`` is any JSON that the handler wants on record about where it stopped (at most 64 KiB). A handler may
    raise this itself once a cancel was requested; where nobody asked, the attempt counts as failed.
    """

    def __init__(self, boundary: Json = None) -> None:
        super().__init__(boundary)
        self.boundary = boundary

    def __str__(self) -> str:
        return "the job was asked to cancel; clean up and let this pass"


class JobParked(Unwinding):  # it is no error: a hold or a drain asked for it
    """A hold is in force, or the host drains: the pause is recorded as soon as the handler has unwound.

    It is the host's word: where a handler raises this itself and neither is so, the attempt counts as failed.
    """

    def __str__(self) -> str:
        return "the job is being parked, its last checkpoint stands; clean up and let this pass"


class LeaseLost(Unwinding):  # it is no error of the handler
    """This attempt may write nothing any more; ``reason`` says why. Another one goes on from the last checkpoint."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"this attempt may write nothing any more: {self.reason}; clean up and let this pass"


class OutOfTime(Unwinding):  # it becomes the error of a failed attempt, once the handler has unwound
    """The attempt ran longer than its policy's ``run_time_max``; it counts as failed."""

    def __init__(self, run_time_max: object) -> None:
        super().__init__(run_time_max)
        self.run_time_max = run_time_max

    def __str__(self) -> str:
        return f"the attempt ran longer than its policy's run_time_max of {self.run_time_max}"
