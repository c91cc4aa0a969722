"""The commands around the web face: serve, and the access tokens of those who may ask it."""

from __future__ import annotations

import logging
import signal
import tempfile
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.cli.commands import CREATE, KEEP, Policies, command
from jobledger.adapters.cli.logs import LogFormat, log_to_the_error_output
from jobledger.adapters.cli.parsing import policies_of
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.texts import instant, visible
from jobledger.adapters.worker.projecting import projected
from jobledger.domain.bounds import require_integer
from jobledger.domain.errors import InvalidRequestError
from jobledger.domain.policies import Policy

if TYPE_CHECKING:
    from collections.abc import Generator

    from jobledger.adapters.web.tokens import TokenFile

PORT: Final = 8321
PORT_MAX: Final = 65_535
WEB_PACKAGES: Final = ("fastapi", "jinja2", "python_multipart", "uvicorn")
"""What the extra ``web`` installs."""

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")]
Port = Annotated[int, typer.Option("--port", metavar="N", help="The port to listen on; 0 takes a free one.")]
Tokens = Annotated[
    Path | None,
    typer.Option(
        "--tokens", metavar="FILE", envvar="JOBLEDGER_TOKENS", help="The access tokens (or in JOBLEDGER_TOKENS)."
    ),
]
TokenPlace = Annotated[
    Path,
    typer.Option(
        "--tokens", metavar="FILE", envvar="JOBLEDGER_TOKENS", help="The file of tokens (or in JOBLEDGER_TOKENS)."
    ),
]
DEFAULT_TOKENS: Final = Path("jobledger-tokens.json")


def register(app: typer.Typer) -> None:
    """Give these commands to an app."""
    command(app, CREATE, "serve", "serve --host 0.0.0.0 --tokens tokens.json --host-name jobs.example.org")(serve)
    tokens = typer.Typer(help="Access tokens of the web face.", no_args_is_help=True)
    command(
        tokens, None, "tokens create ci --scope submit --scope read --owner search", name="create", uses_store=False
    )(create_token)
    command(tokens, None, "tokens list", name="list", uses_store=False)(list_tokens)
    command(tokens, None, "tokens revoke 1a2b3c4d", "tokens revoke ann", name="revoke", uses_store=False)(revoke_token)
    app.add_typer(tokens, name="tokens", rich_help_panel=KEEP)


def serve(
    desk: Desk,
    host: Host = "127.0.0.1",
    port: Port = PORT,
    tokens: Tokens = None,
    host_name: Annotated[
        list[str] | None, typer.Option("--host-name", metavar="NAME", help="A further name that it answers to.")
    ] = None,
    log_format: LogFormat = "text",
    projections: Annotated[  # noqa: FBT002  # a flag is typed by its name
        bool,
        typer.Option(
            "--projections/--no-projections", metavar="", help="Fold the feed into totals, workers, operators."
        ),
    ] = True,
    policies: Policies = None,
) -> None:
    """Serve the dashboard and the HTTP API until SIGTERM; on this machine alone unless tokens are asked for."""
    _require_web()
    log_to_the_error_output(log_format)
    with ExitStack() as stack:
        stack.enter_context(_ended_in_order())
        store = stack.enter_context(desk.open(policies=policies_of(policies)))
        if projections:
            stack.enter_context(projected(store))
        _serve(desk, store, host, port, None if tokens is None else _token_file(tokens), host_name or ())


def serve_demo(desk: Desk, folder: Path | None, port: int) -> None:
    """Serve a store that lives: jobs in every state, and a worker that goes on working."""
    _require_web()
    from jobledger.adapters.demo.living import Life  # noqa: PLC0415  # a start of the command line stays quick

    logging.getLogger("jobledger").addHandler(logging.NullHandler())
    with _ended_in_order(), ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jobledger-demo-")))
        place.mkdir(parents=True, exist_ok=True)
        policies = {"strict": Policy(failures_max=1)}
        store = stack.enter_context(JobStore.open(f"sqlite:///{place / 'jobledger.db'}", policies=policies))
        stack.enter_context(Life(store))
        _serve(desk, store, "127.0.0.1", port, None, ())


def _require_web() -> None:
    """Name the extra before anything is opened or made: that it is missing is no fault of jobledger."""
    if any(find_spec(each) is None for each in WEB_PACKAGES):
        raise InvalidRequestError("web", "the web face needs an extra; pip install 'jobledger[web]'")


@contextmanager
def _ended_in_order() -> Generator[None]:
    """End at SIGTERM as at the end of the block: what was opened is closed, and a temporary folder removed.

    uvicorn drains at a signal and then raises it again; left to its default, it would end the process on the spot.
    """

    def end(*_: object) -> None:
        raise typer.Exit

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _serve(desk: Desk, store: JobStore, host: str, port: int, tokens: TokenFile | None, host_names: Any) -> None:
    from jobledger.adapters.web import serving  # noqa: PLC0415  # the extra need not be installed

    def tell(address: str) -> None:
        who = "asks for a token" if tokens else "lets everybody on this machine do everything"
        sentence = f"serving {address}; it {who}; Ctrl-C ends it"
        desk.line({"address": address, "asks_for_token": tokens is not None}, Text(visible(sentence)))

    known = require_integer("port", port, 0, PORT_MAX)
    serving.serve(store, host=host, port=known, tokens=tokens, host_names=host_names, on_start=tell)


def _token_file(path: Path) -> TokenFile:
    _require_web()
    from jobledger.adapters.web.tokens import TokenFile  # noqa: PLC0415  # the extra need not be installed

    if not path.is_file():
        raise InvalidRequestError("tokens", f"there is no file {str(path)!r}; 'jobledger tokens create' makes it")
    return TokenFile(path)


def create_token(
    desk: Desk,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who it is for; this name stands in the histories.")],
    scope: Annotated[
        list[str],
        typer.Option("--scope", metavar="SCOPE", help="submit, read, operate, work, audit, admin; repeat it."),
    ],
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="The owner whose jobs it sees. Default: all owners.")
    ] = None,
    tokens: TokenPlace = DEFAULT_TOKENS,
) -> None:
    """Make an access token; its secret is shown once and kept nowhere."""
    _require_web()
    from jobledger.adapters.web.tokens import TokenFile  # noqa: PLC0415  # the extra need not be installed

    made = TokenFile(tokens).create(name, scope, owner)
    desk.answer(
        {"id": made.id, "token": made.secret},
        Text(f"token {made.id} of {visible(name)}, shown this once:"),
        Text(made.secret),
    )


def list_tokens(desk: Desk, tokens: TokenPlace = DEFAULT_TOKENS) -> None:
    """List the access tokens, without their secrets."""
    found = _token_file(tokens).all()
    plain = [token.model_dump(mode="json", exclude={"digest"}) for token in found]
    lines = [
        Text(
            f"{token.id}  {visible(token.name)}  {token.owner or 'every owner'}  {' '.join(token.scopes)}  "
            f"{f'revoked {instant(token.revoked_at)}' if token.revoked_at else 'accepted'}"
        )
        for token in found
    ]
    desk.answer({"tokens": plain}, *lines)


def revoke_token(
    desk: Desk,
    token: Annotated[
        str, typer.Argument(metavar="ID|NAME", help="The token's id, as `tokens list` shows it, or a name: all of it.")
    ],
    tokens: TokenPlace = DEFAULT_TOKENS,
) -> None:
    """Take access tokens back: one by its id, or all of a name; servers refuse them from the next request on."""
    revoked = _token_file(tokens).revoke(token)
    lines = [Text(f"token {each.id} of {visible(each.name)} is revoked") for each in revoked]
    desk.answer({"revoked": [each.id for each in revoked]}, *lines)
