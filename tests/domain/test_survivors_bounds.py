"""Edges of bounds that examples elsewhere do not reach: published limits, and what lies exactly at one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from jobledger.domain import bounds
from jobledger.domain.bounds import (
    BATCH_MAX,
    DEPTH_MAX,
    ERROR_CHARACTERS_MAX,
    INSTANT_MAX,
    NAMES_MAX,
    NUMBER_CHARACTERS_MAX,
    error_text,
    parse_json,
    require_batch,
    require_flag,
    require_instant,
    require_names,
    require_storable,
)
from jobledger.domain.decisions.creating import JobRequest, prepare
from jobledger.domain.errors import InvalidRequestError, UnstorableValueError
from jobledger.domain.events import Archived
from jobledger.domain.job import evolve, told_state
from jobledger.domain.lease import Fence
from jobledger.domain.policies import Policy
from jobledger.domain.steps import Steps
from jobledger.domain.values import keep
from tests.domain.given import NOON, created, replay


def test_every_bound_has_its_published_value() -> None:
    """A stored value that was within them once has to stay within them."""
    published = {
        "DEPTH_MAX": 64,
        "NODES_MAX": 5_000_000,
        "NUMBER_CHARACTERS_MAX": 400,
        "NAME_CHARACTERS_MAX": 255,
        "REASON_CHARACTERS_MAX": 2_000,
        "ERROR_CHARACTERS_MAX": 8_000,
        "LABELS_MAX": 32,
        "EFFECTS_MAX": 100,
        "BATCH_MAX": 1_000,
        "PAGE_MAX": 1_000,
        "NAMES_MAX": 100,
        "BOUNDARY_BYTES_MAX": 65_536,
        "PATH_CHARACTERS_MAX": 120,
        "JSON_TEXT_BYTES_MAX": 268_435_456,
        "PRIORITY_MAX": 2_147_483_647,
        "INTEGER_MAX": 9_223_372_036_854_775_807,
        "INTEGER_MIN": -9_223_372_036_854_775_808,
    }

    assert {name: getattr(bounds, name) for name in published} == published


@pytest.mark.parametrize(("values", "accepted"), [(4, True), (5, True), (6, False), (9, False)])
def test_a_value_of_as_many_parts_as_are_allowed_is_accepted(
    monkeypatch: pytest.MonkeyPatch, values: int, accepted: bool
) -> None:
    """The list itself is one of them."""
    monkeypatch.setattr(bounds, "NODES_MAX", 5)
    value = [0] * (values - 1)

    if accepted:
        require_storable("payload", value)
    else:
        with pytest.raises(UnstorableValueError, match="beyond 5 values"):
            require_storable("payload", value)


def test_an_error_text_of_exactly_its_bound_is_not_cut() -> None:
    assert error_text("x" * ERROR_CHARACTERS_MAX) == "x" * ERROR_CHARACTERS_MAX
    assert error_text("x" * (ERROR_CHARACTERS_MAX + 1)).endswith("… (1 characters cut)")


def test_a_number_of_exactly_its_bound_is_read() -> None:
    longest = "0." + "1" * (NUMBER_CHARACTERS_MAX - 2)

    assert parse_json("payload", longest) == float(longest)
    with pytest.raises(UnstorableValueError):
        parse_json("payload", longest + "1")


@pytest.mark.parametrize("extra", [0, 1])
def test_a_path_of_exactly_its_bound_is_shown_whole(extra: int) -> None:
    """One character more, and its middle is left out."""
    key = "k" * (bounds.PATH_CHARACTERS_MAX - len("payload.") + extra)
    whole = f"payload.{key}"
    with pytest.raises(UnstorableValueError) as refusal:
        require_storable("payload", {key: object()})

    assert refusal.value.path == (whole if not extra else f"{whole[:60]}…{whole[-50:]}")


def test_instants_beyond_the_last_one_are_refused() -> None:
    for late in (INSTANT_MAX, datetime(9999, 6, 1, tzinfo=UTC)):
        with pytest.raises(InvalidRequestError):
            require_instant("at", late)


def test_a_batch_is_a_list_or_a_tuple_of_bounded_length() -> None:
    assert require_batch("items", (1, 2)) == require_batch("items", [1, 2]) == [1, 2]
    assert len(require_batch("items", [0] * BATCH_MAX)) == BATCH_MAX
    mistaken: list[object] = ["ab", {1, 2}, {"a": 1}, None, [0] * (BATCH_MAX + 1)]
    for wrong in mistaken:
        with pytest.raises(InvalidRequestError):
            require_batch("items", wrong)


def test_names_are_a_collection_of_texts_of_bounded_length() -> None:
    for right in (["a"], ("a",), {"a"}, frozenset("a")):
        assert require_names("kinds", right) == ["a"]
    assert len(require_names("kinds", ["a"] * NAMES_MAX)) == NAMES_MAX
    mistaken: list[object] = ["a", {"a": 1}, None, [1], [""], ["a"] * (NAMES_MAX + 1)]
    for wrong in mistaken:
        with pytest.raises(InvalidRequestError):
            require_names("kinds", wrong)


def test_a_flag_is_true_or_false_and_nothing_else() -> None:
    assert require_flag("held", value=True) is True
    assert require_flag("held", value=False) is False
    mistaken: list[object] = [0, 1, "yes", None, [], 1.0]
    for wrong in mistaken:
        with pytest.raises(InvalidRequestError):
            require_flag("held", wrong)


def test_json_text_is_held_to_the_bounds_of_values() -> None:
    """What only an escape can write is refused as it is in a value."""
    for text in ('"\\u0000"', '"\\ud800"', '{"\\u0000":1}', "9223372036854775808"):
        with pytest.raises(UnstorableValueError):
            parse_json("payload", text)


def test_a_text_beyond_its_length_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "JSON_TEXT_BYTES_MAX", 5)

    assert parse_json("payload", "12345") == 12_345
    with pytest.raises(InvalidRequestError, match="at most 5 are allowed"):
        parse_json("payload", "[[[[[[")


def test_what_lies_side_by_side_is_not_deep() -> None:
    """Nor does it make room for what is."""
    side_by_side = "[],[1],{}," * 1_000

    assert len(parse_json("payload", f"[{side_by_side}0]")) == 3_001
    with pytest.raises(UnstorableValueError, match="nested deeper"):
        parse_json("payload", f"[{side_by_side}{'[' * 2_000}{']' * 2_000}]")


def test_the_levels_of_a_document_come_on_top_of_those_of_a_value() -> None:
    """A value as deep as is allowed fits into a document, which may be no deeper than both together."""
    for enclosing in (0, 1, 3):
        deepest = DEPTH_MAX + enclosing
        for depth, is_accepted in ((deepest, True), (deepest + 1, False)):
            text = "[" * depth + "]" * depth
            if is_accepted:
                require_storable("body", parse_json("body", text, enclosing=enclosing), enclosing=enclosing)
                continue
            for ask in (
                partial(parse_json, "body", text, enclosing=enclosing),
                partial(require_storable, "body", json.loads(text), enclosing=enclosing),
            ):
                with pytest.raises(UnstorableValueError, match=f"nested deeper than {deepest} levels"):
                    ask()


def test_the_least_and_the_most_urgent_priority() -> None:
    for priority in (1 - 2**31, 2**31 - 1):
        prepared(priority=priority)
    for priority in (-(2**31), 2**31):
        with pytest.raises(InvalidRequestError, match="priority"):
            prepared(priority=priority)


def prepared(**asked: Any) -> object:
    """A request that was checked against every bound."""
    return prepare(JobRequest(owner="team", kind="rebuild", **asked), job_id="j1", namespace="default", policies={})


def test_bodies_of_one_size_are_told_apart_whichever_is_asked() -> None:
    one, other = keep("value", 1).body, keep("value", 2).body

    assert (one.size, one.is_same(keep("value", 1).body)) == (other.size, True)
    assert (one.is_same(other), other.is_same(one)) == (False, False)


def test_a_mistaken_model_names_its_first_mistake_in_one_sentence() -> None:
    """The field by its name, and what is wrong there as part of a sentence."""
    mistaken: Any = {"owner": 1, "key": 2}
    with pytest.raises(InvalidRequestError) as refusal:
        JobRequest(**mistaken)

    assert (refusal.value.field, refusal.value.problem) == ("JobRequest.owner", "input should be a valid string")


def test_a_model_takes_nothing_that_it_does_not_know_and_changes_no_more() -> None:
    request = JobRequest(owner="team", kind="rebuild")
    frozen: Any = request
    unknown: Any = {"owner": "team", "kind": "rebuild", "colour": "red"}
    with pytest.raises(InvalidRequestError, match="colour"):
        JobRequest(**unknown)
    with pytest.raises(ValidationError):
        frozen.kind = "other"

    assert request.kind == "rebuild"


def test_a_stored_span_that_is_none_is_named() -> None:
    for name in ("lease", "run_time_max"):
        with pytest.raises(InvalidRequestError, match=f"Policy.{name}.*'soon' is no span of time"):
            Policy.of_changes({name: "soon"})


def test_a_trace_that_is_none_is_refused_before_its_job_is_made() -> None:
    prepared(traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    with pytest.raises(InvalidRequestError, match="traceparent"):
        prepared(traceparent="nonsense")


def test_a_fence_is_the_same_whatever_was_written_under_it_and_shows_no_secret() -> None:
    one, other = (Fence("j1", 1, "default", 1, "secret", Steps(last)) for last in (0, 7))

    assert one == other
    assert repr(one) == repr(other)
    assert "secret" not in repr(one)


def test_a_state_that_stands_for_a_history_is_told_without_what_is_at_its_default() -> None:
    told = told_state(replay([created()]))

    assert "outcome" not in told
    with pytest.raises(LookupError, match="cannot be read"):
        evolve(None, Archived(at=NOON, digest="", place="", state={"id": [1]}))
