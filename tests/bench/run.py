"""Measures jobledger beside its rivals, alternating in one run on one private server, and says which bars are met."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.bench import cluster as clusters
from tests.bench.auditing import measure as measure_audit
from tests.bench.auditing import measure_claims, show_audit, show_claims
from tests.bench.contestants import OURS, RIVALS, Contestant
from tests.bench.firing import SCHEDULERS, Firing, show_firing
from tests.bench.lasting import Lasting, show_lasting
from tests.bench.measures import POSTGRESQL, SQLITE, Measure
from tests.bench.rounds import Rounds
from tests.bench.scaling import Scaling, plot, show_scaling
from tests.bench.serving import measure as measure_web
from tests.bench.serving import show as show_web
from tests.bench.table import machine, save, show
from tests.bench.waking import Waking, show_waking

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command()
def bench(
    *,
    only: Annotated[list[str] | None, typer.Option(help="a measure or an engine to run alone; may be repeated")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="rounds; the medians of at least 5 decide")] = 5,
    size: Annotated[float, typer.Option(min=0.0001, max=10, help="share of the full number of jobs")] = 1.0,
    sqlite: Annotated[bool, typer.Option("--sqlite", help="measure the SQLite store")] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="what audits cost: verify, export, check, import, anchor")
    ] = False,
    web: Annotated[
        bool, typer.Option("--web", help="what the web face costs: create, read, window, and pages over 100,000 jobs")
    ] = False,
    scale: Annotated[bool, typer.Option("--scale", help="cost against size, from 10,000 to 1,000,000 jobs")] = False,
    jobs_max: Annotated[int, typer.Option(min=100, help="the largest size of --scale")] = 1_000_000,
    schedules: Annotated[
        int | None, typer.Option(min=1, help="so many schedules due within one second: how late their jobs are")
    ] = None,
    pickups: Annotated[
        int | None, typer.Option(min=1, help="so many jobs created one by one on an idle host: how soon they start")
    ] = None,
    lasting: Annotated[
        int | None, typer.Option(min=40, help="so many jobs on one host: its memory and threads on the way")
    ] = None,
    rivals: Annotated[bool, typer.Option("--rivals/--no-rivals", help="run the other engines too")] = True,
    folder: Annotated[Path | None, typer.Option(help="where the server keeps its data")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the raw figures to this file")] = None,
    svg: Annotated[Path | None, typer.Option(help="where --scale saves its plot")] = None,
) -> None:
    """Measure jobledger beside its rivals, alternating in one run on one private server.

    Rivals are installed from PyPI into environments of their own, in ~/.cache/jobledger-bench.
    JOBLEDGER_BENCH_CACHE names another place.
    """
    console = Console()
    if audit or web:
        (_audit if audit else _web)(console, size, json_file)
        return
    measures, engines = _chosen(
        SQLITE if sqlite else POSTGRESQL, [] if sqlite or not rivals else list(RIVALS), only or []
    )
    with ExitStack() as stack:
        cluster = None if sqlite else stack.enter_context(clusters.running(folder))
        told: dict[str, Any] = {"machine": machine(cluster.version() if cluster else "")}
        progress = stack.enter_context(
            Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
            )
        )
        if schedules is not None:
            figures = Firing(cluster, schedules, SCHEDULERS, progress).run()
            progress.stop()
            show_firing(console, figures)
            told |= {"schedules": figures}
        elif pickups is not None:
            woken = Waking(cluster, pickups, progress).run()
            progress.stop()
            show_waking(console, woken)
            told |= {"pickups": woken}
        elif lasting is not None:
            looks = Lasting(cluster, lasting, progress).run()
            progress.stop()
            show_lasting(console, looks)
            told |= {"lasting": looks}
        elif scale:
            points = Scaling(cluster, jobs_max, progress).run()
            progress.stop()
            show_scaling(console, points)
            told |= {"scale": points}
            if svg is not None:
                svg.write_text(plot(points), "utf-8")
        else:
            results = Rounds(measures, [OURS, *engines], rounds, size, progress, cluster).run()
            progress.stop()
            show(console, measures, results)
            told |= {"rounds": rounds, "size": size, "figures": results.raw, "absent": results.absent}
    if json_file is not None:
        save(json_file, told)


def _audit(console: Console, size: float, json_file: Path | None) -> None:
    audits = measure_audit(size)
    show_audit(console, audits)
    claims = measure_claims(size)
    show_claims(console, claims)
    if json_file is not None:
        told = {"machine": machine(""), "audit": {each.name: each.rate for each in audits}, "claims": asdict(claims)}
        save(json_file, told)


def _web(console: Console, size: float, json_file: Path | None) -> None:
    answered, looked = measure_web(size)
    show_web(console, answered, looked)
    if json_file is not None:
        told = {"machine": machine(""), "web": [asdict(each) for each in answered]}
        save(json_file, told | {"pages": [asdict(each) for each in looked]})


def _chosen(
    measures: tuple[Measure, ...], engines: list[Contestant], only: list[str]
) -> tuple[list[Measure], list[Contestant]]:
    """The measures and engines that were named; where none of a kind was, all of that kind.

    Raises:
        typer.BadParameter: a name is that of neither.
    """
    known = {measure.name for measure in measures} | {engine.name for engine in engines} | {OURS.name}
    if unknown := [name for name in only if name not in known]:
        raise typer.BadParameter(f"{', '.join(unknown)}: choose from {', '.join(sorted(known))}", param_hint="--only")
    chosen = [measure for measure in measures if measure.name in only] or list(measures)
    is_engine_named = any(engine.name in only for engine in engines) or OURS.name in only
    return chosen, [engine for engine in engines if engine.name in only] if is_engine_named else engines


if __name__ == "__main__":
    app()
