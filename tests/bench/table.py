"""The results as tables: rates with their spread, ratios round by round, and whether each bar is met."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.measures import Measure, Series, Verdict, judge
from tests.bench.rounds import Results


def machine(server: str) -> dict[str, Any]:
    """What the figures were taken on."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "processors": os.cpu_count(),
        "processor": _processor(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "postgresql": server,
        "load": load,
    }


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    lines = told.read_text("utf-8").splitlines() if told.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def show(console: Console, measures: Sequence[Measure], results: Results) -> None:
    """Two tables: how we stand, and what every engine reached."""
    rates = series(results)
    standing = Table("what", "jobledger /s", "beside", "ratio: median (min to max)", "bar", "goal", title="Bars")
    for measure in measures:
        mine = rates.get(measure.name, {})
        if "jobledger" not in mine:
            continue
        verdict = judge(measure, mine)
        standing.add_row(
            measure.text,
            _spread(mine["jobledger"]),
            verdict.rival,
            _ratio(verdict),
            _bar(measure.bar, measure, is_met=verdict.is_bar_met),
            _bar(measure.goal, measure, is_met=verdict.is_goal_met),
        )
    console.print(standing)
    engines = sorted({engine for by_engine in rates.values() for engine in by_engine})
    every = Table("median /s", *engines, title="Every engine")
    for measure in measures:
        mine = rates.get(measure.name, {})
        every.add_row(measure.text, *(f"{mine[name].middle:,.0f}" if name in mine else "" for name in engines))
    console.print(every)
    for measure in measures:
        for engine in engines:
            if measure.command == "drain" and (least := results.least_share(measure.name, engine)) is not None:
                console.print(f"{measure.text}, {engine}: no process did less than {least:.0%} of an even share")
    for engine, reason in results.absent.items():
        console.print(f"[bold]{engine}[/] did not take part: {reason}", highlight=False)


def series(results: Results) -> dict[str, dict[str, Series]]:
    """The rates of all rounds, by measure and engine."""
    return {
        measure: {engine: Series(tuple(values)) for engine, values in by_engine.items()}
        for measure, by_engine in results.rates.items()
    }


def _spread(of: Series) -> str:
    return f"{of.middle:,.0f} ({min(of.values):,.0f} to {max(of.values):,.0f})"


def _ratio(verdict: Verdict) -> str:
    if verdict.ratios is None:
        return ""
    values = verdict.ratios.values
    return f"{verdict.ratios.middle:.2f} ({min(values):.2f} to {max(values):.2f})"


def _bar(limit: float, measure: Measure, *, is_met: bool | None) -> str:
    if not limit:
        return ""
    wanted = f"{limit:.2f}" if measure.against else f"{limit:,.0f}/s"
    return f"{wanted} {'[green]met' if is_met else '[red]missed'}[/]" if is_met is not None else wanted


def save(path: Path, told: dict[str, Any]) -> None:
    """Write raw figures as JSON."""
    path.write_text(json.dumps(told, indent=2) + "\n", "utf-8")
