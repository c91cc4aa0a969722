"""The tests of stores notice every change of a statement: a sample here, all of them with ``JOBLEDGER_EXAMPLES``."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.proof import sql_mutants, sql_mutants_postgresql
from tests.proof.explanations import ROOT
from tests.proof.sql_mutants import changes_of, mutants

SAMPLE = 48


def changed(text: str) -> set[str]:
    """Every changed form of a text of SQL."""
    return {text[:start] + instead + text[end:] for _, start, end, instead in changes_of(text)}


def test_each_part_of_a_statement_is_changed() -> None:
    """Conditions, their signs, orders and limits."""
    assert changed("SELECT x FROM t WHERE a = :a AND b <= :b ORDER BY c, d DESC LIMIT 1") >= {
        "SELECT x FROM t WHERE 1 AND b <= :b ORDER BY c, d DESC LIMIT 1",
        "SELECT x FROM t WHERE a <> :a AND b <= :b ORDER BY c, d DESC LIMIT 1",
        "SELECT x FROM t WHERE a = :a AND 1 ORDER BY c, d DESC LIMIT 1",
        "SELECT x FROM t WHERE a = :a AND b < :b ORDER BY c, d DESC LIMIT 1",
        "SELECT x FROM t WHERE a = :a AND b > :b ORDER BY c, d DESC LIMIT 1",
        "SELECT x FROM t WHERE a = :a AND b <= :b ORDER BY d DESC LIMIT 1",
        "SELECT x FROM t WHERE a = :a AND b <= :b ORDER BY c, d LIMIT 1",
        "SELECT x FROM t WHERE a = :a AND b <= :b LIMIT 1",
        "SELECT x FROM t WHERE a = :a AND b <= :b ORDER BY c, d DESC",
    }
    assert changed("UPDATE t SET a = :a, b = :b WHERE c = :c") == {
        "UPDATE t SET b = :b WHERE c = :c",
        "UPDATE t SET a = :a WHERE c = :c",
        "UPDATE t SET a = :a, b = :b WHERE 1",
        "UPDATE t SET a = :a, b = :b WHERE c <> :c",
    }


def test_every_text_of_sql_has_mutants() -> None:
    """A statement that is written in a form that nobody changes would be proved by nothing."""
    places = {mutant.place.split(".")[1] for mutant in mutants()}

    assert len(mutants()) > 350
    assert places >= {"LOAD", "DEAD_IN", "DEAD", "STANDINGS", "PUT_LEASE", "DROP_CHECKPOINT", "feed()", "jobs()"}


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_every_mutant_is_noticed_or_explained() -> None:
    """The same run says what it tried; a mutant that survives is named."""
    sample = [] if os.environ.get("JOBLEDGER_EXAMPLES") else ["--sample", str(SAMPLE)]
    run = subprocess.run(
        [sys.executable, "-m", sql_mutants.__name__, *sample], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stdout + run.stderr[-2_000:]
    assert re.search(r"[1-9]\d* chosen, \d+ of them explained, 0 survived", run.stdout)


def test_a_suite_that_notices_nothing_is_found_out() -> None:
    """The control: where the tests look at nothing that a statement says, its mutants survive."""
    script = (
        "import sys; from tests.proof import sql_mutants as m; "
        "m.SUITE, m.SUITES = ('tests/storage/test_sessions.py',), {}; "
        "m.NOT_THESE = ('-k', 'test_an_empty_batch and sqlite'); "
        "sys.exit(m.main(['--only', 'DEAD | drop: l.job_id']))"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)

    assert run.returncode == 1, run.stdout + run.stderr[-2_000:]
    assert "survived: sqlite_claims.DEAD | drop: l.job_id > :after -> 1" in run.stdout


def test_each_part_of_a_statement_for_postgresql_is_changed() -> None:
    """Conditions in its own notation, locks, and what a function sets is left alone."""
    text = "UPDATE t SET a = b.a WHERE t.id = ANY (%(ids)s) AND t.x IS DISTINCT FROM b.x FOR UPDATE SKIP LOCKED"

    found = {text[:start] + instead + text[end:] for _, start, end, instead in sql_mutants_postgresql.changes_of(text)}

    assert found == {
        text.replace("t.id = ANY (%(ids)s)", "true"),
        text.replace("t.id = ANY", "t.id <> ANY"),
        text.replace("t.x IS DISTINCT FROM b.x", "true"),
        text.replace("IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
        text.replace(" FOR UPDATE SKIP LOCKED", ""),
        text.replace(" SKIP LOCKED", ""),
    }


def test_every_precondition_of_an_append_on_postgresql_has_mutants() -> None:
    """Of a function that was defined again only the last definition is tried."""
    changes: dict[str, list[str]] = {mutant.place: [] for mutant, _ in sql_mutants_postgresql.mutants()}
    for mutant, _ in sql_mutants_postgresql.mutants():
        changes[mutant.place].append(mutant.change)
    [append] = [place for place in changes if place.endswith(".append")]

    assert len(changes) > 40
    for compared in ("a.guard", "a.live", "a.seen", "l.step", "moved", "conflicting", "recorded", "x.submission"):
        assert any(compared in change for change in changes[append]), compared
