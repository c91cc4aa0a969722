"""Wake-ups between processes: hints that something was committed, sent and heard beside all transactions.

Nothing depends on them: whoever waits also looks by itself, now and then while it can hear, and often while it cannot.
"""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from jobledger.adapters.storage.postgresql_connecting import Pool, connect

if TYPE_CHECKING:
    from jobledger.adapters.storage.changes import Changes
    from jobledger.adapters.storage.postgresql_connecting import Connection, Place

COALESCED_SECONDS: Final = 0.05
"""At most one notification in this time, since a server commits one notifying transaction after the other."""

HEARING_POLL_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.1
"""How long closing a store may have to wait for the thread that listens."""

_ASK_SECONDS: Final = 5.0
_BORROW_SECONDS: Final = 1.0
_JOIN_SECONDS: Final = 5.0
_BACKOFF_FIRST_SECONDS: Final = 0.1
_BACKOFF_MAX_SECONDS: Final = 10.0


class Wakeups:
    """One process's ear and voice; its threads start when they are needed, and again in a fork."""

    def __init__(self, place: Place, pool: Pool, changes: Changes) -> None:
        """Tell ``changes`` of what others commit; notifications are sent on connections of ``pool``."""
        self._place = place
        self._pool = pool
        self._changes = changes
        self._channel = f"{place.schema[:48]}_news"
        self._lock = threading.Lock()
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._process = os.getpid()
        self._name = secrets.token_hex(8)
        self._is_over = threading.Event()
        self._has_news = threading.Event()
        self._voice: threading.Thread | None = None
        self._ear: threading.Thread | None = None
        self.is_hearing = threading.Event()

    def tell(self) -> None:
        """Let other processes know, soon, that something was committed."""
        self._ensure()
        self._has_news.set()
        if self._voice is None:
            with self._lock:
                if self._voice is None:
                    self._voice = self._started(self._speak)

    def hear(self) -> None:
        """Listen from now on."""
        self._ensure()
        if self._ear is None:
            with self._lock:
                if self._ear is None:
                    self._ear = self._started(self._listen)

    def close(self) -> None:
        """End both threads."""
        self._is_over.set()
        self._has_news.set()
        if self._process == os.getpid():
            for thread in (self._voice, self._ear):
                if thread is not None:
                    thread.join(_JOIN_SECONDS)

    def _ensure(self) -> None:
        if self._process != os.getpid():
            self._lock = threading.Lock()
            self._start_afresh()

    def _started(self, work: object) -> threading.Thread:
        thread = threading.Thread(target=work, name="jobledger-wakeups", daemon=True)  # type: ignore[arg-type]  # a method of ours
        thread.start()
        return thread

    # Telling ----------------------------------------------------------------------------------------------------------

    def _speak(self) -> None:
        # A notifying transaction commits while all others that notify wait; a hint needs no flush to the disk as well.
        notify = SQL("BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {}, {}; END").format(
            Identifier(self._channel), Literal(self._name)
        )
        while True:
            self._has_news.wait()
            if self._is_over.is_set():
                return
            self._has_news.clear()
            with suppress(psycopg.Error):  # who is not told looks by itself
                connection = self._pool.get(_BORROW_SECONDS)
                try:
                    connection.execute(notify, prepare=False)
                finally:
                    self._pool.put(connection)
            self._is_over.wait(COALESCED_SECONDS)

    # Hearing ----------------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        pause = _BACKOFF_FIRST_SECONDS
        while not self._is_over.is_set():
            with suppress(psycopg.Error):
                connection = connect(self._place)
                try:
                    if connection.prepare_threshold is None:
                        return  # a pooler gives each transaction another session: nobody can listen there
                    connection.execute(SQL("LISTEN {}").format(Identifier(self._channel)))
                    pause = _BACKOFF_FIRST_SECONDS
                    self._hear_on(connection)
                finally:
                    self.is_hearing.clear()
                    self._changes.poll_seconds = None
                    connection.close()
            # Jitter keeps the processes of a server that comes back from knocking all at the same moment.
            self._is_over.wait(pause * random.uniform(0.5, 1.5))  # noqa: S311  # no secret hangs on it
            pause = min(2 * pause, _BACKOFF_MAX_SECONDS)

    def _hear_on(self, connection: Connection) -> None:
        """Pass on what is heard until the connection breaks; what came before the first word is looked for at once."""
        self._changes.poll_seconds = HEARING_POLL_SECONDS
        self._changes.announce()
        self.is_hearing.set()
        asked = time.monotonic()
        while not self._is_over.is_set():
            for notice in connection.notifies(timeout=_LOOK_SECONDS):
                if notice.payload != self._name:
                    self._changes.tell()
                if self._is_over.is_set():
                    return
            if time.monotonic() - asked > _ASK_SECONDS:
                connection.execute("SELECT 1", prepare=False)  # a connection that is only half open shows itself here
                asked = time.monotonic()
