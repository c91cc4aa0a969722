"""The commands that run jobs: worker, demo."""

from __future__ import annotations

import importlib
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from jobledger.adapters.cli.commands import CREATE, Policies, command
from jobledger.adapters.cli.logs import LogFormat, log_to_the_error_output
from jobledger.adapters.cli.parsing import policies_of
from jobledger.adapters.cli.serving import PORT, Port, serve_demo
from jobledger.adapters.demo.playing import MEGABYTES, QUERY, play
from jobledger.adapters.demo.story import MissedError
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.failing import REFUSED, UNAVAILABLE, explain_miss
from jobledger.adapters.terminal.texts import visible
from jobledger.adapters.worker.endings import told
from jobledger.adapters.worker.host import JobHost
from jobledger.adapters.worker.registration import is_registered, registered
from jobledger.adapters.worker.supervising import Supervisor, watch_lifeline
from jobledger.domain.bounds import require_integer, require_span
from jobledger.domain.errors import InvalidRequestError, JobledgerError

if TYPE_CHECKING:
    from types import ModuleType

PROCESSES_MAX: Final = 1_000


def register(app: typer.Typer) -> None:
    """Give these commands to an app."""
    command(
        app, CREATE, "worker myproject.jobs", "worker myproject.jobs:Rebuild,send_mail --queue mail --concurrency 4"
    )(worker)
    command(app, CREATE, "demo", "demo --query 'binary search' --keep", "demo --serve", uses_store=False)(demo)


Module = Annotated[
    str, typer.Argument(metavar="MODULE[:NAMES]", help="The module with @durable_job handlers; all of them, or some.")
]
Queues = Annotated[
    list[str] | None, typer.Option("--queue", metavar="NAME", help="A queue to work on; give it again for more.")
]
Concurrency = Annotated[int, typer.Option("--concurrency", metavar="N", help="How many jobs run at once.")]
Limits = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="queue:NAME=N|kind:NAME=N", help="At most N of a queue or kind at once."),
]
Group = Annotated[str, typer.Option("--group", metavar="NAME", help="The group whose epoch it belongs to.")]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="The worker's name. Default: one is made.")]
Drain = Annotated[
    float, typer.Option("--drain", metavar="SECONDS", help="How long running jobs may go on after SIGTERM.")
]
Processes = Annotated[
    int | None,
    typer.Option("--processes", metavar="N", help="Supervise so many worker processes; broken ones start again."),
]
MaxJobs = Annotated[int | None, typer.Option("--max-jobs", metavar="N", help="Drain and end after about so many jobs.")]
MaxMemory = Annotated[
    int | None, typer.Option("--max-memory", metavar="MB", help="Drain and end once it has more memory than that.")
]
Schedules = Annotated[
    bool, typer.Option("--schedules", metavar="", help="Also fire the schedules of the store, with any others.")
]
Projections = Annotated[
    bool, typer.Option("--projections", metavar="", help="Also fold the feed into totals, workers and operators.")
]


def worker(  # noqa: PLR0913, PLR0917  # each is an option of the command line, which has no other form
    desk: Desk,
    module: Module,
    queue: Queues = None,
    concurrency: Concurrency = 10,
    limit: Limits = None,
    group: Group = "default",
    name: Name = None,
    drain: Drain = 30.0,
    processes: Processes = None,
    max_jobs: MaxJobs = None,
    max_memory: MaxMemory = None,
    log_format: LogFormat = "text",
    schedules: Schedules = False,  # noqa: FBT002  # a flag is typed by its name
    projections: Projections = False,  # noqa: FBT002  # likewise
    policies: Policies = None,
) -> None:
    """Run the jobs of a module's handlers until SIGTERM; makes the store if there is none."""
    log_to_the_error_output(log_format)
    if processes is not None:
        raise typer.Exit(_supervised(desk, require_integer("processes", processes, 1, PROCESSES_MAX), name))
    jobs = handlers(module)
    span = require_span("drain", drain)
    with desk.make(policies=policies_of(policies)) as store:
        queues = tuple(queue or ("default",))
        host = JobHost(
            store,
            jobs,
            concurrency=concurrency,
            concurrency_by_queue=_limits("queue", limit),
            concurrency_by_kind=_limits("kind", limit),
            queues=queues,
            group=group,
            name=name,
            schedules=schedules,
            projections=projections,
            max_jobs=max_jobs,
            max_memory=None if max_memory is None else max_memory * 1_000_000,
        )
        kinds = sorted(registered(job).kind for job in jobs)
        sentence = f"worker {host.name} works on {', '.join(kinds)}; SIGTERM or Ctrl-C ends it in order"
        desk.line({"worker": host.name, "kinds": kinds, "queues": queues}, Text(visible(sentence)))
        watch_lifeline(lambda: os.kill(os.getpid(), signal.SIGTERM))
        are_left = bool(host.run(span))
    if are_left:
        for each in host.report.left:
            sys.stderr.write(f"jobledger: left: job {each.job_id}, generation {each.generation}: {visible(each.why)}\n")
        sentence = "some attempts had not ended when the drain was over; their leases run out by themselves"
        sys.stderr.write(f"jobledger: {sentence}\n")
        raise typer.Exit(UNAVAILABLE)


def _supervised(desk: Desk, processes: int, name: str | None) -> int:
    """Run this very command so many times, without the option that asks for it; answers the exit code."""
    if name is not None:
        raise InvalidRequestError(
            "name", "one name cannot be that of several processes; leave it out, each makes its own"
        )
    command, words = [sys.executable, "-m", "jobledger"], iter(sys.argv[1:])
    for word in words:
        if word == "--processes":
            next(words, None)
        elif not word.startswith("--processes="):
            command.append(word)
    sentence = f"{processes} worker processes are supervised; SIGTERM or Ctrl-C ends them in order"
    desk.line({"processes": processes}, Text(sentence))
    return Supervisor(command, processes).run()


def _limits(what: str, given: list[str] | None) -> dict[str, int]:
    """The limits of queues or of kinds, by name."""
    limits: dict[str, int] = {}
    for each in given or ():
        found = re.fullmatch(r"(?P<what>queue|kind):(?P<name>.+)=(?P<number>\d{1,9})", each, re.DOTALL)
        if found is None:
            raise InvalidRequestError("limit", f"queue:NAME=N or kind:NAME=N is needed, not {each!r}")
        if found["what"] == what:
            limits[found["name"]] = int(found["number"])
    return limits


def handlers(given: str) -> list[Any]:
    """The handlers that a module registers, or those of them that are named.

    Raises:
        InvalidRequestError: the module cannot be imported, or has no such handler.
        InvalidHookError: a handler's shape is mistaken.
    """
    path, colon, names = given.partition(":")
    module = _imported(path)
    if not colon:
        found = [value for value in vars(module).values() if is_registered(value)]
        if not found:
            raise InvalidRequestError(
                "MODULE", f"{path!r} registers no handler; mark a class or function with @durable_job"
            )
        return list(dict.fromkeys(found))
    return [_named(module, name.strip()) for name in names.split(",")]


def _imported(path: str) -> ModuleType:
    """Import a module by its name, with the working directory on the path as `python -m` has it."""
    folder = os.fspath(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(path)
    except (JobledgerError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a module may raise whatever it likes, also SystemExit
        raise InvalidRequestError("MODULE", f"{path!r} cannot be imported ({told(error)})") from error


def _named(module: ModuleType, name: str) -> Any:
    target = getattr(module, name, None)
    if target is None:
        raise InvalidRequestError("MODULE", f"{module.__name__!r} has no {name!r}")
    registered(target)
    return target


def demo(
    desk: Desk,
    query: Annotated[str, typer.Option("--query", metavar="WORDS", help="What the index is asked at the end.")] = QUERY,
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="FOLDER", help="Make the store in this folder, and leave it there.")
    ] = None,
    keep: Annotated[  # noqa: FBT002  # a flag is typed by its name
        bool, typer.Option("--keep", metavar="", help="Leave the temporary folder, and say how to look at the store.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option("--store", metavar="URL", help="Keep the jobs in a schema of this PostgreSQL database instead."),
    ] = None,
    megabytes: Annotated[
        int, typer.Option("--megabytes", metavar="N", help="How much source text is indexed at most.")
    ] = MEGABYTES,
    serve: Annotated[  # noqa: FBT002  # a flag is typed by its name
        bool,
        typer.Option("--serve", metavar="", help="Serve a living dashboard instead, until Ctrl-C."),
    ] = False,
    port: Port = PORT,
) -> None:
    """See it all on real work: an index is built, its worker is killed in the middle, another one goes on."""
    if serve:
        if keep or server is not None:
            problem = "the served demo has a file of its own, and removes it; name a folder with --dir to keep it"
            raise InvalidRequestError("keep" if keep else "store", problem)
        serve_demo(desk, folder, port)
        return
    try:
        facts = play(desk, query=query, folder=folder, is_kept=keep, megabytes=megabytes, server=server)
    except MissedError as missed:
        explain_miss(str(missed), as_json=desk.as_json)
        raise typer.Exit(REFUSED) from None
    if desk.as_json:
        desk.answer(facts)
