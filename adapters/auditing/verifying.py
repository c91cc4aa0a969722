"""Verifying a whole store on several processors: streams go out in handfuls, answers come back as they are found."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from jobledger.adapters.bootstrap import open_storage
from jobledger.projections.audit import streams, verify_beside, verify_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobledger.domain.ports import Storage
    from jobledger.projections.audit import Verification

HANDFUL: Final = 100
"""Streams that one process verifies before it answers."""

_storage: Storage | None = None
"""The storage of this process, in a process that verifies for another."""


def verify_everything(url: str, namespace: str, *, processes: int | None = None) -> Iterator[Verification]:
    """Verify every stream of a namespace and the rows beside, as ``JobStore.verify_all`` does, in any order.

    A store that fits into one handful is verified here; else ``processes`` (default: one for each processor) open it
    each for themselves.

    Raises:
        StoreUnavailableError: the store cannot be read.
    """
    processes = processes or os.cpu_count() or 1
    storage = open_storage(url, migrate=False)
    try:
        names = streams(storage, namespace)
        first = list(islice(names, HANDFUL))
        if processes == 1 or len(first) < HANDFUL:
            yield from (verify_stream(storage, stream) for stream in chain(first, names))
        else:
            yield from _verified_by(processes, url, first, names)
        beside = verify_beside(storage, namespace)
        if not beside.ok:
            yield beside
    finally:
        storage.close()


def _verified_by(processes: int, url: str, first: list[str], names: Iterator[str]) -> Iterator[Verification]:
    context = multiprocessing.get_context("spawn")  # a fork would share the connections of this process
    with ProcessPoolExecutor(processes, context, _open, (url,)) as pool:
        waiting: set[Future[list[Verification]]] = {pool.submit(_verify, first)}
        is_more = True
        while waiting:
            while is_more and len(waiting) < 2 * processes:
                handful = list(islice(names, HANDFUL))
                is_more = bool(handful)
                if handful:
                    waiting.add(pool.submit(_verify, handful))
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for each in done:
                yield from each.result()


def _open(url: str) -> None:
    global _storage  # noqa: PLW0603  # a process of the pool has one storage for its whole life
    _storage = open_storage(url, migrate=False)


def _verify(handful: list[str]) -> list[Verification]:
    if _storage is None:
        msg = "this process has opened no store"
        raise LookupError(msg)
    return [verify_stream(_storage, stream) for stream in handful]
