"""What a handler may return or raise instead of a plain result: partial, unavailable, later, again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from jobledger.domain.bounds import REASON_CHARACTERS_MAX, require_instant, require_span, require_text
from jobledger.domain.store import KEEP
from jobledger.domain.store.working import Keep
from jobledger.domain.values import Json


class Ending(Exception):  # noqa: N818  # a handler's decision how the attempt ends; raising it is as good as returning it
    """How a handler wants its attempt to end, where that is neither a result nor a failure."""


@dataclass(eq=False)
class Partial(Ending):
    """The job ends with a result that is not whole, and the reason (at most 8,000 characters are kept)."""

    result: Json
    reason: str

    def __post_init__(self) -> None:
        """Check the reason.

        Raises:
            InvalidRequestError: the reason is no text.
        """
        self.args = (self.result, require_text("Partial.reason", self.reason, REASON_CHARACTERS_MAX))


@dataclass(eq=False)
class Unavailable(Ending):
    """The job ends because what it needs does not exist or cannot be had; ``reason`` says what."""

    reason: str

    def __post_init__(self) -> None:
        """Check the reason.

        Raises:
            InvalidRequestError: the reason is no text.
        """
        self.args = (require_text("Unavailable.reason", self.reason, REASON_CHARACTERS_MAX),)


@dataclass(eq=False)
class Defer(Ending):
    """The job is given back until later, and counts as no failure.

    ``until`` is an aware instant, or a span from now by the store's clock, and at least one second from now: a deferral
    has no budget, so a shorter one would spin. ``state``, where given, is a checkpoint.
    """

    until: datetime | timedelta | float
    state: Json | Keep = KEEP

    def __post_init__(self) -> None:
        """Check the time.

        Raises:
            InvalidRequestError: it is neither an aware instant nor a span.
        """
        if isinstance(self.until, datetime):
            self.until = require_instant("Defer.until", self.until)
        else:
            self.until = require_span("Defer.until", self.until)
        self.args = (self.until, self.state)


@dataclass(eq=False)
class Retry(Ending):
    """The attempt counts as failed and is tried again ``after`` a span (``None``: the policy's back-off).

    The error on record is that from which this was raised, where there is one.
    """

    after: timedelta | float | None = None

    def __post_init__(self) -> None:
        """Check the span.

        Raises:
            InvalidRequestError: it is no span.
        """
        if self.after is not None:
            self.after = require_span("Retry.after", self.after)
        self.args = (self.after,)

    def __str__(self) -> str:
        return "the handler asked to be tried again"
