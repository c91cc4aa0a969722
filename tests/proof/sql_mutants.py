"""Breaks one SQL statement at a time, and asks the tests of stores whether they notice.

    python -m tests.proof.sql_mutants                    # every mutant
    python -m tests.proof.sql_mutants --sample 24        # every n-th of them, so that about 24 are tried

A mutant is one small change of one text of SQL in ``adapters/storage``: a condition dropped or turned around, an order,
a limit or a conflict clause forgotten. It is tried in a forked process, whose modules get the changed text; no file is
touched. One that no test notices has to be explained in ``docs/mutants.md``.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.proof.broken_code import Breakage, Verdict, replace_code, try_all
from tests.proof.explanations import ROOT, explanations

STORAGE: Final = ROOT / "adapters" / "storage"
NOT_YET: Final = ("memory", "postgresql", "sqlite_archiving", "sqlite_queues", "sqlite_tracking")
"""How the names of files begin whose statements are not tried here: what has none, what another program tries, and what
is owed: the statements of archives, queues and projections."""
UNPROVED: Final = frozenset(
    {
        *("sqlite_claims.UNSHARED", "sqlite_claims.SHARED", "sqlite_claims._kinds_in()", "sqlite_claims.HIGHEST"),
        *("sqlite_claims.DUE", "sqlite_claims.OF_PRIORITY", "sqlite_claims._due()", "sqlite_strays.STRAYS"),
        "sqlite_schedules.NEXT_DUE",
    }
)
"""Statements of which some mutants survive, or were never tried: claims of divided queues, rows without a history,
what is due next."""
FILES: Final = tuple(sorted(path.name for path in STORAGE.glob("*.py") if not path.name.startswith(NOT_YET)))

SUITE: Final = (
    "tests/contracts/test_storage_rules.py",
    "tests/storage/test_reading.py",
    "tests/storage/test_finding.py",
    "tests/storage/test_preconditions.py",
    "tests/storage/test_sqlite_schema.py",
    "tests/contracts/test_audit.py",
    "tests/contracts/test_leases.py",
    "tests/contracts/test_records.py",
    "tests/contracts/test_creating.py",
    "tests/contracts/test_derived_jobs.py",
    "tests/contracts/test_reading.py",
    "tests/contracts/test_operating.py",
    "tests/contracts/test_repeated_commands.py",
)
SCHEDULES: Final = tuple(
    f"tests/contracts/test_schedule{name}.py" for name in ("_namespaces", "s", "_firing", "_audit")
)
AUDITS: Final = ("tests/contracts/test_log.py", "tests/contracts/test_audit.py", SCHEDULES[-1])
QUEUES: Final = ("tests/contracts/test_queues.py",)
SUITES: Final = {
    "sqlite_queues": QUEUES,
    "sqlite_claims": (*SUITE, *QUEUES),
    "sqlite_reading.COLUMNS": (*SUITE, *QUEUES),
    "sqlite_schedules": SCHEDULES,
    "sqlite_strays": (*AUDITS, *QUEUES),
    **dict.fromkeys(
        ("sqlite_listing.LOG", "sqlite_listing.STREAMS", "sqlite_listing.RESOURCES", "sqlite_reading.LABELED"),
        AUDITS[:1],
    ),
}
"""The tests that have to notice, by how the name of a place begins; for all others it is ``SUITE``."""

_SLOW: Final = "value or threads or racing or processes or at_once or twin"
NOT_THESE: Final = ("-k", f"(sqlite or not memory) and not (postgresql or remote) and not ({_SLOW})")
"""Other stores, and what takes long."""

ADVICE: Final = """\
No test notices these changes of statements. Where somebody could notice one, write that test, in one of the files of
SUITE in tests/proof/sql_mutants.py. Where nobody can, explain it in docs/mutants.md, below "Statements", as
- `place` `change`: why nobody can notice it.
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: of the text that stands at ``place`` (name and number of the text) of ``file``, at an offset."""

    file: str
    place: str
    kind: str
    start: int
    end: int
    instead: str
    text: str
    node: tuple[int, int, int, int]

    @property
    def change(self) -> str:
        """What was there and what is there now, in one line."""
        before, after = (" ".join(each.split()) for each in (self.text[self.start : self.end], self.instead))
        around = self.text[: self.start].count(self.text[self.start : self.end])
        place = f" ({around + 1})" if around else ""
        return f"{self.kind}: {before}{place} -> {after or 'nothing'}"

    @property
    def label(self) -> str:
        """The name by which ``docs/mutants.md`` explains it."""
        return f"{self.place} | {self.change}"

    @property
    def mutated(self) -> str:
        """The changed text."""
        return self.text[: self.start] + self.instead + self.text[self.end :]


# Mutants of one text --------------------------------------------------------------------------------------------------

OPERAND: Final = r"(?:coalesce\([^()]*\)|:?[\w.]+|'[^']*')"
COMPARISON: Final = re.compile(rf"{OPERAND}\s*(<>|<=|>=|=|<|>)\s*{OPERAND}")
MEMBERSHIP: Final = re.compile(rf"{OPERAND} (IN) \((?:[^()]|\([^()]*\))*\)")
NULLNESS: Final = re.compile(rf"{OPERAND} (IS NOT NULL|IS NULL)")
GROUP: Final = re.compile(r"(?<=AND )\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
ASSIGNMENTS: Final = re.compile(r"\bSET\b(.*?)(?=\bWHERE\b|$)", re.DOTALL)
ORDER: Final = re.compile(r"ORDER BY ((?:-?[\w.]+(?: DESC)?(?:, )?)+)")
PLAIN_CHANGES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("order", r"^ DESC(?= LIMIT)", ("",)),
    ("turn", r"^ < (?=:before)", (" <= ", " > ")),
    ("order", r"\s*ORDER BY (?:-?[\w.]+(?: DESC)?(?:, )?)+", ("",)),
    ("limit", r"\s*LIMIT (?::\w+|\d+)", ("",)),
    ("conflict", r"\s*ON CONFLICT[^;]*?DO NOTHING", ("",)),
    ("conflict", r"\s*ON CONFLICT.*?DO UPDATE SET.*$", ("", "CONFLICTING DO NOTHING")),
    ("insert", r"\bINSERT INTO\b", ("INSERT OR IGNORE INTO", "INSERT OR REPLACE INTO")),
    ("join", r"\bLEFT JOIN\b", ("JOIN",)),
    ("or", r"\bOR\b", ("AND",)),
    ("distinct", r"\bDISTINCT ", ("",)),
    ("extreme", r"\bmin\(", ("max(",)),
    ("extreme", r"\bmax\(", ("min(",)),
    ("sign", r"(?<=SELECT )-(?=[\w.])", ("",)),
    ("default", r"(coalesce\([\w.()]+, )[01]\)", ("2)",)),
    ("constant", r"(?<=THEN )0\b", ("1",)),
    ("constant", r"(?<=digest, )0(?=,)", ("1",)),
    ("constant", r"(?<=digest, 0, )1\b", ("2",)),
    ("group", r" GROUP BY \w+", ("",)),
)
TURNED: Final = {"=": ("<>",), "<>": ("=",), "<": ("<=", ">"), "<=": ("<", ">"), ">": (">=", "<"), ">=": (">", "<")}
SQL: Final = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|AND|JOIN|ORDER BY|GROUP BY|LIMIT)\b|^ < :")

Change = tuple[str, int, int, str]
"""A kind of change, the part of the text that it replaces, and by what."""


def changes_of(text: str) -> Iterator[Change]:
    """Every change of a text of SQL."""
    assigned = [found.span() for found in ASSIGNMENTS.finditer(text)]
    yield from _conditions(text, assigned)
    yield from _assignments(text)
    for found in ORDER.finditer(text):
        yield from _terms(found)
    for kind, pattern, replacements in PLAIN_CHANGES:
        for found in re.finditer(pattern, text, re.DOTALL):
            yield from ((kind, *found.span(), _filled(found, each)) for each in replacements)


def _filled(found: re.Match[str], instead: str) -> str:
    """Keep what a pattern had to name to find its place."""
    if instead.startswith("CONFLICTING"):
        target = re.search(r"ON CONFLICT \([^)]*\)", found.group())
        return f" {target.group()} DO NOTHING" if target else ""
    return (found.group(1) if found.re.groups else "") + instead


def _conditions(text: str, assigned: Sequence[tuple[int, int]]) -> Iterator[Change]:
    """Conditions that are dropped (true, and within an OR also false) or turned around."""
    for pattern in (COMPARISON, MEMBERSHIP, NULLNESS, GROUP):
        for found in pattern.finditer(text):
            if any(start <= found.start() < end for start, end in assigned):
                continue
            yield "drop", *found.span(), "1"
            if pattern is GROUP:
                continue
            if _is_within_or(text, found.start()):
                yield "never", *found.span(), "0"
            yield from _turned(found)


def _turned(found: re.Match[str]) -> Iterator[Change]:
    sign = found.group(1)
    instead = {"IN": ("NOT IN",), "IS NULL": ("IS NOT NULL",), "IS NOT NULL": ("IS NULL",)} | TURNED
    for each in instead[sign]:
        yield "turn", *found.span(), found.group().replace(f" {sign}", f" {each}", 1)


def _is_within_or(text: str, place: int) -> bool:
    return any(found.start() < place < found.end() and " OR " in found.group() for found in GROUP.finditer(text))


def _assignments(text: str) -> Iterator[Change]:
    """Columns that an update forgets to set."""
    for found in ASSIGNMENTS.finditer(text):
        parts = list(re.finditer(r"\s*\w+ = (?:excluded\.|:)\w+,?", found.group(1)))
        for index, part in enumerate(parts):
            start, end = (found.start(1) + place for place in part.span())
            if len(parts) == 1:
                continue
            if index == len(parts) - 1:  # its comma stands behind the one before
                start = found.start(1) + parts[index - 1].end() - 1
            yield "forget", start, end, ""


def _terms(found: re.Match[str]) -> Iterator[Change]:
    """Terms of an order that are dropped or turned around."""
    terms = found.group(1).split(", ")
    for index, term in enumerate(terms):
        others = [each for place, each in enumerate(terms) if place != index]
        if others:
            yield "order", *found.span(1), ", ".join(others)
        around = term.removesuffix(" DESC") if term.endswith(" DESC") else f"{term} DESC"
        yield "order", *found.span(1), ", ".join([*terms[:index], around, *terms[index + 1 :]])


# Mutants of the storage -----------------------------------------------------------------------------------------------


def mutants() -> list[Mutant]:
    """Every mutant of every text of SQL in the storage, in the order of the files."""
    every = (mutant for file in FILES for mutant in mutants_of(file))
    return [mutant for mutant in every if mutant.place not in UNPROVED]


@cache
def _source_of(file: str) -> str:
    """The text of a file as it was when it was first looked at: somebody may be working on it."""
    return (STORAGE / file).read_text("utf-8")


def mutants_of(file: str, changes: Callable[[str], Iterator[Change]] = changes_of) -> Iterator[Mutant]:
    """Every mutant of every text of SQL in one file."""
    seen: set[tuple[tuple[int, int, int, int], str]] = set()
    for place, node in _texts(ast.parse(_source_of(file))):
        at = (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
        text = node.value
        assert isinstance(text, str)
        for kind, start, end, instead in changes(text):
            mutant = Mutant(file, f"{file.removesuffix('.py')}.{place}", kind, start, end, instead, text, at)
            if (at, mutant.mutated) not in seen and mutant.mutated != text:
                seen.add((at, mutant.mutated))
                yield mutant


def _texts(module: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    """Each text of SQL with the name of what it belongs to; docstrings and sentences are none."""
    documented = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    named: list[tuple[str, ast.AST]] = []
    for node in ast.walk(module):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            named.append((node.target.id, node.value))
        elif isinstance(node, ast.FunctionDef):
            named.append((f"{node.name}()", node))
    found: dict[int, tuple[str, ast.Constant]] = {}
    for name, node in named:
        for each in ast.walk(node):
            is_text = isinstance(each, ast.Constant) and isinstance(each.value, str)
            if is_text and id(each) not in documented and SQL.search(each.value):  # type: ignore[attr-defined]  # a text
                found[id(each)] = (name, each)  # type: ignore[assignment]  # a constant
    yield from sorted(found.values(), key=lambda item: (item[1].lineno, item[1].col_offset))


def source_of(mutant: Mutant) -> ast.Module:
    """The changed module."""
    module = ast.parse(_source_of(mutant.file))
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and node.value == mutant.text:
            at = (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
            if at == mutant.node:
                node.value = mutant.mutated
    return module


def breakage(mutant: Mutant) -> Breakage:
    """The change as something that can be tried."""
    name = f"jobledger.adapters.storage.{mutant.file.removesuffix('.py')}"
    return Breakage(mutant.label, lambda: replace_code(name, source_of(mutant)))


# Trying them ----------------------------------------------------------------------------------------------------------


def explained() -> set[str]:
    """The labels of the mutants that the page explains."""
    return {f"{each.place} | {each.change}" for each in explanations("Statements")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants, and answer 1 where one that is not explained survives."""
    given = parser(__doc__ or "").parse_args(arguments)
    every = [mutant for mutant in mutants() if is_asked_for(mutant, given.only)]
    chosen = every[:: max(1, len(every) // given.sample)] if given.sample else every
    return try_and_tell(
        [(suite_of(each, SUITES, SUITE), breakage(each)) for each in chosen], given, of=len(every), not_these=NOT_THESE
    )


def is_asked_for(mutant: Mutant, only: Sequence[str]) -> bool:
    """Whether a mutant's label has one of these in it, where any are given."""
    return not only or any(each in mutant.label for each in only)


def suite_of(mutant: Mutant, suites: Mapping[str, tuple[str, ...]], otherwise: tuple[str, ...]) -> tuple[str, ...]:
    """The tests that have to notice a mutant."""
    return next((suite for start, suite in suites.items() if mutant.place.startswith(start)), otherwise)


def parser(description: str) -> argparse.ArgumentParser:
    """What may be asked for."""
    asked = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--sample", type=int, default=0, help="try about so many, evenly spread")
    asked.add_argument("--only", action="append", default=[], help="try those whose label has this in it; repeatable")
    asked.add_argument("--deselect", action="append", default=[], help="a test to leave out")
    return asked


def try_and_tell(
    chosen: Sequence[tuple[tuple[str, ...], Breakage]],
    given: argparse.Namespace,
    *,
    of: int,
    not_these: Sequence[str],
) -> int:
    """Try breakages, each over its tests, and name those that survive and are not explained; 1 where there are any."""
    known = explained()
    tried = [(suite, broken) for suite, broken in chosen if broken.label not in known]
    survivors: list[str] = []
    count = 0

    def tell(_: int, verdict: Verdict) -> None:
        nonlocal count
        count += 1
        sys.stderr.write(f"{count}/{len(tried)} {verdict.noticed_by or 'SURVIVED'} <- {verdict.label}\n")
        if verdict.has_survived:
            survivors.append(verdict.label)

    began = time.monotonic()
    os.chdir(ROOT)
    left_out = [f"--deselect={test}" for test in given.deselect]
    for suite in dict.fromkeys(suite for suite, _ in tried):
        these = [broken for known_suite, broken in tried if known_suite == suite]
        wrong = try_all(these, [*suite, *not_these, *left_out], tell, ROOT)
        if wrong is not None:
            sys.stdout.write(f"the tests fail without any mutant: {wrong}\n")
            return 2
    sys.stdout.write("".join(f"survived: {label}\n" for label in survivors))
    if survivors:
        sys.stdout.write(ADVICE)
    sys.stdout.write(
        f"{of} mutants, {len(chosen)} chosen, {len(chosen) - len(tried)} of them explained, "
        f"{len(survivors)} survived; {time.monotonic() - began:.0f} s\n"
    )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
