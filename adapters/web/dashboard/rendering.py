"""How pages are made: the templates, and errors as pages that say what to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from typing_extensions import override

from jobledger.adapters.terminal.texts import span, visible
from jobledger.adapters.web.access import Principal
from jobledger.adapters.web.dashboard import wording
from jobledger.adapters.web.refusing import HttpProblemError, log, mistaken
from jobledger.adapters.web.service import Service
from jobledger.adapters.wire.problems import ProblemModel, problem_of
from jobledger.domain.errors import JobledgerError

HERE: Final = Path(__file__).parent
HEADINGS: Final = {404: "There is nothing here", 403: "You may not do that", 503: "The store does not answer"}
STATIC_SECONDS: Final = 3_600


def _in_one_line(value: Any) -> Any:
    """Whatever text a page shows: nothing in it moves a cursor or turns the reading direction."""
    return visible(value) if type(value) is str else value


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_in_one_line,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "moment": wording.moment,
        "ago": wording.ago,
        "pretty": wording.pretty,
        "short": wording.short,
        "span": span,
        "control_name": lambda name: wording.CONTROL_NAMES.get(name, name),
    }
    made.filters.update(filters)
    known: dict[str, Any] = {
        "percent": wording.percent,
        "tell_event": wording.tell_event,
        "when_due": wording.when_due,
        "control_names": wording.CONTROL_NAMES,
        "control_hints": wording.CONTROL_HINTS,
        "version": version("jobledger"),
    }
    made.globals.update(known)
    return made


_TEMPLATES: Final = _environment()


def page(
    request: Request, template: str, *, caller: Principal | None, status: int = 200, **values: Any
) -> HTMLResponse:
    """Make a page."""
    service: Service = request.app.state.service
    text = _TEMPLATES.get_template(template).render(
        base=request.scope.get("root_path", "").rstrip("/"),
        caller=caller or Principal("nobody", None, frozenset()),
        namespace=service.store.namespace,
        now=datetime.now(UTC),
        page=values.pop("page", ""),
        has_login=request.app.state.tokens is not None and caller is not None,
        **values,
    )
    return HTMLResponse(text, status)


def problem_page(request: Request, problem: ProblemModel, caller: Principal | None = None) -> HTMLResponse:
    """A refusal as a page."""
    heading = HEADINGS.get(problem.status, "That was refused")
    return page(request, "error.html", caller=caller, status=problem.status, problem=problem, heading=heading)


class PageRoute(APIRoute):
    """A route whose refusals are pages for people."""

    @override
    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]  # as the framework's own guide does it
        handle = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await handle(request)
            except HttpProblemError as refused:
                if refused.status_code == 401 and request.method == "GET":  # noqa: PLR2004  # nobody who is known
                    return RedirectResponse(f"{request.scope.get('root_path', '').rstrip('/')}/login", 303)
                return problem_page(request, refused.model)
            except RequestValidationError as error:
                return problem_page(request, mistaken(error).model)
            except JobledgerError as error:
                log.info("%s: %s", error.code, error)
                return problem_page(request, problem_of(error))

        return answered


def router() -> APIRouter:
    """A router of pages; they stand in no API document."""
    return APIRouter(route_class=PageRoute, include_in_schema=False)


class Assets(StaticFiles):
    """Files that never change under their name within an hour."""

    @override
    def file_response(self, *given: Any, **named: Any) -> Response:
        """A file, which browsers may keep for a while."""
        response = super().file_response(*given, **named)
        response.headers["Cache-Control"] = f"public, max-age={STATIC_SECONDS}"
        return response


def assets() -> Assets:
    """The scripts, the sheet, and what is vendored."""
    return Assets(directory=HERE / "static")
