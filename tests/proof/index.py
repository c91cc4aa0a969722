"""A history with what every predicate looks up in it, built once for all of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobledger.domain.events import Claimed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.proof.history import Entry, History, Operation, Served


@dataclass(slots=True)
class Index:
    """A history with what every predicate looks up in it."""

    history: History
    streams: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    caused: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    asked: dict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    attempts: dict[int, Claimed] = field(default_factory=dict)
    """The claim of the attempt that was open at a position, for each event of a generation."""

    @classmethod
    def of(cls, history: History) -> Index:
        index, open_claims = cls(history), dict[str, Claimed]()
        for entry in history.log:
            index.streams[entry.stream].append(entry)
            if entry.command_id is not None:
                index.caused[entry.command_id].append(entry)
            if isinstance(entry.event, Claimed):
                open_claims[entry.stream] = entry.event
            if entry.stream in open_claims:
                index.attempts[entry.position] = open_claims[entry.stream]
        for operation in history.operations:
            if operation.command_id is not None:
                index.asked[operation.command_id].append(operation)
        return index

    def acknowledged(self) -> Iterator[tuple[Operation, list[Entry]]]:
        """Each operation whose client was told that it succeeded, with the events of its command."""
        for operation in self.history.operations:
            if operation.result == "ok" and operation.command_id is not None:
                yield operation, self.caused.get(operation.command_id, [])

    def served(self) -> Iterator[tuple[Operation, Served]]:
        """Each answer that the store gave, whether or not it arrived."""
        for operation in self.history.operations:
            for served in operation.served:
                yield operation, served


def at(entry: Entry) -> str:
    """Where an event stands, for people."""
    return f"{entry.stream}#{entry.sequence}"


def of(operation: Operation) -> str:
    """Whose request it is, for people."""
    return f"{operation.client}'s {operation.name} {operation.command_id}"
