"""What docs/mutants.md explains: the mutants that no test notices, one by one, and which of them are gone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "mutants.md"

LINE: Final = re.compile(r"- `([^`]+)` `([^`]+)`: (\S.*)")

Section = Literal["Domain", "Statements"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """One line of the page: where the change is, the change itself as ``before -> after``, and the reason."""

    place: str
    change: str
    reason: str

    @property
    def before(self) -> str:
        """The code before the change; both sides may have arrows of their own, one as many as the other."""
        parts = self.change.split(" -> ")
        return " -> ".join(parts[: len(parts) // 2])


def explanations(section: Section) -> list[Explanation]:
    """Every explanation of a section of the page.

    Raises:
        ValueError: a line of the section's list is written in another way.
    """
    text = PAGE.read_text("utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("-")]
    found = [LINE.fullmatch(line) for line in lines]
    if None in found or not found:
        msg = f"write each explanation of {section!r} as: - `place` `before -> after`: reason."
        raise ValueError(msg)
    return [Explanation(*each.groups()) for each in found if each is not None]


def gone(known: list[Explanation], source_of: Callable[[str], str]) -> list[Explanation]:
    """The explanations whose lines stand no more in the file that they name."""
    return [each for each in known if not _stands_in(source_of(each.place), each.before)]


def _stands_in(source: str, code: str) -> bool:
    """Whether some lines of a source, one after the other, are this code; indents make no difference."""
    lines = [" ".join(line.split()) for line in source.splitlines()]
    for start in range(len(lines)):
        joined = lines[start]
        end = start + 1
        while len(joined) < len(code) and end < len(lines):
            joined, end = f"{joined} {lines[end]}", end + 1
        if joined == code:
            return True
    return False


def source_of(place: str) -> str:
    """The text of a file of the checkout; empty where there is none."""
    path = ROOT / place
    return path.read_text("utf-8") if path.is_file() else ""
