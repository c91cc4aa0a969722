"""The command line on a PostgreSQL store: migrate, doctor, and the demonstration."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobledger import JobRequest, JobStore
from jobledger.adapters.cli import diagnosing_server
from jobledger.adapters.cli.diagnosing import diagnose
from tests.postgresql.conftest import Ledger
from tests.postgresql.server import server
from tests.postgresql.stores import dropped, fresh_url


def said(*arguments: str) -> tuple[int, Any]:
    """The exit code of a command, and its answer."""
    command = [sys.executable, "-m", "jobledger", *arguments, "--json"]
    nothing = subprocess.DEVNULL
    ended = subprocess.run(command, stdin=nothing, capture_output=True, text=True, timeout=100, check=False)
    return ended.returncode, json.loads(ended.stdout or ended.stderr)


def test_a_store_is_made_by_migrate_alone() -> None:
    """Whatever else comes first names that command; it may be repeated."""
    url = fresh_url()
    try:
        code, refused = said("create", "--owner", "me", "--kind", "k", "--store", url)
        assert (code, refused["error"]["code"]) == (3, "schema_mismatch")
        for _ in range(2):
            code, made = said("migrate", "--store", url.replace("postgres@", "postgres:secret@"))
            assert (code, made["store"]) == (0, url)
        assert said("create", "--owner", "me", "--kind", "k", "--store", url)[0] == 0
        assert len(said("jobs", "--store", url)[1]["jobs"]) == 1
    finally:
        dropped(url)


def found_by_the_doctor(ledger: Ledger) -> dict[str, tuple[str, str]]:
    """Marks and texts of all checks, by their names."""
    return {finding.check: (finding.mark, finding.found) for finding in diagnose(ledger.url, "default")}


def test_the_doctor_tells_what_is_unsafe_here(ledger: Ledger) -> None:
    """The tests' server saves itself all that makes commits last."""
    found = found_by_the_doctor(ledger)

    assert found["durability"][0] == "fail"
    assert "fsync off" in found["durability"][1]
    assert found["role"][0] == "warn"
    others = {name: mark for name, (mark, _) in found.items() if name not in ("durability", "role")}
    assert set(others.values()) == {"ok"}, found
    assert {"server", "connection", "transactions", "store", "feed", "tables", "clock", "leases"} <= others.keys()


def test_the_doctor_names_who_holds_the_feed_back(
    ledger: Ledger, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And who keeps dead rows from being cleared away."""
    monkeypatch.setattr(diagnosing_server, "FEED_HELD_SECONDS", 0)
    monkeypatch.setattr(diagnosing_server, "OLD_SECONDS", 0)
    with ledger.connect(application_name="the culprit") as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        store.create(JobRequest(owner="team", kind="index"), connection=connection)
        found = found_by_the_doctor(ledger)
        while "the culprit" not in found["transactions"][1]:  # an older one of a test beside this one is named first
            found = found_by_the_doctor(ledger)

    for check in ("feed", "transactions"):
        assert found[check][0] == "warn"
        assert "the culprit" in found[check][1]


def test_the_doctor_says_why_a_server_does_not_answer() -> None:
    findings = {finding.check: finding for finding in diagnose("postgresql://u:secret@127.0.0.1:1/db", "default")}

    assert findings["server"].mark == "fail"
    assert "127.0.0.1:1" in findings["server"].found
    assert "secret" not in findings["server"].found
    assert "store" not in findings


@pytest.mark.slow
def test_the_demonstration_runs_on_a_server(tmp_path: Path) -> None:
    """Its worker dies and another one goes on; afterwards nothing of it is left in the database."""
    schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'jobledger\\_demo%'"

    code, facts = said("demo", "--store", server().url(), "--megabytes", "3", "--dir", str(tmp_path / "demo"))

    assert (code, facts["ok"]) == (0, True)
    with server().connect() as connection:
        assert connection.execute(schemas).fetchall() == [(0,)]


def test_the_demonstration_takes_no_file(tmp_path: Path) -> None:
    """It makes a file of its own, and would not touch one that is named."""
    code, refused = said("demo", "--store", f"sqlite:///{tmp_path / 'jobs.db'}")

    assert (code, refused["error"]["code"]) == (2, "invalid_request")
