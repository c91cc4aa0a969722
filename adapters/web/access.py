"""Who asks, and what they may: principals with scopes, bound to an owner or to none."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, Security
from fastapi.security import HTTPBearer
from starlette.requests import Request

from jobledger.adapters.web.refusing import HttpProblemError
from jobledger.domain.errors import UnknownJobError

if TYPE_CHECKING:
    from jobledger.adapters.bootstrap import JobStore


class Scope(StrEnum):
    """What a caller may do; ``admin`` may do everything, also in another's name."""

    SUBMIT = "submit"
    READ = "read"
    OPERATE = "operate"
    WORK = "work"
    AUDIT = "audit"
    ADMIN = "admin"


EVERYTHING: Final = frozenset(Scope)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: a name for the history, the owner whose jobs are seen (``None``: every owner's), and the scopes."""

    name: str
    owner: str | None = None
    scopes: frozenset[Scope] = EVERYTHING

    def may(self, scope: Scope) -> bool:
        """Whether this is allowed."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def require(self, scope: Scope) -> None:
        """Require a scope.

        Raises:
            HttpProblemError: it is not there.
        """
        if not self.may(scope):
            raise HttpProblemError("forbidden", f"the scope {scope.value!r} is needed")

    def acts_as(self, by: str | None) -> str:
        """The name that goes on record for what is asked.

        Raises:
            HttpProblemError: another name than the caller's own was given without the scope ``admin``.
        """
        if by is None or by == self.name:
            return self.name
        if Scope.ADMIN not in self.scopes:
            raise HttpProblemError("forbidden", "only the scope 'admin' may act in another's name; leave 'by' out")
        return by

    def owner_for(self, owner: str | None) -> str | None:
        """The owner that a list is about: the caller's own, or the one that is asked for.

        Raises:
            HttpProblemError: another owner than the caller's own was asked for.
        """
        if self.owner is None or owner is None or owner == self.owner:
            return owner if self.owner is None else self.owner
        raise HttpProblemError("forbidden", "this token sees the jobs of one owner, which is another one")

    def require_every_owner(self) -> None:
        """Require that the caller sees every owner's jobs.

        Raises:
            HttpProblemError: it is bound to one owner.
        """
        if self.owner is not None:
            raise HttpProblemError("forbidden", "a token of one owner may not ask about every owner's jobs")

    def require_sight(self, store: JobStore, job_id: str) -> None:
        """Require that the caller may see a job; another owner's is answered like one that does not exist.

        Raises:
            UnknownJobError: there is no such job, or it is another owner's.
        """
        if self.owner is not None and store.status(job_id).owner != self.owner:
            raise UnknownJobError(job_id)


Resolver = Callable[[Request], "Principal | Awaitable[Principal | None] | None"]
"""Tells who sends a request; ``None``: nobody whom it knows."""

ANYBODY: Final = Principal("operator")
"""Whoever can reach a server that asks nobody who they are."""


def open_to_anybody(_: Request) -> Principal:
    """Let everybody do everything: for a server on the loopback address of one's own machine."""
    return ANYBODY


async def resolved(request: Request) -> Principal:
    """Who sends this request.

    Raises:
        HttpProblemError: nobody who is known.
    """
    resolver: Resolver = request.app.state.service.resolver
    found: Any = resolver(request)
    if inspect.isawaitable(found):
        found = await found
    if not isinstance(found, Principal):
        raise HttpProblemError("unauthenticated", "a valid token is needed")
    return found


_BEARER: Final = HTTPBearer(auto_error=False, description="A token that 'jobledger tokens create' made.")


def requires(scope: Scope) -> Any:
    """A dependency: the caller, who has this scope."""

    async def allowed(request: Request, _: Annotated[object, Security(_BEARER)]) -> Principal:
        principal = await resolved(request)
        principal.require(scope)
        return principal

    return Depends(allowed)


Submitter = Annotated[Principal, requires(Scope.SUBMIT)]
Reader = Annotated[Principal, requires(Scope.READ)]
Operator = Annotated[Principal, requires(Scope.OPERATE)]
Worker = Annotated[Principal, requires(Scope.WORK)]
Auditor = Annotated[Principal, requires(Scope.AUDIT)]
Admin = Annotated[Principal, requires(Scope.ADMIN)]
