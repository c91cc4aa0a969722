"""Faults of neighbours: one job whose rows somebody damaged costs no other job its lease, its recovery or its claim."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from jobledger import Completion, JobStore, Lease, ManualClock
from tests.contracts.conftest import LEASE
from tests.contracts.jobs import running

UNREADABLE = "UPDATE job_status SET job = x'00' WHERE job_id = ?"
NO_LEASE = "DELETE FROM job_lease WHERE job_id = ?"
NO_STATUS = "DELETE FROM job_status WHERE job_id = ?"


def damaged(store: JobStore, file: Path, statement: str) -> list[Lease]:
    """Four running jobs in the order of their ids, the first of which is damaged."""
    leases = sorted((running(store, f"k{number}") for number in range(4)), key=lambda lease: lease.job_id)
    with sqlite3.connect(file) as connection:
        connection.execute(statement, (leases[0].job_id,))
    connection.close()
    return leases


def test_a_damaged_job_costs_no_other_its_renewal(sqlite: JobStore, file: Path) -> None:
    leases = damaged(sqlite, file, UNREADABLE)

    answers = sqlite.renew_many([lease.fence for lease in leases])

    assert [getattr(answer, "code", "") for answer in answers] == ["history_corrupt", "", "", ""]


def test_a_damaged_job_costs_no_other_its_outcome(sqlite: JobStore, file: Path) -> None:
    leases = damaged(sqlite, file, UNREADABLE)

    answers = sqlite.complete_many([Completion(lease.fence, result=1) for lease in leases])

    assert [getattr(answer, "code", "") for answer in answers] == ["history_corrupt", "", "", ""]


def test_a_damaged_job_costs_no_other_its_recovery(sqlite: JobStore, file: Path, clock: ManualClock) -> None:
    leases = damaged(sqlite, file, UNREADABLE)
    clock.advance(LEASE)

    assert {receipt.job_id for receipt in sqlite.recover_expired()} == {lease.job_id for lease in leases[1:]}


def test_a_damaged_job_costs_no_other_its_claim(sqlite: JobStore, file: Path, clock: ManualClock) -> None:
    leases = damaged(sqlite, file, UNREADABLE)
    clock.advance(LEASE)

    assert {lease.job_id for lease in sqlite.claim_next(worker="w2", limit=9)} == {lease.job_id for lease in leases[1:]}


def test_a_damaged_job_is_one_line_of_an_audit(sqlite: JobStore, file: Path) -> None:
    """An auditor is told of it, and of all the others."""
    damaged(sqlite, file, UNREADABLE)

    assert [bool(report.problems) for report in sqlite.verify_all()] == [True, False, False, False]


def test_an_attempt_whose_lease_row_is_gone_is_recovered(sqlite: JobStore, file: Path, clock: ManualClock) -> None:
    """It is not live, so the next sweep parks it; an auditor sees that the row is missing."""
    leases = damaged(sqlite, file, NO_LEASE)
    clock.advance(LEASE)

    assert {receipt.job_id for receipt in sqlite.recover_expired()} == {lease.job_id for lease in leases}


def test_an_attempt_whose_lease_row_is_gone_can_be_recovered_by_its_id(sqlite: JobStore, file: Path) -> None:
    lease = damaged(sqlite, file, NO_LEASE)[0]

    sqlite.recover(lease.job_id)

    assert sqlite.claim(lease.job_id, worker="w2").fence.generation == 2


def test_a_job_that_cannot_be_recovered_keeps_no_other_from_it(
    sqlite: JobStore, file: Path, clock: ManualClock
) -> None:
    leases = damaged(sqlite, file, NO_STATUS)
    clock.advance(LEASE)

    parked = [receipt.job_id for _ in range(4) for receipt in sqlite.recover_expired(limit=1)]

    assert set(parked) == {lease.job_id for lease in leases[1:]}


def test_undamaged_neighbours_are_all_served(sqlite: JobStore, clock: ManualClock) -> None:
    """The control: without the damage, the same calls serve all four."""
    leases = sorted((running(sqlite, f"k{number}") for number in range(4)), key=lambda lease: lease.job_id)

    assert len(sqlite.renew_many([lease.fence for lease in leases])) == 4
    clock.advance(LEASE)
    assert len(sqlite.recover_expired()) == 4
    assert len(sqlite.claim_next(worker="w2", limit=9)) == 4
