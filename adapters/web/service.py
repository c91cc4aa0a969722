"""What every route works with: the store, the settings, who may ask, and the streams."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends
from starlette.requests import Request

if TYPE_CHECKING:
    from jobledger.adapters.bootstrap import JobStore
    from jobledger.adapters.web.access import Principal, Resolver
    from jobledger.adapters.web.settings import WebSettings
    from jobledger.adapters.web.streaming import Hub

MASK: Final = "•••"


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of one web face; ``answers`` counts by the class of the status, ``refusals`` by their code."""

    store: JobStore
    settings: WebSettings
    resolver: Resolver
    hub: Hub
    answers: Counter[int] = field(default_factory=Counter[int])
    refusals: Counter[str] = field(default_factory=Counter[str])

    def hides(self, principal: Principal) -> bool:
        """Whether values of secret fields are masked for this caller."""
        return bool(self.settings.secret_fields) and "work" not in principal.scopes and "admin" not in principal.scopes

    def masked(self, value: Any) -> Any:
        """A JSON value whose secret fields are masked; what holds none is answered as it is."""
        if isinstance(value, dict):
            return {
                name: MASK if str(name).lower() in self.settings.secret_fields else self.masked(item)
                for name, item in value.items()
            }
        if isinstance(value, list):
            return [self.masked(item) for item in value]
        return value


async def service_of(request: Request) -> Service:
    """The parts of the face that a request came to."""
    service: Service = request.app.state.service
    return service


Face = Annotated[Service, Depends(service_of)]
