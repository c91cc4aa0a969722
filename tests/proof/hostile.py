"""Bytes, texts and values as nobody should have stored or sent them, and stored ones with a small hurt."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

FRAGMENTS: Final = (
    b"null",
    b"true",
    b"0",
    b"-1",
    b"1.0",
    b"1e999",
    b"-1e999",
    b"NaN",
    b"Infinity",
    b"9" * 30,
    b"9" * 5_000,
    b"0.1e-400",
    b'""',
    b'"x"',
    b'"\\u0000"',
    b'"\\ud800"',
    b'"2026-01-01T12:00:00Z"',
    b'"2026-01-01T12:00:00"',
    b'"+999999-01-01T00:00:00Z"',
    b'"9999-12-31T23:59:59.999999-23:59"',
    b"1e18",
    b'"P1Y"',
    b'"P999999999999D"',
    b"[]",
    b"{}",
    b"[" * 5_000,
    b"[" * 100 + b"]" * 100,
    b'{"a":' * 300 + b"1" + b"}" * 300,
    b'{"size":1,"value":2,"size":3}',
    b'{"size":4,"digest":"../../etc/passwd"}',
    b'{"_type_":"os:system","_data_":"id"}',
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"\x00",
)
"""Pieces of JSON, or of what pretends to be JSON."""

BYTES: Final = (
    st.binary(max_size=60)
    | st.sampled_from(FRAGMENTS)
    | st.text(max_size=30).map(lambda text: text.encode("utf-8", "surrogatepass"))
)


@st.composite
def hurt(draw: st.DrawFn, whole: bytes) -> bytes:
    """Stored bytes with one or two hurts: a part cut out, doubled, overwritten, or replaced by a hostile piece."""
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.integers(0, len(whole)))
        end = draw(st.integers(start, min(len(whole), start + 40)))
        middle = draw(st.sampled_from((b"", whole[start:end] * 2)) | BYTES)
        whole = whole[:start] + middle + whole[end:]
    return whole


@st.composite
def hurt_value(draw: st.DrawFn, whole: bytes) -> bytes:
    """Stored JSON with one of its values replaced by a hostile piece, or one of its members doubled."""
    places = [
        place for place in range(len(whole)) if whole[place : place + 1] == b":" and whole[place - 1 : place] == b'"'
    ]
    if not places:
        return draw(BYTES)
    start = draw(st.sampled_from(places)) + 1
    end = _end_of_value(whole, start)
    piece = draw(st.sampled_from(FRAGMENTS) | st.sampled_from([whole[start:end]]))
    is_doubled = draw(st.booleans())
    key = whole[whole.rfind(b'"', 0, start - 2) : start]
    more = b"," + key + piece if is_doubled else b""
    return whole[:start] + (whole[start:end] if is_doubled else piece) + more + whole[end:]


def _end_of_value(whole: bytes, start: int) -> int:
    """Where the value that starts here ends; brackets in texts are not told apart, which does no harm here."""
    depth = 0
    for place in range(start, len(whole)):
        letter = whole[place : place + 1]
        if letter in (b",", b"}", b"]") and depth == 0:
            return place
        depth += (letter in (b"{", b"[")) - (letter in (b"}", b"]"))
    return len(whole)
