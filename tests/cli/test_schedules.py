"""`jobledger schedules …`: put, list, show, hold, release, trigger, backfill, upcoming, remove, apply."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from jobledger.domain.job import State
from tests.cli.given import HOSTILE, Desk, characters_that_act, program

NIGHTLY = ("schedules", "put", "nightly", "--kind", "index", "--cron", "30 2 * * *", "--zone", "Europe/Berlin")
WHY = ("--reason", "to look", "--by", "ann")

FILE = """
[nightly]
kind = "index"
cron = "30 2 * * *"
zone = "Europe/Berlin"
payload = { day = "${date}" }
overlap = "queue"
window = "2d"

[poll]
kind = "fetch"
every = "5m"
start = 2026-01-01T00:00:00Z
"""


def test_a_schedule_is_put_once_and_told_with_its_next_instant(empty: Desk) -> None:
    """It makes the store; what says the same is left alone."""
    first, again = empty(*NIGHTLY), empty(*NIGHTLY)

    assert (first.code, again.code) == (0, 0)
    assert first.out.startswith("put schedule nightly: sequence 1, next ")
    assert again.out.startswith("it says that already: schedule nightly: sequence 1")
    found = empty("schedules", "show", "nightly", "--json").document
    assert found["schedule"]["cron"] == "30 2 * * *"
    assert len(found["upcoming"]) == 5
    assert [event["name"] for event in found["events"]] == ["ScheduleCreated"]


@pytest.mark.parametrize("span", ["4000d", "999999999d", "100000h"])
def test_a_span_that_no_store_takes_is_refused_and_not_cut(empty: Desk, span: str) -> None:
    """Whoever asks for every eleven years would else get every ten, and learn of it then."""
    asked = empty("schedules", "put", "rare", "--kind", "index", "--every", span)

    assert asked.code == 2
    assert "3,650 days" in asked.err


def test_schedules_are_listed_and_shown_for_people(desk: Desk) -> None:
    """With times in UTC and in the zone, and with a hold in plain sight."""
    desk(*NIGHTLY)
    desk("schedules", "put", "poll", "--kind", "fetch", "--every", "5m", "--jitter", "30s", "--overlap", "allow")
    desk("schedules", "hold", "poll", *WHY)

    listed = desk("schedules", "list")
    shown = desk("schedules", "show", "poll")
    soon = desk("schedules", "upcoming", "poll", "--count", "2")

    assert "30 2 * * * (Europe/Berlin)" in listed.out
    assert "every 5m" in listed.out
    assert "held by ann" in listed.out
    assert "to look; nothing fires" in shown.out
    assert "it is held by ann: none of these fires before a release" in soon.out
    assert desk("schedules", "list", "--json").document["next_after"] is None


def test_operators_hold_release_trigger_and_remove(desk: Desk) -> None:
    """Refusals exit with 1 and name the next step; nothing acts late."""
    desk(*NIGHTLY)

    assert desk("schedules", "hold", "nightly", *WHY).code == 0
    refused = desk("schedules", "trigger", "nightly", *WHY)
    assert refused.code == 1
    assert "schedule 'nightly' is held by 'ann' (to look); release that hold first" in refused.err
    assert desk("schedules", "release", "nightly", *WHY, "--expect", "1").code == 1
    assert desk("schedules", "release", "nightly", *WHY).code == 0
    made = desk("schedules", "trigger", "nightly", *WHY, "--json").document
    assert made["reused"] is False
    assert desk("schedules", "trigger", "nightly", *WHY).code == 1
    assert desk("schedules", "remove", "nightly", *WHY).code == 0
    assert desk("schedules", "show", "nightly").code == 1
    assert desk("schedules", "list").out == "no schedules were put\n"
    with desk.store() as store:
        assert store.status(made["job_id"]).labels == {"schedule": "nightly"}


def test_past_instants_are_backfilled_once(desk: Desk) -> None:
    """The second time all of them are there."""
    desk("schedules", "put", "daily", "--kind", "index", "--cron", "0 12 * * *")
    days = ("--from", "2026-01-01", "--to", "2026-01-03 12:00")

    first = desk("schedules", "backfill", "daily", *days, *WHY)
    again = desk("schedules", "backfill", "daily", *days, *WHY, "--json").document

    assert first.out == "created 3 jobs of schedule daily, 0 were there\n"
    assert (again["job_ids"], again["reused"]) == ([], 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--cron", "61 * * * *"), "column 1: '61' is no minute (0 to 59)"),
        (("--cron", "0 0 30 2 *"), "never fires"),
        (("--cron", "* * * * *", "--zone", "Moon/Crater"), "no time zone 'Moon/Crater'"),
        (("--every", "often"), "'often' is no span of time"),
        ((), "give either cron=… or every=…"),
        (("--every", "5m", "--overlap", "maybe"), "one of skip, queue, allow"),
        (("--every", "5m", "--start", "soon"), "is no time"),
    ],
)
def test_a_mistaken_schedule_is_bad_input(desk: Desk, arguments: tuple[str, ...], said: str) -> None:
    answer = desk("schedules", "put", "s", "--kind", "index", *arguments)

    assert answer.code == 2
    assert said in answer.err
    assert desk("schedules", "list").out == "no schedules were put\n"


def test_a_file_is_applied_after_its_plan(empty: Desk, tmp_path: Path) -> None:
    """The plan says what is created, changed, kept and removed; a dry run does nothing."""
    file = tmp_path / "schedules.toml"
    file.write_text(FILE, encoding="utf-8")

    planned = empty("schedules", "apply", str(file), "--dry-run")
    assert planned.code == 0
    assert planned.out.count("create") == 2
    assert planned.out.endswith("nothing was done\n")
    assert empty("schedules", "list").out == "no schedules were put\n"

    assert empty("schedules", "apply", str(file)).code == 0
    empty("schedules", "put", "other", "--kind", "k", "--every", "1h")
    file.write_text(FILE.replace('every = "5m"', "every = 600"), encoding="utf-8")
    changed = empty("schedules", "apply", str(file), "--remove-others", "--json").document

    assert [(each["name"], each["what"], each["fields"]) for each in changed["plan"]] == [
        ("nightly", "keep", []),
        ("poll", "change", ["every"]),
    ]
    assert changed["removed"] == ["other"]
    with empty.store() as store:
        assert [(each.name, each.sequence) for each in store.schedules.list().schedules] == [
            ("nightly", 1),
            ("poll", 2),
        ]
        assert store.schedules.get("nightly").payload == {"day": "${date}"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no schedule"),
        ("x = 1\n", "a table is needed"),
        ("[a]\nkind = 'k'\ncron = '99 * * * *'\n", "FILE.a: Schedule.cron: column 1: '99' is no minute"),
        ("[a]\nkind = 'k'\n", "FILE.a: Schedule: give either cron=… or every=…"),
        ("[a]\nkind = 'k'\nevery = '5m'\ncolour = 'red'\n", "colour"),
        ("[a]\nkind = 'k'\nevery = '5m'\nname = 'b'\n", "the table's own name"),
        ("[a]\nevery = '5m'\n", "kind"),
        ("[a]\nkind = 'k'\nevery = inf\n", "Schedule.every: that number of seconds"),
        ("[a]\nkind = 'k'\nevery = 1e300\n", "Schedule.every: that number of seconds"),
        ("[a]\nkind = 'k'\nevery = '5m'\njitter = nan\n", "Schedule.jitter: that number of seconds"),
        ("[a\n", "is no TOML file"),
    ],
)
def test_a_mistaken_file_changes_nothing(desk: Desk, tmp_path: Path, text: str, said: str) -> None:
    """Whatever else is in it."""
    file = tmp_path / "schedules.toml"
    file.write_text("[good]\nkind = 'k'\nevery = '5m'\n\n" * bool(text) + text if text.startswith("[") else text)

    answer = desk("schedules", "apply", str(file))

    assert answer.code == 2
    assert said in answer.err
    assert desk("schedules", "list").out == "no schedules were put\n"


def test_nothing_of_a_schedule_acts_on_a_terminal(desk: Desk) -> None:
    """Names, kinds and reasons are other people's text."""
    name = HOSTILE.replace("\r\n", "")
    desk("schedules", "put", name, "--kind", HOSTILE, "--every", "5m", "--payload", '"\\u001b[31m"')
    desk("schedules", "hold", name, "--reason", HOSTILE)

    for words in (("list",), ("show", name), ("upcoming", name)):
        answer = desk("schedules", *words)
        assert answer.code == 0
        assert characters_that_act(answer.out) == []


def test_a_worker_fires_schedules_when_it_is_asked_to(desk: Desk, tmp_path: Path) -> None:
    """As a process of its own; its handler gets what the template says."""
    (tmp_path / "ticking.py").write_text(
        "from jobledger import durable_job\n\n@durable_job('tick')\ndef tick(at: str) -> str:\n    return at\n"
    )
    desk("schedules", "put", "s", "--kind", "tick", "--every", "1s", "--payload", '{"at": "${instant}"}')
    with subprocess.Popen(
        program("worker", "ticking", "--schedules"),
        cwd=tmp_path,
        env={**os.environ, "JOBLEDGER_STORE": desk.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        with desk.store() as store:
            while not (done := store.jobs(state=State.COMPLETE).jobs) and running.poll() is None:
                store.wait_for_change(1)
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=30)

    assert running.returncode == 0
    assert done[-1].key == f"schedule:s:{done[-1].result}"
