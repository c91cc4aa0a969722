"""Access tokens: shown once, kept as digests, bound to scopes and an owner, and revoked at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobledger import JobStore
from jobledger.adapters.web import create_app
from jobledger.adapters.web.tokens import TokenFile
from jobledger.domain.errors import InvalidRequestError, StoreUnavailableError
from tests.web.serving import serving


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    """A file that does not exist yet."""
    return TokenFile(tmp_path / "tokens.json")


def test_a_secret_is_kept_nowhere(tokens: TokenFile) -> None:
    made = tokens.create("ci", ["submit"], "search")

    text = tokens.path.read_text(encoding="utf-8")
    assert made.secret not in text
    assert tokens.path.stat().st_mode & 0o077 == 0
    found = tokens.principal(made.secret)
    assert found is not None
    assert (found.name, found.owner, [str(scope) for scope in found.scopes]) == ("ci", "search", ["submit"])


@pytest.mark.parametrize("secret", ["", "jl_", "jl_guess", "x" * 10_000, "jl_\ud800", "Bearer"])
def test_a_guess_is_nobody(tokens: TokenFile, secret: str) -> None:
    tokens.create("ci", ["read"], None)

    assert tokens.principal(secret) is None


def test_a_revoked_token_is_refused_from_then_on(tokens: TokenFile) -> None:
    """Also by another process's reader, which saw it accepted before."""
    made = tokens.create("ci", ["read"], None)
    other = TokenFile(tokens.path)
    assert other.principal(made.secret) is not None

    tokens.revoke(made.id)

    assert other.principal(made.secret) is None
    assert tokens.principal(made.secret) is None


def test_all_tokens_of_a_name_are_taken_back_together(tokens: TokenFile) -> None:
    """Who leaves is known by name; an id still means one token, and another's stays accepted."""
    first, second = (tokens.create("ann", ["read"], None) for _ in range(2))
    other = tokens.create("bob", ["read"], None)

    [alone] = tokens.revoke(first.id)
    both = tokens.revoke("ann")

    assert alone.id == first.id
    assert {each.id for each in both} == {first.id, second.id}
    assert tokens.principal(second.secret) is None
    assert tokens.principal(other.secret) is not None
    assert next(each for each in tokens.all() if each.id == first.id).revoked_at == alone.revoked_at


def test_tokens_made_at_once_are_all_kept(tokens: TokenFile) -> None:
    with ThreadPoolExecutor(8) as crowd:
        made = list(crowd.map(lambda number: tokens.create(f"t{number}", ["read"], None), range(24)))

    assert all(tokens.principal(each.secret) for each in made)


def test_mistakes_are_told(tokens: TokenFile) -> None:
    for scopes in ([], ["root"], ["read", "everything"]):
        with pytest.raises(InvalidRequestError):
            tokens.create("ci", scopes, None)
    with pytest.raises(InvalidRequestError):
        tokens.revoke("nobody")
    tokens.path.write_text("{", encoding="utf-8")
    with pytest.raises(StoreUnavailableError):
        tokens.all()


def test_a_page_is_opened_by_logging_in(store: JobStore, tokens: TokenFile) -> None:
    """The cookie cannot be read by scripts, is sent by no other site, and ends with the token."""
    made = tokens.create("ann", ["read", "operate"], None)
    with serving(create_app(store, tokens=tokens)) as address, httpx.Client(base_url=address) as client:
        form = {"Sec-Fetch-Site": "same-origin"}
        assert client.get("/jobs").headers["location"] == "/login"
        assert client.post("/login", data={"token": "jl_wrong"}, headers=form).status_code == 401

        cookie = client.post("/login", data={"token": made.secret}, headers=form).headers["set-cookie"]

        assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
        assert client.get("/jobs").status_code == 200
        assert client.get("/api/v1/jobs").status_code == 200
        tokens.revoke(made.id)
        assert client.get("/api/v1/jobs").status_code == 401


def test_a_bearer_token_opens_the_api(store: JobStore, tokens: TokenFile) -> None:
    made = tokens.create("ci", ["read"], "search")
    with serving(create_app(store, tokens=tokens)) as address:
        ask: Any = lambda secret: httpx.get(f"{address}/api/v1/jobs", headers={"Authorization": f"Bearer {secret}"})  # noqa: E731  # it is asked twice in one line

        assert (ask(made.secret).status_code, ask("jl_other").status_code) == (200, 401)


def _jobledger(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jobledger", *words], cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )


def test_tokens_are_made_listed_and_revoked_on_the_command_line(tmp_path: Path) -> None:
    made = json.loads(_jobledger("tokens", "create", "ci", "--scope", "read", "--json", cwd=tmp_path).stdout)
    listed = json.loads(_jobledger("tokens", "list", "--json", cwd=tmp_path).stdout)
    revoked = _jobledger("tokens", "revoke", made["id"], cwd=tmp_path)

    assert [token["id"] for token in listed["tokens"]] == [made["id"]]
    assert "digest" not in listed["tokens"][0]
    assert revoked.returncode == 0
    assert TokenFile(tmp_path / "jobledger-tokens.json").principal(made["token"]) is None


def test_an_address_that_others_can_reach_needs_tokens(tmp_path: Path) -> None:
    _jobledger("migrate", cwd=tmp_path)

    refused = _jobledger("serve", "--host", "0.0.0.0", "--port", "0", cwd=tmp_path)  # noqa: S104  # it is refused

    assert refused.returncode == 2
    assert "tokens create" in refused.stderr


@pytest.mark.parametrize("words", [("serve",), ("demo", "--serve")])
def test_a_server_that_is_told_to_end_leaves_nothing_behind(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The server raises SIGTERM again once it has drained; the demo's folder is removed all the same."""
    _jobledger("migrate", cwd=tmp_path)
    server = subprocess.Popen(
        [sys.executable, "-m", "jobledger", *words, "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("serving http://")
        server.send_signal(signal.SIGTERM)

        assert server.wait(30) == 0
    assert not [each for each in tmp_path.iterdir() if each.is_dir()]
