"""`jobledger queues …`: list, show, limit, hold, release."""

from __future__ import annotations

import pytest

from tests.cli.given import Desk

WHY = ("--reason", "to look", "--by", "ann")


def test_limits_are_set_shown_and_taken_away(desk: Desk) -> None:
    """In words for people, and as numbers for programs."""
    limits = ("--running", "3", "--rate", "100/60s", "--share-by", "owner", "--per-share", "2", "--ageing", "10m")
    assert desk("queues", "limit", "index", *limits, *WHY).out == "limited queue index: sequence 1\n"
    assert "already the limits of queue index" in desk("queues", "limit", "index", *limits, *WHY).out

    shown = desk("queues", "show", "index")
    assert "3 running, 100 starts in 1m, shares by owner, 2 running of each, a priority more each 10m" in shown.out
    assert "QueueLimited" in shown.out
    document = desk("queues", "show", "index", "--json").document
    assert document["queue"]["limits"]["starts_span"] == 60.0
    assert document["queue"]["starts_left"] == 100
    assert document["events"][0]["data"]["by"] == "ann"

    desk("queues", "limit", "index", *WHY)
    assert "limits    none" in desk("queues", "show", "index").out


def test_a_queue_and_the_whole_namespace_are_held_and_released(desk: Desk) -> None:
    assert desk("queues", "hold", "index", *WHY).code == 0
    assert desk("queues", "hold", "--all", *WHY).out == "held the whole namespace: sequence 1\n"

    listed = desk("queues", "list")
    assert listed.out.startswith("the whole namespace is held by ann: to look; nothing starts\n")
    assert "held by ann" in listed.out.splitlines()[-1]
    assert "nothing starts" in desk("queues", "show", "--all").out

    assert desk("queues", "release", "--all", *WHY).code == 0
    assert desk("queues", "release", "index", *WHY).out == "released queue index: sequence 2\n"
    refused = desk("queues", "release", "other", *WHY)
    assert refused.code == 1
    assert "queue 'other' is not held" in refused.err


def test_a_release_does_not_act_on_a_newer_hold(desk: Desk) -> None:
    """It carries the sequence that its operator saw."""
    desk("queues", "hold", "index", *WHY)
    desk("queues", "release", "index", *WHY)
    desk("queues", "hold", "index", *WHY)

    late = desk("queues", "release", "index", "--expect", "1", *WHY)

    assert (late.code, "sequence_moved" in late.err) == (1, True)


def test_a_command_with_an_id_acts_once(desk: Desk) -> None:
    once = ("--command-id", "c1", *WHY)
    desk("queues", "hold", "index", *once)
    desk("queues", "release", "index", "--expect", "1", "--command-id", "c2", *WHY)

    assert desk("queues", "hold", "index", *once).out == "held queue index: sequence 1\n"
    assert desk("queues", "show", "index", "--json").document["queue"]["hold"] is None
    assert desk("queues", "release", "index", "--command-id", "c3", *WHY).code == 2


@pytest.mark.parametrize(
    "given",
    [
        ("limit", "index", "--rate", "5"),
        ("limit", "index", "--rate", "5/soon"),
        ("limit", "index", "--running", "0"),
        ("limit", "index", "--share-by", "colour"),
        ("limit", "index", "--per-share", "1"),
        ("hold",),
        ("hold", "index", "--all"),
    ],
)
def test_what_cannot_be_meant_is_refused(desk: Desk, given: tuple[str, ...]) -> None:
    assert desk("queues", *given, *WHY).code == 2
    assert "sequence  0" in desk("queues", "show", "index").out
