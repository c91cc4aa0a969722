"""What other people wrote is shown, and can do nothing to the terminal that shows it."""

import json
import unicodedata
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobledger.adapters.terminal import desk as desks
from jobledger.adapters.terminal.documents import document
from jobledger.adapters.terminal.texts import clipped, visible, visible_lines
from tests.cli.given import HOSTILE, Desk, characters_that_act

ACTING = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


@given(st.text())
def test_nothing_that_acts_is_left_in_a_visible_text(text: str) -> None:
    shown = visible(text)

    assert "\n" not in shown
    assert not [character for character in shown if unicodedata.category(character) in ACTING]


@given(st.text())
def test_lines_stay_lines(text: str) -> None:
    shown = visible_lines(text)

    assert not characters_that_act(shown)
    assert shown.count("\n") == text.replace("\r\n", "\n").count("\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, grün, 日本語, 🚀", "plain, grün, 日本語, 🚀"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\u202eb", "a\\u202eb"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x9b\x7f\u2028", "\\x9b\\x7f\\u2028"),
        ("\udcff", "\\udcff"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_acts_is_shown_as_python_writes_it(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_cut_is_marked() -> None:
    assert clipped("abcdef", 4) == "abc…"
    assert clipped("abcd", 4) == "abcd"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_is_plain_ascii_and_gives_the_value_back(value: object) -> None:
    text = document(value)

    assert text.isascii()
    assert not characters_that_act(text)
    assert json.loads(text) == value


@pytest.fixture
def job_id(desk: Desk) -> str:
    """A job whose every text is hostile."""
    hostile = HOSTILE
    job_id = desk.job(
        owner=hostile,
        key=hostile,
        kind=hostile,
        queue=hostile,
        submission=hostile,
        labels={hostile: hostile},
        payload={hostile: [hostile]},
    )
    with desk.store() as store:
        lease = store.claim(job_id, worker=hostile, group=hostile, lease=timedelta(hours=1))
        store.record_unit(lease.fence, hostile, {hostile: hostile})
        store.checkpoint(lease.fence, {hostile: hostile})
        store.report_progress(lease.fence, 1, 2, hostile)
        store.fail_attempt(lease.fence, hostile)
        store.hold(job_id, by=hostile, reason=hostile)
    return job_id


@pytest.mark.parametrize(
    "command",
    [
        "jobs",
        "show {id}",
        "show {id} --at 3",
        "events {id}",
        "units {id}",
        "controls {id}",
        "timeline {id}",
        "verify {id}",
        "watch {id} --timeout 0",
        "watch --after start --timeout 0",
        "doctor",
    ],
)
@pytest.mark.parametrize("ending", ["", " --json"])
def test_no_command_shows_what_acts(desk: Desk, job_id: str, command: str, ending: str) -> None:
    shown = desk(*f"{command}{ending}".format(id=job_id).split())

    assert shown.out
    assert not characters_that_act(shown.out + shown.err)


def test_hostile_text_is_still_told(desk: Desk, job_id: str) -> None:
    """Escaping hides nothing: an operator sees what somebody tried, and markup is no markup."""
    shown = desk("show", job_id)

    assert (
        shown.out.count("a\\x1b[31mred\\x1b[0m\\u202egnp.exe\\x07\\x9b2J[bold]b[/bold]\\r\\n\\u2066:smile:\\x7f") >= 6
    )


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_a_narrow_terminal_loses_nothing_but_room(
    desk: Desk, job_id: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desks, "UNBOUNDED", width)

    shown = desk("show", job_id)

    assert max(map(len, shown.out.splitlines())) <= width
    assert job_id in "".join(line.removeprefix("job").strip() for line in shown.out.splitlines())


def test_errors_show_nothing_that_acts(desk: Desk, job_id: str) -> None:
    shown = desk("hold", job_id, "--by", "bob", "--reason", "r")

    assert shown.code == 1
    assert "\\x1b[31mred" in shown.err
    assert not characters_that_act(shown.err)
