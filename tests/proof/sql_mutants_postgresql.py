"""Breaks one predicate of the PostgreSQL store at a time: in its statements, and in the functions of its schema.

    python -m tests.proof.sql_mutants_postgresql                    # every mutant
    python -m tests.proof.sql_mutants_postgresql --only append      # those of one place
    python -m tests.proof.sql_mutants_postgresql --sample 24        # about so many, evenly spread

It is done as for SQLite (``tests.proof.sql_mutants``), over one private server. Of a function its last definition is
changed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from jobledger.adapters.storage.migrating import Migration, migrations
from tests.postgresql.server import server
from tests.proof import sql_mutants
from tests.proof.broken_code import Breakage, replace_code
from tests.proof.sql_mutants import Change, Mutant, source_of

FILES: Final = tuple(sorted(path.name for path in sql_mutants.STORAGE.glob("postgresql*.py")))

SUITE: Final = (
    "tests/contracts/test_storage_rules.py",
    "tests/contracts/test_leases.py",
    "tests/contracts/test_records.py",
    "tests/contracts/test_creating.py",
    "tests/contracts/test_derived_jobs.py",
    "tests/contracts/test_reading.py",
    "tests/contracts/test_operating.py",
    "tests/contracts/test_sweeping.py",
    "tests/postgresql/test_claims.py",
    "tests/postgresql/test_commands.py",
    "tests/postgresql/test_transactions.py",
    "tests/postgresql/test_feed.py",
    "tests/contracts/test_repeated_commands.py",
)
APPENDS: Final = (
    "tests/contracts/test_storage_rules.py",
    "tests/contracts/test_leases.py",
    "tests/contracts/test_derived_jobs.py",
    "tests/contracts/test_creating.py",
    "tests/postgresql/test_commands.py",
    "tests/postgresql/test_transactions.py",
)
SUITES: Final = {
    "0007_appending": APPENDS,
    "postgresql_schedul": sql_mutants.SCHEDULES,
    "postgresql_auditing": sql_mutants.AUDITS,
}
"""The tests that have to notice, by how the name of a place begins; for all others it is ``SUITE``."""

PATIENCE_MS: Final = 20_000

_SLOW: Final = "value or threads or racing or processes or at_once or twin or tamper"
NOT_THESE: Final = ("-k", f"postgresql and not ({_SLOW})")

# Mutants of one text --------------------------------------------------------------------------------------------------

OPERAND: Final = r"(?:coalesce\([^()]*\)|greatest\([^()]*\)|%\(\w+\)s|[\w.]+(?:\[[^\]]*\])?|'[^']*')"
RIGHT: Final = rf"(?:ANY \((?:[^()]|\([^()]*\))*\)|{OPERAND})"
COMPARISON: Final = re.compile(rf"{OPERAND}\s*(?<![:<>=])(<>|<=|>=|=|<|>)(?![>=])\s*{RIGHT}(?=[\s)])")
DISTINCT: Final = re.compile(rf"{OPERAND} (IS NOT DISTINCT FROM|IS DISTINCT FROM) {OPERAND}")
NULLNESS: Final = re.compile(rf"{OPERAND} (IS NOT NULL|IS NULL)")
CONDITIONS: Final = re.compile(r"\b(WHERE|ON|AND|OR|WHEN|FILTER \(WHERE)\b[\s(]*$")
"""What stands before a condition, rather than before something that is set."""
PLAIN_CHANGES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("limit", r"\s*LIMIT (?:%\(\w+\)s|\w+)", ("",)),
    ("conflict", r"\s*ON CONFLICT[^;]*?DO NOTHING", ("",)),
    ("join", r"\bLEFT JOIN\b", ("JOIN",)),
    ("or", r"\bOR\b", ("AND",)),
    ("lock", r"\s*FOR (?:NO KEY )?(?:UPDATE|SHARE)(?: OF \w+)?(?: SKIP LOCKED| NOWAIT)?", ("",)),
    ("lock", r" (?:SKIP LOCKED|NOWAIT)\b", ("",)),
    ("extreme", r"\bgreatest\(", ("least(",)),
    ("extreme", r"\bleast\(", ("greatest(",)),
    ("flag", r"(?<=AND )NOT (?=[\w.]+\b)", ("",)),
    ("flag", r"(?<=AND )is_fine\[[\w.]+\]", ("true",)),
    ("flag", r"(?<=WHERE )is_fine\[[\w.]+\]", ("true",)),
)
TURNED: Final = {
    **sql_mutants.TURNED,
    "IS NULL": ("IS NOT NULL",),
    "IS NOT NULL": ("IS NULL",),
    "IS DISTINCT FROM": ("IS NOT DISTINCT FROM",),
    "IS NOT DISTINCT FROM": ("IS DISTINCT FROM",),
}


def changes_of(text: str) -> Iterator[Change]:
    """Every change of a text of SQL."""
    for pattern in (COMPARISON, DISTINCT, NULLNESS):
        for found in pattern.finditer(text):
            if not CONDITIONS.search(text[: found.start()]):
                continue
            yield "drop", *found.span(), "true"
            sign, place = found.group(1), found.start(1) - found.start()
            for instead in TURNED[sign]:
                yield "turn", *found.span(), found.group()[:place] + instead + found.group()[place + len(sign) :]
    for kind, expression, replacements in PLAIN_CHANGES:
        for found in re.finditer(expression, text, re.DOTALL):
            yield from ((kind, *found.span(), each) for each in replacements)


# Mutants of the storage -----------------------------------------------------------------------------------------------

FUNCTION: Final = re.compile(
    r"CREATE (?:OR REPLACE )?FUNCTION jobledger\.(\w+)\((?:(?!CREATE ).)*?AS \$\$.*?\$\$;", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class InFunction:
    """A change of a function: which step of the schema defines it, and the change."""

    migration: Migration
    offset: int
    mutant: Mutant

    def apply(self) -> None:
        """Change the step, for schemas that this process makes."""
        start, end = self.offset + self.mutant.start, self.offset + self.mutant.end
        text = self.migration.text
        object.__setattr__(self.migration, "text", text[:start] + self.mutant.instead + text[end:])


def mutants() -> list[tuple[Mutant, Breakage]]:
    """Every mutant of every statement and of every function, each with what breaks it."""
    return [*_of_statements(), *_of_functions()]


def _of_statements() -> Iterator[tuple[Mutant, Breakage]]:
    for file in FILES:
        name = file.removesuffix(".py")
        for mutant in sql_mutants.mutants_of(file, changes_of):
            yield mutant, Breakage(mutant.label, partial(_replace, f"jobledger.adapters.storage.{name}", mutant))


def _replace(module: str, mutant: Mutant) -> None:
    replace_code(module, source_of(mutant))


def _of_functions() -> Iterator[tuple[Mutant, Breakage]]:
    for (name, migration), (offset, text) in _functions().items():
        for kind, start, end, instead in changes_of(text):
            mutant = Mutant("", f"{migration.name}.{name}", kind, start, end, instead, text, (0, 0, 0, 0))
            yield mutant, Breakage(mutant.label, InFunction(migration, offset, mutant).apply)


@cache
def _functions() -> dict[tuple[str, Migration], tuple[int, str]]:
    """The last definition of each function: by its name and its step, where it begins there, and its text."""
    last: dict[str, tuple[Migration, int, str]] = {}
    for migration in migrations("postgresql"):
        for found in FUNCTION.finditer(migration.text):
            last[found.group(1)] = migration, found.start(), found.group()
    return {(name, migration): (offset, text) for name, (migration, offset, text) in last.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants, each place over its own tests, and answer 1 where one that is not explained survives."""
    given = sql_mutants.parser(__doc__ or "").parse_args(arguments)
    every = [(mutant, broken) for mutant, broken in mutants() if sql_mutants.is_asked_for(mutant, given.only)]
    chosen = every[:: max(1, len(every) // given.sample)] if given.sample else every
    os.environ["PGOPTIONS"] = f"-c statement_timeout={PATIENCE_MS}"  # a function that goes round for ever is noticed
    server()  # it is started here, and found by every process that tries one
    return sql_mutants.try_and_tell(
        [(sql_mutants.suite_of(mutant, SUITES, SUITE), broken) for mutant, broken in chosen],
        given,
        of=len(every),
        not_these=NOT_THESE,
    )


if __name__ == "__main__":
    sys.exit(main())
