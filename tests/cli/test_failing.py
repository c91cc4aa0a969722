"""When a command cannot be done: the exit code tells the family, one sentence tells what to do."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.terminal.failing import family_of
from jobledger.domain import errors
from tests.cli.given import Desk, tamper

FAMILIES = {
    errors.RefusedError: 1,
    errors.InvalidError: 2,
    errors.UnavailableError: 3,
    errors.CorruptError: 4,
}


@pytest.mark.parametrize("name", sorted(set(errors.__all__) - {"JobledgerError"}))
def test_every_error_exits_by_its_family(name: str) -> None:
    """A script can branch on the exit code, whatever class a later version raises."""
    error_class = getattr(errors, name)
    [expected] = [code for family, code in FAMILIES.items() if issubclass(error_class, family)]

    assert family_of(error_class.__new__(error_class))[0] == expected


def test_a_refusal_exits_1_and_names_the_next_step(desk: Desk) -> None:
    job_id = desk.job()

    shown = desk("release", job_id, "--reason", "why not")

    assert (shown.code, shown.out) == (1, "")
    assert shown.err == f"jobledger: refused (not_held): job {job_id} is not held; there is nothing to release\n"


def test_bad_input_exits_2(desk: Desk) -> None:
    shown = desk("create", "--owner", "a", "--kind", "k", "--payload", "{'a': 1}")

    assert (shown.code, shown.out) == (2, "")
    assert "payload: it is not JSON" in shown.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("show",),
        ("jobs", "--nonsense"),
        ("jobs", "--limit", "many"),
        ("hold", "x"),
        ("show", "a", "b"),
    ],
)
def test_bad_usage_exits_2_and_names_the_help(desk: Desk, arguments: tuple[str, ...]) -> None:
    shown = desk(*arguments)

    assert (shown.code, shown.out) == (2, "")
    assert shown.err.count("\n") == 1
    assert "--help'" in shown.err


def test_an_unavailable_store_exits_3(desk: Desk) -> None:
    desk.path.unlink()

    shown = desk("jobs")

    assert shown.code == 3
    assert "there is no store" in shown.err


def test_a_file_that_is_no_database_exits_4(desk: Desk) -> None:
    desk.path.write_bytes(b"this is no database at all, and long enough to be told from an empty file" * 9)

    shown = desk("jobs")

    assert shown.code == 4
    assert "not an SQLite database" in shown.err
    assert "back off" not in shown.err


def test_a_corrupt_history_exits_4(desk: Desk) -> None:
    job_id = desk.job()
    tamper(desk.path, "UPDATE stored_events SET state = x'7b7d'")

    shown = desk("show", job_id, "--at", "1")

    assert shown.code == 4
    assert "call an auditor" in shown.err


def test_a_schema_of_a_later_version_exits_4_and_is_not_touched(desk: Desk) -> None:
    with sqlite3.connect(desk.path) as connection:
        connection.execute("INSERT INTO schema_version VALUES (9999, 'later', '', 0)")
    connection.close()

    shown = desk("jobs")

    assert shown.code == 4
    assert "upgrade jobledger" in shown.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs",),
        ("show", "x"),
        ("events", "x"),
        ("units", "x"),
        ("controls", "x"),
        ("timeline", "x"),
        ("watch", "x"),
        ("watch",),
        ("hold", "x", "--reason", "r"),
        ("release", "x", "--reason", "r"),
        ("cancel", "x", "--reason", "r"),
        ("recover", "x"),
        ("rerun", "x", "--key", "k", "--reason", "r"),
        ("verify", "--all"),
        ("rebuild", "status"),
        ("epoch", "show"),
    ],
)
def test_a_store_that_does_not_exist_is_named_and_not_made(empty: Desk, arguments: tuple[str, ...]) -> None:
    """A typing mistake in the store's name must not leave an empty store behind."""
    shown = empty(*arguments)

    assert shown.code == 3
    assert "there is no store at" in shown.err
    assert "jobledger migrate" in shown.err
    assert "jobledger create" in shown.err
    assert not list(empty.path.parent.iterdir())


@pytest.mark.parametrize("arguments", [("create", "--owner", "a", "--kind", "k"), ("migrate",)])
def test_a_missing_folder_is_named_and_not_made(desk: Desk, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    shown = desk(*arguments, "--store", f"sqlite:///{tmp_path}/no/such/jobs.db")

    assert shown.code == 3
    assert f"the folder '{tmp_path}/no/such' does not exist; make it first" in shown.err
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("url", ["memory:", "sqlite:///", "sqlite://", "mysql://x", "", "jobs.db", "sqlite:///\0"])
def test_a_url_that_names_no_lasting_store_exits_2(desk: Desk, url: str) -> None:
    assert desk("jobs", "--store", url).code == 2


def test_a_folder_is_no_store(desk: Desk, tmp_path: Path) -> None:
    assert desk("jobs", "--store", f"sqlite:///{tmp_path}").code == 3
    assert desk("migrate", "--store", f"sqlite:///{tmp_path}").code == 3


def test_another_programs_database_is_left_alone(desk: Desk, tmp_path: Path) -> None:
    """Only opening it would already change its journal mode."""
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()

    shown = desk("jobs", "--store", f"sqlite:///{path}")

    assert shown.code == 3
    assert "a database, but it holds no jobs" in shown.err
    assert path.read_bytes() == before


def test_with_json_an_error_is_the_document_and_has_the_fields_of_its_class(desk: Desk) -> None:
    job_id = desk.job()
    desk("hold", job_id, "--by", "alice", "--reason", "wait")

    shown = desk("hold", job_id, "--by", "bob", "--reason", "me too", "--json")

    assert (shown.code, shown.err) == (1, "")
    assert shown.document["error"] == {
        "code": "hold_in_force",
        "family": "refused",
        "message": f"job {job_id} is held by 'alice' (wait); release that hold first",
        "job_id": job_id,
        "by": "alice",
        "reason": "wait",
    }


@pytest.mark.parametrize("arguments", [("jobs", "--limit", "many", "--json"), ("--json", "nonsense")])
def test_with_json_bad_usage_is_a_document_too(desk: Desk, arguments: tuple[str, ...]) -> None:
    shown = desk(*arguments)

    assert (shown.code, shown.err) == (2, "")
    assert shown.document["error"]["code"] == "usage"


def test_a_fault_of_jobledger_itself_is_a_sentence_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """People cannot act on a traceback; JOBLEDGER_DEBUG=1 shows it to those who can."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("as it were\n\x1b[31m")

    monkeypatch.setattr(JobStore, "jobs", broken)

    shown = desk("jobs")

    assert shown.code == 70
    assert shown.err.count("\n") == 1
    assert "ZeroDivisionError: as it were\\n\\x1b[31m" in shown.err
    assert "JOBLEDGER_DEBUG=1" in shown.err


def test_whatever_is_raised_is_a_sentence_and_with_json_a_document(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver or a handler may raise what is no Exception; a program still gets JSON."""

    class OddError(BaseException): ...

    def broken(*_: object, **__: object) -> None:
        raise OddError("as it were")

    monkeypatch.setattr(JobStore, "jobs", broken)

    shown = desk("jobs", "--json")

    assert (shown.code, shown.err) == (70, "")
    assert "OddError: as it were" in shown.document["error"]["message"]


MAKING = [("create", "--owner", "a", "--kind", "k"), ("worker", "tests.cli.handlers")]


@pytest.mark.parametrize("arguments", MAKING)
def test_an_older_schema_is_refused_and_only_migrate_changes_it(desk: Desk, arguments: tuple[str, ...]) -> None:
    """A migration is a decision of its own: old workers may still run, so that nothing migrates by the way."""
    tamper(desk.path, "DELETE FROM schema_version")

    shown = desk(*arguments)

    assert shown.code == 3
    assert "not migrated" in shown.err
    assert "run: jobledger migrate --store" in shown.err
    with contextlib.closing(sqlite3.connect(desk.path)) as connection:
        assert connection.execute("SELECT count(*) FROM schema_version").fetchone() == (0,)


def test_migrate_brings_an_older_schema_up_to_date(empty: Desk) -> None:
    """It is the command that the refusals name; here the store's first step was recorded, and none was taken."""
    with contextlib.closing(sqlite3.connect(empty.path)) as connection:
        connection.execute("CREATE TABLE schema_version (number INTEGER PRIMARY KEY, name, digest, applied_at_us)")

    assert empty("jobs").code == 3
    assert empty("doctor").code == 3
    assert empty("migrate").code == 0
    assert empty("jobs").code == 0


@pytest.mark.parametrize("arguments", MAKING)
def test_a_later_schema_is_refused_by_what_could_make_a_store_too(desk: Desk, arguments: tuple[str, ...]) -> None:
    tamper(desk.path, "INSERT INTO schema_version VALUES (9999, 'later', '', 0)")

    shown = desk(*arguments)

    assert shown.code == 4
    assert "upgrade jobledger" in shown.err


@pytest.mark.parametrize("arguments", MAKING)
def test_another_programs_database_is_not_made_a_store_by_the_way(empty: Desk, arguments: tuple[str, ...]) -> None:
    """A mistyped name must not put jobs between somebody else's tables."""
    tamper(empty.path, "CREATE TABLE theirs (x)")
    before = empty.path.read_bytes()

    shown = empty(*arguments)

    assert shown.code == 3
    assert "a database, but it holds no jobs" in shown.err
    assert empty.path.read_bytes() == before


@pytest.mark.parametrize("statement", [None, "PRAGMA user_version = 1"])
def test_an_empty_file_is_made_a_store(empty: Desk, statement: str | None) -> None:
    """Also one without a table: another process may be making the same store just now."""
    empty.path.touch()
    if statement is not None:
        tamper(empty.path, statement)
        assert empty.path.stat().st_size

    assert empty("create", "--owner", "a", "--kind", "k").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve",),
        ("demo", "--serve"),
        ("tokens", "create", "ci", "--scope", "read"),
        ("tokens", "list"),
        ("tokens", "revoke", "x"),
    ],
)
def test_without_the_extra_the_web_face_names_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """What is not installed is no fault of jobledger that anybody should report."""
    monkeypatch.setattr("jobledger.adapters.cli.serving.find_spec", lambda _: None)

    shown = desk(*arguments)

    assert (shown.code, shown.out) == (2, "")
    assert "pip install 'jobledger[web]'" in shown.err


@pytest.mark.parametrize("option", ["--export", "--proof", "--anchors"])
def test_a_file_that_is_missing_is_named(desk: Desk, tmp_path: Path, option: str) -> None:
    shown = desk("verify", option, str(tmp_path / "missing"))

    assert shown.code == 3
    assert f"{tmp_path / 'missing'}: No such file or directory" in shown.err


@pytest.mark.parametrize("option", [("--keep",), ("--store", "postgresql://nobody@127.0.0.1:1/x")])
def test_a_served_demo_refuses_what_it_would_leave_out(desk: Desk, option: tuple[str, ...]) -> None:
    """It makes a file of its own, whatever was asked for."""
    shown = desk("demo", "--serve", *option)

    assert (shown.code, shown.out) == (2, "")
    assert "name a folder with --dir" in shown.err
