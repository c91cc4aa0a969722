"""How the demonstration speaks: chapters, plain sentences, a live bar on a terminal and a line per batch elsewhere."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from jobledger.adapters.terminal.texts import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from rich.console import RenderableType

    from jobledger.adapters.terminal.desk import Desk
    from jobledger.domain.answers import JobStatus

INDENT: Final = (0, 0, 0, 2)
BAR: Final = 36
REFRESHES: Final = 12


class Teller:
    """Tells people what happens while it happens; to a program it says nothing."""

    def __init__(self, desk: Desk) -> None:
        """Tell it at this desk."""
        self._desk = desk
        self.is_silent = desk.as_json

    def chapter(self, title: str) -> None:
        """A new part of the story."""
        self.show(Text(""), Text(title, style="bold"))

    def say(self, sentence: str) -> None:
        """One sentence; what is in it may come from anywhere."""
        self.show(Padding(Text(visible(sentence)), INDENT))

    def refusal(self, code: str, sentence: str) -> None:
        """A refusal, in its own words."""
        self.show(Padding(Text.assemble("refused ", (code, "bold yellow"), f": {visible(sentence)}"), INDENT))

    def show(self, *parts: RenderableType) -> None:
        """Tables and texts."""
        if not self.is_silent:
            for part in parts:
                self._desk.say(part)

    @contextmanager
    def following(self, total: int) -> Generator[Callable[[JobStatus], None], None, None]:
        """A bar that follows a job, given each status that was read; without a terminal, a line for each checkpoint."""
        console = self._desk.console
        if self.is_silent or not console.is_terminal:
            yield _Lines(self, total)
            return
        columns = (
            TextColumn("  {task.description}"),
            BarColumn(bar_width=BAR),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        )
        with Progress(*columns, TimeElapsedColumn(), console=console, refresh_per_second=REFRESHES) as bar:
            task = bar.add_task("waiting for a worker", total=total)

            def follow(status: JobStatus) -> None:
                saved = status.checkpoint if isinstance(status.checkpoint, int) else 0
                bar.update(task, completed=saved, description=_who(status))

            yield follow
            bar.refresh()


class _Lines:
    """The bar where there is no terminal."""

    def __init__(self, teller: Teller, total: int) -> None:
        self._teller, self._total = teller, total
        self._saved: int | None = None

    def __call__(self, status: JobStatus) -> None:
        """Tell of a checkpoint that was not told of."""
        saved = status.checkpoint
        if isinstance(saved, int) and saved != self._saved:
            if self._saved is not None or status.lease is not None:
                self._teller.say(f"{saved} of {self._total} batches are saved ({_who(status)})")
            self._saved = saved


def _who(status: JobStatus) -> str:
    if status.lease is not None:
        return f"{visible(status.lease.worker)}, generation {status.generation}"
    return f"{status.state.value}, generation {status.generation}"
