"""Bounds: one check for values, texts, sizes, spans and instants, on every path before any effect."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from jobledger.domain.bounds import (
    DEPTH_MAX,
    ERROR_CHARACTERS_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    error_text,
    parse_json,
    require_count,
    require_instant,
    require_integer,
    require_lease,
    require_span,
    require_storable,
    require_text,
    require_within,
)
from jobledger.domain.decisions.creating import JobRequest, Met, create, prepare
from jobledger.domain.errors import (
    InvalidRequestError,
    JobledgerError,
    PayloadTooLargeError,
    UnstorableValueError,
)
from jobledger.domain.policies import Policy
from jobledger.domain.values import Body, derived_id, encode_json, fingerprint, is_body, keep, sha256_hex
from tests.cases.values import STORED, cases, is_same, text_cases, value_cases
from tests.domain.given import JOB_ID, NOON

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cases.values import Case

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(INTEGER_MIN, INTEGER_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4))


def verdict_of(admit: Callable[[], object]) -> str:
    """What became of a value: stored, or the code of its refusal."""
    try:
        admit()
    except JobledgerError as refusal:
        return refusal.code
    return STORED


def as_payload(value: Any) -> Any:
    """Send a value as a payload through the only gate there is."""
    asked = JobRequest(owner="o", kind="k", payload=value)
    new = prepare(asked, job_id=JOB_ID, namespace="default", policies={"default": Policy()})
    return create(new, Met(), now=NOON)


# Values at the edge ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", value_cases(), ids=lambda case: case.name)
def test_a_python_value_at_the_edge_gets_its_verdict(case: Case) -> None:
    """What one store cannot give back equal is refused for all of them."""
    assert verdict_of(lambda: as_payload(case.make())) == case.verdict, case.why


@pytest.mark.parametrize("case", text_cases(), ids=lambda case: case.name)
def test_a_json_text_at_the_edge_gets_the_same_verdict(case: Case) -> None:
    """Raw JSON is no way around a bound."""
    text = case.text or ""

    assert verdict_of(lambda: as_payload(parse_json("payload", text))) == case.verdict, case.why


@pytest.mark.parametrize("case", [each for each in value_cases() if each.is_stored], ids=lambda case: case.name)
def test_a_value_that_is_stored_comes_back_the_same(case: Case) -> None:
    """Sign, precision, form and every character."""
    value = case.make()

    assert is_same(json.loads(encode_json(value)), value)
    if case.text is not None:
        assert is_same(parse_json("payload", case.text), value)
        assert is_same(parse_json("payload", case.text.encode()), value)


def test_the_cases_are_many_and_have_names_of_their_own() -> None:
    """A loader that read nothing would let everything above pass."""
    names = [case.name for case in cases()]

    assert len(names) > 50
    assert len(set(names)) == len(names)
    assert {case.verdict for case in cases()} == {STORED, "unstorable_value", "payload_too_large"}


def test_the_refusal_names_the_place_and_the_problem() -> None:
    """A payload may be large; its mistake is found by its path."""
    with pytest.raises(UnstorableValueError) as refusal:
        require_storable("payload", {"rows": [1, {"price": float("nan")}]})

    assert (refusal.value.what, refusal.value.path) == ("payload", "payload.rows[1].price")
    assert "not finite" in refusal.value.problem


def test_a_long_path_is_shortened_in_the_refusal() -> None:
    """An error is bounded, too."""
    with pytest.raises(UnstorableValueError) as refusal:
        require_storable("payload", {"k" * 100_000: float("nan")})

    assert len(str(refusal.value)) < 400


def test_a_refused_number_is_not_spelled_out() -> None:
    """A hundred thousand digits stand in no log."""
    with pytest.raises(UnstorableValueError) as refusal:
        require_storable("payload", 10**100_000)

    assert len(str(refusal.value)) < 400


@for_all(JSON)
def test_plain_json_is_accepted_and_comes_back_the_same(value: Any) -> None:
    """As a value and as text."""
    require_storable("payload", value)

    assert is_same(parse_json("payload", encode_json(value)), value)


@for_all(JSON, st.sampled_from([float("nan"), float("inf"), 2**63, "\0", "\ud800", (1,), {1}, b"x", {1: 2}, {"\0": 1}]))
def test_a_forbidden_value_is_found_wherever_it_hides(value: Any, forbidden: Any) -> None:
    """Depth and neighbours do not matter."""
    for hidden in ([value, forbidden], {"a": value, "b": {"c": [forbidden]}}):
        with pytest.raises(UnstorableValueError):
            require_storable("payload", hidden)


@pytest.mark.parametrize("depth", [DEPTH_MAX, DEPTH_MAX + 1])
@pytest.mark.parametrize("form", ["arrays", "objects"])
def test_the_depth_is_counted_the_same_in_values_and_in_text(form: str, depth: int) -> None:
    """Arrays and objects alike; brackets inside of a text do not count."""
    value: Any = "[[{{"
    for _ in range(depth):
        value = [value] if form == "arrays" else {"[": value}
    wanted = STORED if depth == DEPTH_MAX else "unstorable_value"

    assert verdict_of(lambda: require_storable("payload", value)) == wanted
    assert verdict_of(lambda: parse_json("payload", json.dumps(value))) == wanted


# Raw JSON -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[1,]",
        "{'a':1}",
        "nul",
        "01",
        "1 2",
        '"a',
        "[1]]",
        "\ufeff1",
        '"\t"',
        "+1",
        ".5",
        "1.",
        b"\xff",
        b'"\xc3"',
    ],
    ids=repr,
)
def test_what_is_no_json_is_refused_as_such(text: str | bytes) -> None:
    """The refusal says what and where; nothing is repaired silently."""
    with pytest.raises(InvalidRequestError) as refusal:
        parse_json("payload", text)

    assert refusal.value.field.startswith("payload")


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '[{"b":{"a":1,"c":2,"a":3}}]', '{"a":1,"\\u0061":2}'])
def test_a_key_that_stands_twice_is_refused_at_any_depth(text: str) -> None:
    """Readers disagree on which one counts, so neither does."""
    with pytest.raises(UnstorableValueError, match="twice"):
        parse_json("payload", text)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000, '["]",' * 100_000, "]" * 100_000 + "[" * 100_000],
    ids=["open", "closed", "objects", "quoted brackets", "backwards"],
)
def test_deep_text_is_refused_without_recursion(text: str) -> None:
    """However it is written."""
    with pytest.raises((UnstorableValueError, InvalidRequestError)):
        parse_json("payload", text)


@pytest.mark.parametrize(
    "hostile",
    ['"' + '\\"' * 20_000, '"' * 40_001, '"' + "\\\\" * 20_000, "[" + '"a",' * 10_000 + '"'],
    ids=["escaped quotes", "quotes", "backslashes", "strings"],
)
def test_text_is_read_in_time_that_grows_with_its_length(hostile: str) -> None:
    """An unfinished text costs no more than a finished one: 40 kB are read in well under a second."""
    started = time.process_time()

    with pytest.raises((UnstorableValueError, InvalidRequestError)):
        parse_json("payload", hostile)

    assert time.process_time() - started < 1.0


# Texts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a", "ü", "😀" * 255, " a ", "a\nb", "\u202eabc", "\x01"])
def test_a_text_is_taken_as_it_is(text: str) -> None:
    """Not trimmed, not normalised; its length is counted in characters."""
    assert require_text("key", text) == text


@pytest.mark.parametrize("text", ["", " ", "\n\t", "x" * 256, None, 1, b"a", True, ["a"]], ids=repr)
def test_a_text_that_is_empty_too_long_or_no_text_is_refused(text: Any) -> None:
    """The field is named."""
    with pytest.raises(InvalidRequestError) as refusal:
        require_text("key", text)

    assert refusal.value.field == "key"


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "a\udfff"], ids=repr)
def test_a_text_with_nul_or_a_lone_surrogate_is_refused(text: str) -> None:
    """No store may hold it, so none does."""
    with pytest.raises(UnstorableValueError):
        require_text("key", text)


def test_an_empty_text_is_accepted_where_that_is_said() -> None:
    """A label may have no value."""
    assert require_text("label", "", empty=True) == ""


class Mumbling(Exception):  # noqa: N818  # named by what it does
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (ValueError(), "ValueError"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        ("plain", "plain"),
        ("a\0b", "a\\u0000b"),
        ("a\ud800b", "a\\ud800b"),
        (ValueError("\0"), "ValueError: \\u0000"),
        ("", "(no text)"),
        (Mumbling(), "Mumbling: (its text could not be made: ValueError)"),
        (None, "None"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_an_error_report_never_fails(error: object, text: str) -> None:
    """What no store may hold is shown by visible escapes."""
    assert error_text(error) == text


def test_a_long_error_is_cut_visibly() -> None:
    """The reader knows that there was more, and how much."""
    text = error_text("x" * (ERROR_CHARACTERS_MAX + 5))

    assert text.startswith("x" * ERROR_CHARACTERS_MAX)
    assert text.endswith("(5 characters cut)")


@for_all(st.text())
def test_any_text_makes_a_storable_error(text: str) -> None:
    """Also one with NUL, surrogates, or nothing in it."""
    require_text("error", error_text(text), ERROR_CHARACTERS_MAX + 100, empty=True)


# Numbers, counts, sizes -----------------------------------------------------------------------------------------------


def test_an_integer_is_one_and_within_its_range() -> None:
    """``True`` is no number, and neither is 1.0."""
    assert [require_integer("n", number, 1, 3) for number in (1, 3)] == [1, 3]
    for mistaken in (0, 4, True, 1.0, "1", None):
        with pytest.raises(InvalidRequestError) as refusal:
            require_integer("n", mistaken, 1, 3)
        assert refusal.value.field == "n"


def test_a_count_and_a_size_may_reach_their_bound() -> None:
    """And not go one beyond."""
    require_count("batch", 3, 3)
    require_within(PayloadTooLargeError, 3, 3)
    with pytest.raises(InvalidRequestError, match="split"):
        require_count("batch", 4, 3)
    with pytest.raises(PayloadTooLargeError):
        require_within(PayloadTooLargeError, 4, 3)


# Spans and instants ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("span", "meant"), [(2, 2.0), (0.5, 0.5), (timedelta(seconds=3), 3.0), (0, 0.0), (3_650 * 86_400, 3_650 * 86_400)]
)
def test_a_span_is_a_timedelta_or_a_number_of_seconds(span: Any, meant: float) -> None:
    """Bounds included."""
    assert require_span("wait", span) == timedelta(seconds=meant)


@pytest.mark.parametrize(
    "span",
    [-1, timedelta(microseconds=-1), timedelta(days=3_651), 1e300, float("nan"), float("-inf"), True, "1", None, [1]],
    ids=repr,
)
def test_any_other_span_is_refused(span: Any) -> None:
    """Negative, endless, NaN, ``True`` and text; the field is named."""
    with pytest.raises(InvalidRequestError) as refusal:
        require_span("wait", span)

    assert refusal.value.field == "wait"


@pytest.mark.parametrize("number", [10**400, -(10**400)], ids=["large", "negative"])
def test_a_number_that_no_float_can_hold_is_no_span(number: int) -> None:
    """It is refused like every other number that is out of range."""
    with pytest.raises(InvalidRequestError):
        require_span("wait", number)


def test_a_lease_is_a_span_of_a_second_to_a_day() -> None:
    """Bounds included, nothing beside them."""
    assert require_lease("lease", 1) == timedelta(seconds=1)
    assert require_lease("lease", 86_400) == timedelta(hours=24)
    for mistaken in (0.999, 86_401, True, "30", float("nan")):
        with pytest.raises(InvalidRequestError):
            require_lease("lease", mistaken)


@pytest.mark.parametrize("hours", [-12, -5, 0, 2, 14])
def test_an_instant_is_kept_in_utc(hours: int) -> None:
    """Whatever zone it came in, it is the same moment."""
    there = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=hours)))

    instant = require_instant("ready_at", there)

    assert instant == there
    assert instant.tzinfo is UTC


@pytest.mark.parametrize(
    "instant",
    [
        datetime(2026, 1, 1),  # noqa: DTZ001  # a time without a zone is what is refused
        datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(9999, 1, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        "2026-01-01T00:00:00Z",
        1_767_225_600,
        datetime(2026, 1, 1, tzinfo=UTC).date(),
        None,
    ],
    ids=repr,
)
def test_any_other_instant_is_refused(instant: Any) -> None:
    """Without a zone, out of range, or no instant at all."""
    with pytest.raises(InvalidRequestError) as refusal:
        require_instant("ready_at", instant)

    assert refusal.value.field == "ready_at"


def test_the_first_and_the_last_instant_are_accepted() -> None:
    """1970 up to the end of 9998."""
    for instant in (datetime(1970, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)):
        assert require_instant("ready_at", instant) == instant


# Encodings and digests ------------------------------------------------------------------------------------------------


def test_the_encoding_is_compact_utf8_with_keys_in_their_order() -> None:
    """Sizes are counted in these bytes."""
    assert encode_json({"b": [1, 1.0, True, None], "a": "é😀"}) == '{"b":[1,1.0,true,null],"a":"é😀"}'.encode()


@for_all(st.lists(st.binary(max_size=5), max_size=4), st.lists(st.binary(max_size=5), max_size=4))
def test_no_two_lists_of_parts_share_a_digest(one: list[bytes], other: list[bytes]) -> None:
    """Moving a byte from one part to the next is seen."""
    assert (sha256_hex(*one) == sha256_hex(*other)) == (one == other)


def test_the_fingerprint_covers_kind_payload_and_origin() -> None:
    """Anything else about a request may change."""
    marks = {
        fingerprint(*parts)
        for parts in [
            *[("k", {}, None), ("k2", {}, None), ("k", [], None), ("k", {}, ["rerun"]), ("k", 1, None)],
            *[("k", 1.0, None), ("k", True, None), ("k", "1", None), ("k", None, None)],
        ]
    }

    assert len(marks) == 9
    assert fingerprint("k", {"a": 1, "b": {"c": 1, "d": 2}}, None) == fingerprint(
        "k", {"b": {"d": 2, "c": 1}, "a": 1}, None
    )


def test_stored_fingerprints_and_ids_never_change() -> None:
    """Keys that were used last year still find their jobs: these are golden."""
    assert fingerprint("rebuild", {"partition": "p7", "n": 1.0}, None) == (
        "7809669302aede335ca09c5fd51c8cfe114aecf488dd157e32f51b339b62f76e"
    )
    assert derived_id("job", "default", "team-a", "rebuild-42") == "8892bd8f-4e4c-8878-b469-93487c2d9260"


@for_all(JSON, JSON)
def test_bodies_are_the_same_exactly_when_their_bytes_are(one: Any, other: Any) -> None:
    """Also where Python calls two values equal that are written differently."""
    first, second = keep("value", one).body, keep("value", other).body

    assert first.is_same(second) == (encode_json(one) == encode_json(other))
    assert first.is_same(keep("value", one).body)
    assert not first.is_same(None)


def test_bytes_kept_aside_are_known_by_their_digest() -> None:
    """A changed byte is not what was kept."""
    kept = keep("value", "x" * 5_000)
    assert kept.aside is not None

    assert is_body(kept.body.digest, kept.aside)
    assert not is_body(kept.body.digest, kept.aside.replace(b"x", b"y", 1))
    assert kept.body == Body(size=5_002, digest=kept.body.digest)
