"""Auditors and maintainers: a sound store says so, and a damaged one cannot hide it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobledger.adapters.cli.diagnosing import exit_code_of, sqlite_release
from jobledger.adapters.cli.findings import Finding
from tests.cli.given import Desk, tamper


def test_a_sound_history_is_ok(desk: Desk) -> None:
    job_id = desk.job()
    desk("hold", job_id, "--reason", "r")

    shown = desk("verify", job_id)

    assert shown.code == 0
    assert shown.out.endswith("verify: ok (2 events)\n")
    assert desk("verify", "--all").out == "verify: ok (1 job, 2 events)\n"


def test_a_changed_history_exits_4_and_is_told(desk: Desk) -> None:
    """One byte of an old event is enough."""
    sound, changed = desk.job(key="k1"), desk.job(key="k2")
    desk("hold", changed, "--reason", "the disk is full")
    tamper(
        desk.path,
        "UPDATE stored_events SET state = replace(state, 'disk', 'dish') WHERE originator_version = 2",
    )

    one, every = desk("verify", changed), desk("verify", "--all", "--json")

    assert (one.code, every.code, desk("verify", sound).code) == (4, 4, 0)
    assert "NOT ok" in one.out
    assert not every.document["ok"]
    assert {problem["job_id"] for problem in every.document["problems"]} == {changed}


def test_verify_asks_for_one_job_or_all(desk: Desk) -> None:
    assert desk("verify").code == 2
    assert desk("verify", "x", "--all").code == 2


def test_rebuild_mends_rows_that_differ(desk: Desk) -> None:
    job_id = desk.job()
    desk("hold", job_id, "--reason", "r")
    tamper(desk.path, "UPDATE job_status SET head = 'nonsense'")

    broken, mended, after = desk("verify", job_id), desk("rebuild", "status"), desk("verify", job_id)

    assert (broken.code, mended.code, after.code) == (4, 0, 0)
    assert f"mended {job_id}" in mended.out
    assert desk("rebuild", "nonsense").code == 2


def test_epochs_are_shown_and_advanced(desk: Desk) -> None:
    before = desk("epoch", "show", "mail", "--json").document
    after = desk("epoch", "advance", "mail", "--reason", "new release", "--json").document

    assert (before["epoch"], after["epoch"]) == (1, 2)
    assert desk("epoch", "show").out == "group default is at epoch 1\n"
    assert desk("epoch", "advance").code == 2
    assert "Usage" in desk("epoch").out


def test_migrate_makes_a_store_and_is_safe_to_repeat(empty: Desk) -> None:
    first, second = empty("migrate"), empty("migrate", "--json")

    assert (first.code, second.code) == (0, 0)
    assert second.document["schema"] >= 1
    assert empty("jobs").code == 0


def test_an_older_schema_is_refused_by_the_name_of_the_command_that_mends_it(desk: Desk) -> None:
    """A command that looks must not change a schema that other processes still use."""
    tamper(desk.path, "DELETE FROM schema_version")

    shown = desk("jobs")

    assert shown.code == 3
    assert "run: jobledger migrate" in shown.err


# The doctor -----------------------------------------------------------------------------------------------------------


def _checks(desk: Desk) -> dict[str, Any]:
    return {finding["check"]: finding for finding in desk("doctor", "--json").document["checks"]}


def test_a_healthy_store_has_no_failing_check(desk: Desk) -> None:
    desk.job()

    shown = desk("doctor")
    checks = _checks(desk)

    assert shown.code == 0
    assert checks["durability"]["found"] == "journal wal, synchronous FULL"
    assert {finding["mark"] for finding in checks.values()} <= {"ok", "warn"}
    assert re.search(r"ok +python +CPython 3", shown.out)


def test_a_doctor_makes_no_store(empty: Desk) -> None:
    shown = empty("doctor")

    assert shown.code == 0
    assert "there is none at" in shown.out
    assert not list(empty.path.parent.iterdir())


def test_leases_that_ran_out_are_told(desk: Desk) -> None:
    job_id = desk.job()
    with desk.store() as store:
        store.claim(job_id, worker="w")
    past = (datetime.now(UTC) - timedelta(minutes=5)).timestamp() * 1e6
    tamper(desk.path, f"UPDATE job_lease SET expires_at_us = {int(past)}")  # noqa: S608  # a number

    lease = _checks(desk)["leases"]

    assert lease["mark"] == "warn"
    assert "1 lease ran out, the first 5m ago" in lease["found"]


def test_a_store_that_cannot_be_opened_fails_by_its_family(desk: Desk) -> None:
    tamper(desk.path, "DELETE FROM schema_version")
    older = desk("doctor")
    desk.path.write_bytes(b"no database" * 100)
    broken = desk("doctor")

    assert (older.code, broken.code) == (3, 4)
    assert "fail" in older.out


@pytest.mark.parametrize(
    ("found", "mark"),
    [
        ((3, 34, 0), "fail"),
        ((3, 40, 1), "warn"),
        ((3, 44, 6), "ok"),
        ((3, 50, 6), "warn"),
        ((3, 50, 7), "ok"),
        ((3, 51, 2), "warn"),
        ((3, 51, 3), "ok"),
        ((3, 52, 0), "ok"),
    ],
)
def test_releases_of_sqlite_are_judged_by_their_mends(found: tuple[int, ...], mark: str) -> None:
    assert sqlite_release(found).mark == mark


def test_the_worst_finding_decides_the_exit_code() -> None:
    ok, warn, fail = Finding("a", "ok", ""), Finding("a", "warn", ""), Finding("a", "fail", "")
    corrupt = Finding("a", "fail", "", is_corrupt=True)

    assert [exit_code_of([ok, other]) for other in (warn, fail, corrupt)] == [0, 3, 4]
    assert exit_code_of([fail, corrupt]) == 4
