"""Access tokens in a file: hashed, with scopes, bound to an owner, and revoked at once for all who read it."""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request

from jobledger.adapters.web.access import Principal, Scope
from jobledger.domain.bounds import require_text
from jobledger.domain.errors import InvalidRequestError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator

COOKIE: Final = "jobledger_token"
COOKIE_SECONDS: Final = 12 * 3_600
PREFIX: Final = "jl_"
SECRET_BYTES: Final = 32
SECRET_CHARACTERS_MAX: Final = 200
TOKENS_MAX: Final = 10_000


class StoredToken(BaseModel):
    """One token as the file keeps it; the secret itself is nowhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    owner: str | None
    scopes: tuple[Scope, ...]
    digest: str
    created_at: datetime
    revoked_at: datetime | None = None


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = 1
    tokens: tuple[StoredToken, ...] = ()


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made; its secret is shown once and kept nowhere."""

    id: str
    secret: str


class TokenFile:
    """The tokens that a server accepts; the file is read again whenever it has changed."""

    def __init__(self, path: Path) -> None:
        """Keep tokens in this file, which need not exist yet."""
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._by_digest: dict[str, StoredToken] = {}

    def create(self, name: str, scopes: Iterable[str], owner: str | None, now: datetime | None = None) -> NewToken:
        """Make a token.

        Raises:
            InvalidRequestError: a name is empty or too long, a scope unknown, or none was given.
            StoreUnavailableError: the file cannot be read or written.
        """
        known = _scopes(scopes)
        token_id, secret = secrets.token_hex(4), PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        made = StoredToken(
            id=token_id,
            name=require_text("name", name),
            owner=None if owner is None else require_text("owner", owner),
            scopes=known,
            digest=digest_of(secret),
            created_at=now or datetime.now(UTC),
        )
        with self._locked():
            kept = self._read()
            if len(kept) >= TOKENS_MAX:
                raise InvalidRequestError("tokens", f"there are {len(kept):,} tokens, which is the most; revoke some")
            self._write((*kept, made))
        return NewToken(token_id, secret)

    def revoke(self, which: str, now: datetime | None = None) -> tuple[StoredToken, ...]:
        """Take back the token of an id, or else every token of a name; a second time changes nothing.

        Who leaves is known by name, and may have had several: one that was overlooked would go on being accepted.

        Raises:
            InvalidRequestError: there is no such token.
        """
        with self._locked():
            kept = self._read()
            meant = [token.id for token in kept if token.id == which] or [
                token.id for token in kept if token.name == which
            ]
            if not meant:
                problem = f"no token has {which!r} as its id or name; 'jobledger tokens list' shows them"
                raise InvalidRequestError("token", problem)
            at = now or datetime.now(UTC)
            after = tuple(
                token.model_copy(update={"revoked_at": at}) if token.id in meant and not token.revoked_at else token
                for token in kept
            )
            if after != kept:
                self._write(after)
        return tuple(token for token in after if token.id in meant)

    def all(self) -> tuple[StoredToken, ...]:
        """Every token, also those that were revoked."""
        return self._read()

    def principal(self, secret: str) -> Principal | None:
        """Whose secret this is; ``None``: nobody's, or it was revoked."""
        if not secret.startswith(PREFIX) or len(secret) > SECRET_CHARACTERS_MAX:
            return None
        self._refresh()
        found = self._by_digest.get(digest_of(secret))
        if found is None or found.revoked_at is not None:
            return None
        return Principal(found.name, found.owner, frozenset(found.scopes))

    def resolve(self, request: Request) -> Principal | None:
        """Who sends a request: by its bearer token, or by the cookie that the login page set."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.principal(secret.strip())
        return self.principal(request.cookies.get(COOKIE, ""))

    def _refresh(self) -> None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._seen, self._by_digest = None, {}
            return
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen != self._seen:
            self._by_digest = {token.digest: token for token in self._read()}
            self._seen = seen

    def _read(self) -> tuple[StoredToken, ...]:
        try:
            return _Kept.model_validate_json(self.path.read_bytes()).tokens
        except FileNotFoundError:
            return ()
        except (OSError, ValidationError) as error:
            reason = f"the token file {self.path} cannot be read ({type(error).__name__})"
            raise StoreUnavailableError(reason) from error

    def _write(self, tokens: tuple[StoredToken, ...]) -> None:
        """Replace the file as a whole, so that no reader ever sees half of it; only its owner may read it."""
        try:
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".tokens-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(_Kept(tokens=tokens).model_dump_json(indent=1))
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except OSError as error:
            reason = f"the token file {self.path} cannot be written ({error.strerror})"
            raise StoreUnavailableError(reason) from error

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Keep other writers of the file out."""
        import fcntl  # noqa: PLC0415  # only those who write tokens need it, and only POSIX has it

        try:
            with self.path.with_name(f"{self.path.name}.lock").open("a", encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            reason = f"the token file {self.path} cannot be locked ({error.strerror})"
            raise StoreUnavailableError(reason) from error


def digest_of(secret: str) -> str:
    """What is kept of a secret: enough to know it again, and too little to be it."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _scopes(given: Iterable[str]) -> tuple[Scope, ...]:
    try:
        scopes = tuple(dict.fromkeys(Scope(each) for each in given))
    except ValueError:
        raise InvalidRequestError("scope", f"each of {', '.join(Scope)} may be given") from None
    if not scopes:
        raise InvalidRequestError("scope", f"at least one of {', '.join(Scope)} is needed")
    return scopes
