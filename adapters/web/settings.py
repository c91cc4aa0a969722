"""The limits and names that a web face works under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """Limits of a web face; each holds before anything is parsed or asked of the store.

    ``hosts`` are the names that the ``Host`` header may carry, without a port (``*``: any, for a proxy that checks it).
    ``body_bytes_max`` and ``body_seconds_max`` bound a request's body. ``requests_per_minute`` and
    ``misses_per_minute`` (answers 401 and 404) are counted by client. ``streams_max`` bounds open event streams,
    ``stream_entries_max`` what waits for one slow reader. Values of payload, checkpoint and result fields named in
    ``secret_fields`` are masked for everybody without the scope ``work``.
    """

    hosts: tuple[str, ...] = LOOPBACK
    body_bytes_max: int = 2 * _MIB
    body_seconds_max: float = 30.0
    requests_per_minute: int = 60_000
    misses_per_minute: int = 240
    streams_max: int = 2_000
    stream_entries_max: int = 256
    keep_alive_seconds: float = 15.0
    secret_fields: frozenset[str] = frozenset(
        {"password", "passwd", "secret", "token", "api_key", "apikey", "authorization", "credential", "private_key"}
    )
    has_dashboard: bool = True
