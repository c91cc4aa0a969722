"""Storages that misbehave on purpose: replies get lost, appends arrive late, and twins that forget a rule."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any, Literal, cast

from jobledger.domain.errors import OutcomeUnknownError, StoreUnavailableError
from jobledger.domain.ports import Append, Reader, Session, Storage

Fault = Literal["none", "lost", "undone", "down"]
"""What becomes of one transaction.

``lost``: it commits and its reply does not come back. ``undone``: the connection broke before the commit; nobody can
tell the two apart. ``down``: it cannot begin.
"""


class PassingStorage:
    """A storage that passes everything on to another one; faults override what they need."""

    def __init__(self, inner: Storage) -> None:
        """Stand before ``inner``."""
        self.inner = inner

    def reading(self) -> AbstractContextManager[Reader]:
        """A consistent view of the inner storage."""
        return self.inner.reading()

    def writing(self, patience: timedelta, connection: object | None = None) -> AbstractContextManager[Session]:
        """A transaction of the inner storage."""
        return self.inner.writing(patience, connection)

    def wait(self, timeout: timedelta) -> None:
        """Wait as the inner storage does."""
        self.inner.wait(timeout)

    def close(self) -> None:
        """Close the inner storage."""
        self.inner.close()


class FaultyStorage(PassingStorage):
    """Has a plan of faults, one per transaction; behind the end of the plan all goes well."""

    def __init__(self, inner: Storage) -> None:
        """Behave well until there is a plan."""
        super().__init__(inner)
        self.plan: list[Fault] = []
        self.transactions = 0

    def writing(self, patience: timedelta, connection: object | None = None) -> AbstractContextManager[Session]:
        """A transaction with the next fault of the plan."""
        return self._writing(patience, connection)

    @contextmanager
    def _writing(self, patience: timedelta, connection: object | None) -> Generator[Session]:
        fault = self.plan.pop(0) if self.plan else "none"
        self.transactions += 1
        if fault == "down":
            reason = "it was taken down by the test"
            raise StoreUnavailableError(reason)
        with self.inner.writing(patience, connection) as session:
            yield session
            if fault == "undone":
                reason = "the connection broke before the commit"
                raise OutcomeUnknownError(reason)
        if fault == "lost":
            reason = "the connection broke after the commit"
            raise OutcomeUnknownError(reason)


class AlteredSession:
    """A session some of whose methods are replaced; everything else is passed on."""

    def __init__(self, session: Session, **methods: Callable[..., Any]) -> None:
        """Replace the named methods of ``session``."""
        self._session = session
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        """The replaced method, or the session's own."""
        return self._methods[name] if name in self._methods else getattr(self._session, name)


class CaughtError(Exception):
    """Carries appends away before they are written."""

    def __init__(self, appends: tuple[Append, ...]) -> None:
        """Carry these."""
        super().__init__(appends)
        self.appends = appends


class CatchingStorage(PassingStorage):
    """While ``is_catching``, nothing is written: the appends that were decided on are raised as ``CaughtError``."""

    is_catching = False

    def writing(self, patience: timedelta, connection: object | None = None) -> AbstractContextManager[Session]:
        """A transaction whose appends are caught, if any are made."""
        return self._writing(patience, connection)

    @contextmanager
    def _writing(self, patience: timedelta, connection: object | None) -> Generator[Session]:
        with self.inner.writing(patience, connection) as session:
            if not self.is_catching:
                yield session
                return

            def catch(appends: Sequence[Append]) -> list[str | None]:
                if appends:
                    raise CaughtError(tuple(appends))
                return []

            yield cast("Session", AlteredSession(session, append=catch))


class TwinStorage(PassingStorage):
    """A twin with one rule forgotten: ``alter`` gives the methods that replace those of each session."""

    def __init__(self, inner: Storage, alter: Callable[[Session], dict[str, Callable[..., Any]]]) -> None:
        """Alter each session of ``inner``."""
        super().__init__(inner)
        self._alter = alter

    def writing(self, patience: timedelta, connection: object | None = None) -> AbstractContextManager[Session]:
        """An altered transaction."""
        return self._writing(patience, connection)

    @contextmanager
    def _writing(self, patience: timedelta, connection: object | None) -> Generator[Session]:
        with self.inner.writing(patience, connection) as session:
            yield cast("Session", AlteredSession(session, **self._alter(session)))


def altering_appends(alter: Callable[[Append], Append]) -> Callable[[Session], dict[str, Callable[..., Any]]]:
    """A twin that changes every append before it is written."""

    def methods(session: Session) -> dict[str, Callable[..., Any]]:
        def append(appends: Sequence[Append]) -> list[str | None]:
            return session.append([alter(each) for each in appends])

        return {"append": append}

    return methods


def forgetting_commands(_: Session) -> dict[str, Callable[..., Any]]:
    """A twin that never looks a command id up."""

    def caused(_stream: str, _command_id: str) -> list[Any]:
        return []

    return {"caused": caused}
