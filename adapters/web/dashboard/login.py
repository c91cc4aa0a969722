"""Logging in: a token becomes a cookie that scripts cannot read and other sites cannot send."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Form, Request
from starlette.responses import RedirectResponse, Response

from jobledger.adapters.web.dashboard import rendering
from jobledger.adapters.web.refusing import HttpProblemError
from jobledger.adapters.web.tokens import COOKIE, COOKIE_SECONDS, SECRET_CHARACTERS_MAX, TokenFile

WRONG: Final = "That is no token that this server accepts, or it was revoked. Ask whoever runs the server for one."

routes = rendering.router()


@routes.get("/login")
def login_page(request: Request) -> Response:
    """Ask for a token."""
    return rendering.page(request, "login.html", caller=None, wrong="")


@routes.post("/login")
def log_in(request: Request, token: Annotated[str, Form(max_length=SECRET_CHARACTERS_MAX)]) -> Response:
    """Accept a token for some hours."""
    tokens: TokenFile | None = request.app.state.tokens
    if tokens is None:
        raise HttpProblemError("not_found", "this server asks for no token here")
    if tokens.principal(token.strip()) is None:
        return rendering.page(request, "login.html", caller=None, wrong=WRONG, status=401)
    base = request.scope.get("root_path", "").rstrip("/")
    response = RedirectResponse(f"{base}/", 303)
    response.set_cookie(
        COOKIE,
        token.strip(),
        max_age=COOKIE_SECONDS,
        path=base or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


@routes.post("/logout")
def log_out(request: Request) -> Response:
    """Forget the token."""
    base = request.scope.get("root_path", "").rstrip("/")
    response = RedirectResponse(f"{base}/login", 303)
    response.delete_cookie(COOKIE, path=base or "/", httponly=True, samesite="strict")
    return response
