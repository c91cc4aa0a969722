"""Edges of stored shapes that examples elsewhere do not reach: exact bytes, numbers that are none, stored policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from jobledger.domain import history
from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError
from jobledger.domain.events import HoldPlaced
from jobledger.domain.history import StoredRecord, read, record
from jobledger.domain.policies import Policy
from jobledger.domain.replaying import advance
from jobledger.domain.values import Body, derived_id, encode_json, is_body, require_finite, sha256_hex
from tests.domain.given import NOON

HOLD = b'{"event":{"at":"2026-01-01T12:00:00Z","by":"ann","reason":"look"}}'


def test_a_record_leaves_out_what_is_always_the_same() -> None:
    """The first version, no record before it, no cause: none of them is written."""
    assert record("j", 1, HoldPlaced(at=NOON, by="ann", reason="look"), previous="", cause=None).state == HOLD


@pytest.fixture
def upcasters() -> Iterator[dict[tuple[str, int], Any]]:
    """The registry, which is put back after the test."""
    before = dict(history.UPCASTERS)
    history.version_of.cache_clear()
    yield history.UPCASTERS
    history.UPCASTERS.clear()
    history.UPCASTERS.update(before)
    history.version_of.cache_clear()


def test_one_upcaster_is_asked_as_two_are(upcasters: dict[tuple[str, int], Any]) -> None:
    old = b'{"event":{"at":"2026-01-01T12:00:00Z","who":"ann","reason":"look"}}'
    upcasters["job.hold_placed", 1] = lambda event: {"at": event["at"], "by": event["who"], "reason": event["reason"]}

    assert read(StoredRecord("j", 1, "job.hold_placed", old)).event == HoldPlaced(at=NOON, by="ann", reason="look")


@pytest.mark.parametrize("other", ["job.archived", "job.resumed"])
def test_upcasters_of_other_topics_count_for_nothing(upcasters: dict[tuple[str, int], Any], other: str) -> None:
    upcasters[other, 1] = lambda event: event

    assert history.version_of("job.hold_placed") == 1
    assert read(StoredRecord("j", 1, "job.hold_placed", HOLD)).event == HoldPlaced(at=NOON, by="ann", reason="look")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e400", "1" + "0" * 400 + ".0"])
def test_a_stored_number_that_is_none_stops_the_job(number: str) -> None:
    """A parser may make an infinity of it, which no face could write again."""
    shape = '{"event":{"at":"2026-01-01T12:00:00Z","generation":1,"outcome":"complete","result":{"size":9,"value":%s}}}'
    stored = (shape % number).encode()

    with pytest.raises(HistoryCorruptError):
        read(StoredRecord("j", 1, "job.completed", stored))


@pytest.mark.parametrize("text", ['"NaN"', '"1e999"', "1e300", "-1e-999", "9" * 300])
def test_what_only_looks_like_such_a_number_is_read(text: str) -> None:
    require_finite(text.encode())


@pytest.mark.parametrize("bound", [1, 9, 10, 19, 20, 1_000])
def test_the_floor_of_a_window_moves_by_a_tenth_of_it(bound: int) -> None:
    assert Policy(window_events_max=bound).window_step == max(1, bound // 10)


@pytest.mark.parametrize(
    "changes",
    [
        {"backoff": None},
        {"backoff": "PT1S"},
        {"backoff": [1]},
        {"backoff": {"initial": "soon"}},
        {"lease": "T5S"},
        {"lease": {"initial": "PT1S"}},
        {"interrupts_max": {"initial": "PT1S"}},
        {"interrupts_max": "PT5S"},
        {"unknown": "PT5S"},
    ],
    ids=str,
)
def test_changes_that_are_none_are_refused(changes: dict[str, Any]) -> None:
    """Whatever somebody made of a stored policy, it is named in one way."""
    with pytest.raises(InvalidRequestError):
        Policy.of_changes(changes)


def test_sizes_are_bytes() -> None:
    policy = Policy()

    assert (policy.payload_bytes_max, policy.checkpoint_bytes_max, policy.result_bytes_max) == (1_048_576,) * 3
    assert policy.receipt_bytes_max == 65_536


# Values ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("digest", ["0" * 64, "f" * 64])
def test_bytes_under_any_other_digest_are_not_the_ones(digest: str) -> None:
    assert not is_body(digest, b"1")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Body(5_000, digest="a" * 64), Body(5_001, digest="a" * 64)),
        (Body(5_000, digest="a" * 64), Body(5_000, digest="b" * 64)),
        (Body(5_000, digest="a" * 64), Body(5_001, digest="b" * 64)),
        (Body(1, 1), Body(2, 1)),
    ],
    ids=str,
)
def test_bodies_of_another_size_or_digest_differ(one: Body, other: Body) -> None:
    assert not one.is_same(other)
    assert not other.is_same(one)
    assert one.is_same(Body(one.size, one.value, one.digest))


def test_no_encoding_holds_a_number_that_is_none() -> None:
    for number in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="Out of range"):
            encode_json(number)


def test_a_derived_id_has_every_bit_of_its_digest_but_six() -> None:
    """Four say that it is of version 8, two that it is a UUID of the usual kind."""
    for number in range(64):
        bits = int(sha256_hex(b"job", str(number).encode())[:32], 16)
        kept = bits & ~(0xF << 76) & ~(0x3 << 62)

        assert derived_id("job", str(number)) == str(UUID(int=kept | 0x8 << 76 | 0x2 << 62))


def test_a_renewal_that_follows_its_lease_is_no_change() -> None:
    assert Policy(lease=6).changes() == {"lease": "PT6S"}
    assert Policy(lease=6, renew_every=1).changes() == {"lease": "PT6S", "renew_every": "PT1S"}


def test_what_cannot_follow_a_state_stops_the_job() -> None:
    """A hold before there is a job, under the name of its stream and the number of its event."""
    hold = read(record("j", 4, HoldPlaced(at=NOON, by="ann", reason="look"), previous="", cause=None))

    with pytest.raises(HistoryCorruptError) as stopped:
        advance(None, hold)
    assert (stopped.value.job_id, stopped.value.sequence) == ("j", 4)
