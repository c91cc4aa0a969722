"""What a handler staged for its next boundary: effects, and statements to run in the same transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from jobledger.domain.bounds import EFFECTS_MAX, require_count
from jobledger.domain.decisions.working import Effect
from jobledger.domain.decisions.working import stage as require_stageable
from jobledger.domain.errors import InvalidRequestError

Statements = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Staged:
    """Effects and statements that commit together."""

    effects: tuple[Effect, ...] = ()
    statements: tuple[Statements, ...] = ()

    @property
    def inside(self) -> Statements | None:
        """One callable that runs the statements in their order; ``None`` where there are none."""
        return self._run if self.statements else None

    def _run(self, connection: Any) -> None:
        for each in self.statements:
            each(connection)


NOTHING: Final = Staged()


class Staging:
    """Collects what is staged, from any thread, until a boundary takes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._effects: list[Effect] = []
        self._statements: list[Statements] = []

    def stage(self, effect: Effect) -> None:
        """Add an effect.

        Raises:
            InvalidRequestError, UnstorableValueError: it is none, too many, or a second one for its resource.
        """
        with self._lock:
            require_stageable([*self._effects, effect])
            self._effects.append(effect)

    def inside(self, statements: Statements) -> None:
        """Add statements, called with the open connection.

        Raises:
            InvalidRequestError: they cannot be called, or are too many.
        """
        if not callable(statements):
            raise InvalidRequestError("inside", f"a callable is needed, not {type(statements).__name__}")
        with self._lock:
            require_count("inside", len(self._statements) + 1, EFFECTS_MAX)
            self._statements.append(statements)

    def take(self) -> Staged:
        """Hand over all that was staged so far."""
        with self._lock:
            staged = Staged(tuple(self._effects), tuple(self._statements))
            self._effects, self._statements = [], []
            return staged

    def put_back(self, staged: Staged) -> None:
        """Stage again what a boundary took and did not commit, before what was staged since."""
        with self._lock:
            self._effects[:0] = staged.effects
            self._statements[:0] = staged.statements
