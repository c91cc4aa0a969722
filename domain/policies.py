"""Policies: named limits that are resolved when a job is created and travel with it."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypedDict, Unpack, cast

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, ValidationInfo, model_validator

from jobledger.domain.bounds import require_integer, require_lease, require_span
from jobledger.domain.errors import InvalidRequestError
from jobledger.domain.models import Model

DEFAULT: Final = "default"

_KIB: Final = 1024
_MIB: Final = 1024 * 1024
_BYTES_MAX: Final = 256 * _MIB

_SPAN_READER: Final = TypeAdapter(timedelta)
_SPAN_MIN: Final = timedelta(milliseconds=1)
_COUNT_MAX: Final = 1_000_000


def _named(info: ValidationInfo) -> str:
    return f"Policy.{info.field_name}"


LeaseSpan = Annotated[timedelta, BeforeValidator(lambda value, info: require_lease(_named(info), value))]
Span = Annotated[timedelta, BeforeValidator(lambda value, info: require_span(_named(info), value, _SPAN_MIN))]
Bytes = Annotated[int, BeforeValidator(lambda value, info: require_integer(_named(info), value, 2, _BYTES_MAX))]
Count = Annotated[int, BeforeValidator(lambda value, info: require_integer(_named(info), value, 1, _COUNT_MAX))]


class BackoffValues(TypedDict, total=False):
    """What a back-off may be given."""

    initial: timedelta | float
    factor: float
    cap: timedelta | float
    jitter: float


class Backoff(Model):
    """How long a failed attempt waits: ``initial * factor ** (failures - 1)``, at most ``cap``, less up to ``jitter``.

    ``jitter`` is the share (0 to 1) of the wait that chance may take off.
    """

    if TYPE_CHECKING:

        def __init__(self, **values: Unpack[BackoffValues]) -> None:
            """A span may be given as a number of seconds."""

    initial: Span = timedelta(seconds=1)
    factor: float = Field(default=2.0, ge=1.0, le=100.0, allow_inf_nan=False, strict=False)
    cap: Span = timedelta(minutes=10)
    jitter: float = Field(default=0.2, ge=0.0, le=1.0, allow_inf_nan=False, strict=False)

    def wait(self, failures: int, chance: float) -> timedelta:
        """The wait after the ``failures``-th failure in a row; ``chance`` is drawn from 0 to 1."""
        doublings = min(failures - 1, 1_000)
        try:
            seconds = self.initial.total_seconds() * self.factor**doublings
        except OverflowError:
            seconds = self.cap.total_seconds()
        capped = min(seconds, self.cap.total_seconds())
        return timedelta(seconds=capped * (1.0 - self.jitter * chance))


class PolicyValues(TypedDict, total=False):
    """What a policy may be given."""

    lease: timedelta | float
    renew_every: timedelta | float
    interrupts_max: int
    failures_max: int
    backoff: Backoff
    run_time_max: timedelta | float | None
    payload_bytes_max: int
    checkpoint_bytes_max: int
    result_bytes_max: int
    receipt_bytes_max: int
    window_events_max: int
    progress_every: timedelta | float
    queue_depth_max: int | None
    checkpoints_keep: int
    keep_finished: timedelta | float | None


class Policy(Model):
    """Named limits of a job; every field has a default, spans are ``timedelta`` or seconds, sizes are bytes of JSON.

    ``renew_every`` follows the lease (a third, at most 10 s) where it is not given.

    Raises:
        InvalidRequestError: a value out of its range, or ``renew_every`` not below half of the lease.
    """

    if TYPE_CHECKING:

        def __init__(self, **values: Unpack[PolicyValues]) -> None:
            """A span may be given as a number of seconds."""

    lease: LeaseSpan = timedelta(seconds=30)
    renew_every: Span = timedelta(seconds=10)
    interrupts_max: Count = 5
    failures_max: Count = 5
    backoff: Backoff = Backoff()
    run_time_max: Span | None = None
    payload_bytes_max: Bytes = _MIB
    checkpoint_bytes_max: Bytes = _MIB
    result_bytes_max: Bytes = _MIB
    receipt_bytes_max: Bytes = 64 * _KIB
    window_events_max: Count = 1_000
    progress_every: Span = timedelta(seconds=1)
    queue_depth_max: Count | None = None
    checkpoints_keep: Count = 8
    keep_finished: Span | None = None

    @model_validator(mode="before")
    @classmethod
    def _renew_within_the_lease(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        given = cast("dict[str, Any]", values)
        if "renew_every" in given or "lease" not in given:
            return given
        return given | {"renew_every": renewal_span(require_lease("Policy.lease", given["lease"]))}

    @model_validator(mode="after")
    def _require_renewal_before_half(self) -> Policy:
        if self.renew_every * 2 >= self.lease:
            raise InvalidRequestError(
                "Policy.renew_every",
                f"{self.renew_every} is not below half of the lease of {self.lease}; renew at least twice within it",
            )
        return self

    @cached_property
    def window_step(self) -> int:
        """By how many events the floor of a window moves: a tenth of the bound, at least one."""
        return max(1, self.window_events_max // 10)

    def changes(self) -> dict[str, Any]:
        """The values that differ from the defaults, as plain JSON (spans in ISO 8601)."""
        return dict(self._changes)

    @cached_property
    def _changes(self) -> dict[str, Any]:
        changes = self.model_dump(mode="json", exclude_defaults=True)
        changes.pop("renew_every", None)
        if self.renew_every != renewal_span(self.lease):
            changes |= self.model_dump(mode="json", include={"renew_every"})
        return changes

    @classmethod
    def of_changes(cls, changes: dict[str, Any]) -> Policy:
        """Rebuild a policy from its stored changes."""
        values = {name: _from_stored(name, value) for name, value in changes.items()}
        return cls(**values)

    def renewal_of(self, lease: timedelta) -> timedelta:
        """How often a lease of this span is renewed."""
        return _renewal(self.renew_every, lease)


@lru_cache(maxsize=256)
def _renewal(renew_every: timedelta, lease: timedelta) -> timedelta:
    """Asked for each claim, and nearly always of the same few spans."""
    return min(renew_every, renewal_span(lease))


def renewal_span(lease: timedelta) -> timedelta:
    """A third of the lease, at most 10 seconds."""
    return min(timedelta(seconds=10), lease / 3)


_SPANS: Final = frozenset({"lease", "renew_every", "run_time_max", "progress_every", "keep_finished", "initial", "cap"})


def _from_stored(name: str, value: Any) -> Any:
    if name == "backoff" and isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        return Backoff(**{inner: _from_stored(inner, part) for inner, part in parts.items()})
    if name in _SPANS and isinstance(value, str):
        try:
            return _SPAN_READER.validate_python(value)
        except ValidationError:
            raise InvalidRequestError(f"Policy.{name}", f"{value!r} is no span of time") from None
    return value
