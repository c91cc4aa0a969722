"""The whole log and all that stands beside it, page by page: what verification, anchors and exports are read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jobledger import Effect, JobRequest, JobStore
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.domain.store import Setting
from tests.contracts.jobs import created

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger.domain.ports import Reader


def read(store: JobStore, what: Callable[[Reader], Any]) -> Any:
    """What one view of a store tells."""
    with store._setting.storage.reading() as reader:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # a view
        return what(reader)


def paged(store: JobStore, page: Callable[[Reader, Any, int], list[Any]], after: Any, key: Callable[[Any], Any]) -> Any:
    """All pages of one or two, each behind the last of the one before."""
    found: list[Any] = []
    for size in (1, 2, 1, 2, 2, 2, 2, 2, 2, 2):
        last = key(found[-1]) if found else after
        part = read(store, lambda reader, last=last, size=size: page(reader, last, size))  # type: ignore[misc]  # bound here
        assert len(part) <= size
        found += part
    return found


@pytest.fixture
def store(local_store: JobStore) -> JobStore:
    """A store with jobs of several owners in two namespaces, their resources, and a group that moved on."""
    for number, (owner, key) in enumerate((("zoe", "k"), ("ann", "k"), ("ann", "a"))):
        job_id = created(local_store, key, owner=owner, labels={"quarter": str(number), "team": "x"})
        fence = local_store.claim(job_id, worker="w").fence
        effects = [Effect(resource=name, value=number, expected_version=0) for name in (f"z{key}", f"a{key}")]
        local_store.checkpoint(fence, number, effects=effects)
    local_store.advance_epoch("gpu", by="ann", reason="deploy")
    elsewhere = JobStore(Setting(local_store._setting.storage, SystemEntropy(), "z-other"))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the same tables
    fence = elsewhere.claim(created(elsewhere, "k", owner="aaa"), worker="w").fence
    elsewhere.checkpoint(fence, 0, effects=[Effect(resource="aa", value=0, expected_version=0)])
    return local_store


def test_the_log_is_read_in_the_order_of_positions(store: JobStore) -> None:
    """Of every stream, in pages as in one piece, each record once."""
    whole = read(store, lambda reader: reader.log(after=0, limit=100))
    positions = [placed.position for placed in whole]

    assert positions == sorted(set(positions))
    assert len(whole) == 4 * 3 + 1
    assert len({placed.record.stream for placed in whole}) == 4 + 1
    assert (
        paged(store, lambda reader, after, size: reader.log(after=after, limit=size), 0, lambda p: p.position) == whole
    )


def test_a_stream_is_read_with_its_places_in_the_log(store: JobStore) -> None:
    whole = read(store, lambda reader: reader.log(after=0, limit=100))
    for stream in {placed.record.stream for placed in whole}:
        own = [placed for placed in whole if placed.record.stream == stream]

        def page(reader: Reader, after: Any, size: int, stream: str = stream) -> list[Any]:
            return reader.placed(stream, after=after, limit=size)

        assert paged(store, page, 0, lambda placed: placed.record.sequence) == own


def test_streams_are_listed_by_name(store: JobStore) -> None:
    whole = read(store, lambda reader: reader.log(after=0, limit=100))
    names = sorted({placed.record.stream for placed in whole})

    assert paged(store, lambda reader, after, size: reader.streams(after=after, limit=size), "", str) == names


def test_resources_are_listed_by_namespace_owner_and_name(store: JobStore) -> None:
    whole = read(store, lambda reader: reader.resources(after=("", "", ""), limit=100))
    names = [(namespace, owner, row.name) for namespace, owner, row in whole]

    assert names == [
        *(("default", "ann", name) for name in ("aa", "ak", "za", "zk")),
        *(("default", "zoe", name) for name in ("ak", "zk")),
        ("z-other", "aaa", "aa"),
    ]
    assert [row.version for *_, row in whole] == [1] * 7
    paged_through = paged(
        store,
        lambda reader, after, size: reader.resources(after=after, limit=size),
        ("", "", ""),
        lambda each: (each[0], each[1], each[2].name),
    )
    assert paged_through == whole


def test_a_job_is_found_by_its_own_labels(store: JobStore) -> None:
    """Whatever labels of the same names others have, an audit of each job finds its own rows, and nothing wrong."""
    store.create(JobRequest(owner="ann", kind="index", key="bare"))
    everything = list(store.verify_all())

    assert all(each.ok for each in everything)
    assert read(store, lambda reader: reader.strays(limit=10)) == []
