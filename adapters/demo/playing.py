"""Playing the demonstration from its beginning to its end, in a folder of its own that is gone afterwards."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.demo import showing
from jobledger.adapters.demo.index import Index, has_full_text_search
from jobledger.adapters.demo.jobs import POLICIES
from jobledger.adapters.demo.processes import worker
from jobledger.adapters.demo.schemas import schema_of_its_own
from jobledger.adapters.demo.story import MissedError, Story
from jobledger.adapters.demo.telling import Teller
from jobledger.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

    from jobledger.adapters.terminal.desk import Desk

QUERY: Final = "priority queue"
MEGABYTES: Final = 64
MEGABYTES_MAX: Final = 256


def play(
    desk: Desk, *, query: str, folder: Path | None, is_kept: bool, megabytes: int, server: str | None = None
) -> dict[str, Any]:
    """Play it, and answer the facts that were seen.

    Args:
        desk: where it is told.
        query: what the index is asked at the end.
        folder: where the store and the index are made, and kept; ``None``: a temporary folder.
        is_kept: leave the temporary folder, and say how to look at the store.
        megabytes: how much source text is indexed at most.
        server: the URL of a PostgreSQL database, in which a schema is made for the jobs; ``None``: a file.

    Raises:
        MissedError: something that was promised was not to be seen.
        InvalidRequestError: the folder holds a store already, or the size is out of its range.
    """
    if not 1 <= megabytes <= MEGABYTES_MAX:
        raise InvalidRequestError("megabytes", f"{megabytes} is outside 1 to {MEGABYTES_MAX}")
    if not has_full_text_search():
        promise = "the SQLite of this Python can make a full-text index (it is built without FTS5)"
        raise MissedError(promise)
    started = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(_ended_like_by_ctrl_c())
        place = _place(stack, folder, is_kept=is_kept)
        url = (
            f"sqlite:///{place / 'jobledger.db'}"
            if server is None
            else schema_of_its_own(stack, server, is_kept=is_kept)
        )
        store = stack.enter_context(JobStore.open(url, policies=POLICIES, migrate=True))
        story = Story(store, url, Index(place / "index.db"), place / "index.db", Teller(desk))
        _tell(story, query, megabytes * 10**6)
        seconds = time.monotonic() - started
        story.teller.chapter(f"All of it was seen, in {seconds:.1f} seconds.")
        if is_kept or folder is not None:
            _say_how_to_look(story, place)
    return {"ok": True, "seconds": round(seconds, 1), **story.facts}


def _tell(story: Story, query: str, bytes_max: int) -> None:
    story.prepare(bytes_max)
    old = story.lose_a_worker()
    with worker(story.url, "worker-b") as second:
        story.take_over(old, second)
        story.patrol(second)
    showing.show_the_course(story)
    showing.verify(story)
    showing.ask(story, query)


def _say_how_to_look(story: Story, place: Path) -> None:
    store = shlex.quote(story.url)
    story.teller.say(f"The store is kept in {place}; look at it with:")
    for command in (
        f"show {story.job_id}",
        f"events {story.job_id}",
        f"timeline {story.job_id}",
        f"events {story.patrol_id}",
        "verify --all",
    ):
        story.teller.say(f"  jobledger {command} --store {store}")


def _place(stack: ExitStack, folder: Path | None, *, is_kept: bool) -> Path:
    """The folder to work in; a temporary one is removed at the end, unless it is kept."""
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidRequestError("dir", f"{os.fspath(folder)!r} cannot be made: {error.strerror}") from None
        taken = [name for name in ("jobledger.db", "index.db") if (folder / name).exists()]
        if taken:
            raise InvalidRequestError("dir", f"{os.fspath(folder)!r} holds {taken[0]!r} already; name an empty folder")
        return folder.resolve()
    place = Path(tempfile.mkdtemp(prefix="jobledger-demo-")).resolve()
    if not is_kept:
        stack.callback(shutil.rmtree, place, ignore_errors=True)
    return place


@contextmanager
def _ended_like_by_ctrl_c() -> Generator[None, None, None]:
    """Within the block other polite ways to end this process clean up as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), interrupt) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
