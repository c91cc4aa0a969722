"""Whatever is typed, there is an answer, an exit code that is documented, and never a traceback."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.cli.given import HOSTILE, Desk, characters_that_act

COMMANDS = (
    "create",
    "rerun",
    "fork",
    "jobs",
    "show",
    "events",
    "units",
    "controls",
    "timeline",
    "hold",
    "release",
    "resume",
    "cancel",
    "retry",
    "recover",
    "verify",
    "rebuild",
    "import",
    "replay",
    "epoch",
    "migrate",
    "doctor",
    "worker",
)
"""Every command that ends by itself, whatever it is given; `watch` and `demo` take their time."""

OPTIONS = (
    "--json",
    "--store",
    "--namespace",
    "--at",
    "--after",
    "--limit",
    "--owner",
    "--key",
    "--kind",
    "--payload",
    "--label",
    "--ready-at",
    "--control",
    "--policies",
    "--by",
    "--reason",
    "--expect",
    "--state",
    "--cursor",
    "--all",
    "--expired",
    "--from-checkpoint",
    "--held",
    "--help",
)

LINES = (
    "create --owner {} --kind k",
    "create --owner a --kind {} --key {}",
    "create --owner a --kind k --payload {}",
    "create --owner a --kind k --ready-at {}",
    "create --owner a --kind k --label {} --control {}",
    "create --owner a --kind k --policies {}",
    "create --owner a --kind k --priority {}",
    "create --owner a --kind k --submission {} --policy {}",
    "jobs --owner {} --kind {}",
    "jobs --state {}",
    "jobs --label {} --key-prefix {}",
    "jobs --cursor {}",
    "jobs --limit {}",
    "jobs --store {}",
    "migrate --store {}",
    "jobs --namespace {}",
    "show {}",
    "show {id} --at {}",
    "events {id} --after {}",
    "units {id} --after {}",
    "hold {id} --by {} --reason {}",
    "release {id} --reason r --expect {}",
    "recover {}",
    "rerun {id} --key {} --reason r",
    "fork {id} --at {} --key k --reason r",
    "verify {}",
    "verify --export {}",
    "export {} --to -",
    "export --to - --state {} --label {}",
    "audit {}",
    "audit {id} --html -",
    "diff {id} {} 1",
    "verify --proof {}",
    "verify --anchors {} --public-key {}",
    "prove {id} 1 --anchors {}",
    "anchor --key {}",
    "import {}",
    "replay {}",
    "rebuild {}",
    "epoch show {}",
    "epoch advance {} --reason {}",
    "watch {id} --timeout {}",
    "watch --timeout 0 --after {}",
    "worker {}",
    "demo --megabytes {}",
    "{}",
    "{} {}",
)
"""Every place where a value is typed; `watch` and `demo` get only values with which they end."""

RUBBISH = (
    "",
    " ",
    "-",
    "--",
    "-1",
    "9" * 30,
    "1e999",
    "nan",
    "\udcff\udc80",
    "\0",
    HOSTILE,
    "x" * 10_000,
    "@",
    "@/",
    "[" * 5_000,
    '{"a":1,"a":2}',
    "+999999999d",
    "0001-01-01",
    "9999-12-31T23:59:59Z",
    "sqlite:////dev/null",
    "sqlite:////proc/self/mem",
    "a=b=c",
    "..",
    "json:loads",
)

CODES = {0, 1, 2, 3, 4}


@pytest.mark.parametrize("rubbish", RUBBISH, ids=range(len(RUBBISH)))
def test_rubbish_in_any_place_is_answered(desk: Desk, rubbish: str) -> None:
    job_id = desk.job()

    for line in LINES:
        _is_answered(desk, [job_id if word == "{id}" else rubbish if word == "{}" else word for word in line.split()])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(COMMANDS) | st.sampled_from(OPTIONS) | st.sampled_from(RUBBISH) | st.text(max_size=8),
        max_size=7,
    )
)
@example(["show", "--at"])
@example(["--json"])
@example(["epoch", "advance"])
def test_any_line_is_answered(desk: Desk, line: list[str]) -> None:
    _is_answered(desk, line)


def _is_answered(desk: Desk, arguments: list[str]) -> None:
    shown = desk(*arguments)

    assert shown.code in CODES, shown
    assert "Traceback" not in shown.out + shown.err
    assert not characters_that_act(shown.err)
    assert shown.err.count("\n") <= 1
    assert bool(shown.err) == bool(shown.code) or shown.out
