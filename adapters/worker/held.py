"""A lease as its worker holds it: until when by the local clock, what operators ask, and whether it was lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from jobledger.adapters.worker.clock import elapsed
from jobledger.adapters.worker.unwinding import LeaseLost
from jobledger.domain.answers import Lease, Renewal

MARGIN_SHARE: Final = 0.1
MARGIN_MAX: Final = 1.0


class HeldLease:
    """One lease, shared by the handler, the renewals and the host.

    It is *certain* until its local deadline: the send time of the last accepted renewal, plus the lease's span, less a
    margin. After that it is *in doubt*: nothing may be written, calls wait, and renewals go on; a late one that is
    accepted makes it certain again, however long the outage was. Only a refusal *loses* it for good.
    """

    __slots__ = (
        "_deadline",
        "_granted_at",
        "_lock",
        "_lost",
        "_margin",
        "_news",
        "_renew_soon",
        "fence",
        "heard_at",
        "is_cancel_requested",
        "is_ending",
        "is_hold_requested",
        "renew_every",
        "result_bytes_max",
        "span",
    )

    def __init__(self, lease: Lease, sent_at: float, renew_soon: Callable[[HeldLease], None]) -> None:
        """Hold a lease whose claim was sent at ``sent_at`` (of ``elapsed``)."""
        self.fence = lease.fence
        self.span = lease.span.total_seconds()
        self.renew_every = lease.status.limits.renewal_of(lease.span).total_seconds()
        self.result_bytes_max = lease.status.limits.result_bytes_max
        self.heard_at = sent_at
        self.is_hold_requested = False
        self.is_cancel_requested = False
        self.is_ending = False
        """Whether the end was sent: a refused renewal is no news then."""
        self._margin = min(self.span * MARGIN_SHARE, MARGIN_MAX)
        self._deadline = sent_at + self.span - self._margin
        self._granted_at = lease.expires_at - lease.span
        self._renew_soon = renew_soon
        self._lock = threading.Lock()
        self._news: threading.Condition | None = None  # made by the first who waits: nearly no lease is ever waited for
        self._lost: str | None = None

    @property
    def lost(self) -> str | None:
        """Why the lease was lost; ``None`` while it is held."""
        return self._lost

    @property
    def is_in_doubt(self) -> bool:
        """Whether the local deadline has passed without an accepted renewal."""
        return elapsed() >= self._deadline

    @property
    def is_certain(self) -> bool:
        """Whether this attempt may write now, for all that is known here."""
        return self._lost is None and not self.is_in_doubt

    @property
    def is_stale(self) -> bool:
        """Whether nothing was heard from the store for one ``renew_every``."""
        return elapsed() - self.heard_at > self.renew_every

    def store_time(self) -> datetime:
        """The store's clock, reckoned from its last answer."""
        with self._lock:
            return self._granted_at + timedelta(seconds=max(0.0, elapsed() - self.heard_at))

    def accept(self, renewal: Renewal, sent_at: float) -> None:
        """Take an accepted write or renewal, sent at ``sent_at``; an answer older than the last one is passed over."""
        with self._lock:
            if sent_at < self.heard_at:
                return
            self.heard_at = sent_at
            self._deadline = max(self._deadline, sent_at + self.span - self._margin)
            self._granted_at = renewal.expires_at - timedelta(seconds=self.span)
            self.is_hold_requested = renewal.hold_requested
            self.is_cancel_requested = renewal.cancel_requested
            self._tell()

    def doubt(self) -> None:
        """The store said that the lease ran out: nothing may be written until a renewal is accepted."""
        with self._lock:
            self._deadline = min(self._deadline, elapsed())
        self._renew_soon(self)

    def lose(self, reason: str) -> None:
        """Close the lease for good; the first reason stands."""
        with self._lock:
            self._lost = self._lost or reason
            self._tell()

    def require(self) -> None:
        """Require that this attempt may write; in doubt, wait for the answer of a renewal.

        Raises:
            LeaseLost: it was lost.
        """
        if self.is_certain:
            return
        with self._lock:
            while self._lost is None and self.is_in_doubt:
                self._renew_soon(self)
                self._wait(self.renew_every)
            if self._lost is not None:
                raise LeaseLost(self._lost)

    def pause(self, seconds: float) -> None:
        """Wait that long, or until the lease is lost or renewed."""
        with self._lock:
            if self._lost is None:
                self._wait(seconds)

    def _wait(self, seconds: float) -> None:
        """Give the lock up until something is told, or for so long."""
        if self._news is None:
            self._news = threading.Condition(self._lock)
        self._news.wait(seconds)

    def _tell(self) -> None:
        if self._news is not None:
            self._news.notify_all()
