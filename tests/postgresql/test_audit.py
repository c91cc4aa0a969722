"""Hands in the tables of a PostgreSQL store: each change is found under the rule that it breaks."""

from __future__ import annotations

import pytest

from jobledger import Effect, JobStore, Policy
from tests.contracts.jobs import running
from tests.postgresql.conftest import Ledger

EVENT = "originator_id = %(job)s AND originator_version"

TAMPERINGS: dict[str, tuple[str, str]] = {
    "an event is edited": ("chained", f"UPDATE stored_events SET state = state || ' ' WHERE {EVENT} = 2"),  # noqa: S608  # literals only
    "an event is removed": ("contiguous", f"DELETE FROM stored_events WHERE {EVENT} = 3"),  # noqa: S608  # literals only
    "the last event is removed": ("status_row", f"DELETE FROM stored_events WHERE {EVENT} = 5"),  # noqa: S608  # literals only
    "a topic is changed": ("readable", f"UPDATE stored_events SET topic = 'os:system' WHERE {EVENT} = 3"),  # noqa: S608  # literals only
    "a command is changed": ("command", f"UPDATE stored_events SET command_id = 'mine' WHERE {EVENT} = 3"),  # noqa: S608  # literals only
    "a head is changed": ("head", "UPDATE job_status SET head = 'feed' WHERE job_id = %(job)s"),
    "an owner is changed": ("columns", "UPDATE job SET owner = 'spy' WHERE job_id = %(job)s"),
    "a queue is changed": ("columns", "UPDATE job_status SET queue = 'fast' WHERE job_id = %(job)s"),
    "a priority is changed": ("columns", "UPDATE job SET priority = 9 WHERE job_id = %(job)s"),
    "a label is changed": ("columns", "UPDATE job_label SET value = 'x' WHERE job_id = %(job)s"),
    "a submission is changed": ("columns", "UPDATE submission SET submission = 'mine' WHERE job_id = %(job)s"),
    "a receipt is removed": ("unit_rows", "DELETE FROM job_unit WHERE job_id = %(job)s"),
    "a resource is changed": ("resource", "UPDATE resource SET value = '9' WHERE job_id = %(job)s"),
    "a body is changed": ("body", "UPDATE job_body SET bytes = 'x' WHERE job_id = %(job)s"),
    "a status row is removed": ("status_row", "DELETE FROM job_status WHERE job_id = %(job)s"),
    "a group is made up": ("stray", "INSERT INTO worker_group VALUES ('default', 'phantom', 2, 1, %(job)s)"),
    "a lease is made up": ("stray", "INSERT INTO job_lease VALUES (%(job)s, 'default', 3, 1, 1, 'default', 1)"),
    "a label is made up": (
        "stray",
        "INSERT INTO job_label SELECT namespace, 'made', 'up', position, job_id FROM job WHERE job_id = %(job)s",
    ),
}


def rich(store: JobStore, key: str) -> str:
    """An ended job with a bit of everything, in six events."""
    lease = running(store, key, payload="p" * 5_000, labels={"l": "v"}, submission=key, policy="stepwise")
    store.record_unit(lease.fence, "u0", 1)
    store.checkpoint(lease.fence, "s" * 5_000, effects=[Effect(resource=key, value=1, expected_version=0)])
    return store.complete(lease.fence, result=1).job_id


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_each_kind_of_tampering_is_found_and_named(ledger: Ledger, tampering: str) -> None:
    """In the job that was touched, and in no other."""
    rule, statement = TAMPERINGS[tampering]
    with ledger.open(policies={"stepwise": Policy(window_events_max=40)}) as store:
        touched, other = rich(store, "touched"), rich(store, "other")
        assert all(verification.ok for verification in store.verify_all())
        with ledger.connect(autocommit=True) as connection:
            assert connection.execute(statement.encode(), {"job": touched}).rowcount >= 1

        broken = {
            each.job_id: {problem.rule for problem in each.problems} for each in store.verify_all() if not each.ok
        }

        assert rule in set().union(*broken.values()), broken
        assert other not in broken
