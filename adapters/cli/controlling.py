"""The operators' commands; those that must not act late carry the control sequence that the operator saw."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from jobledger.adapters.cli.commands import CONTROL, JobId, command
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.showing import receipt_line
from jobledger.adapters.terminal.texts import many
from jobledger.domain.bounds import BATCH_MAX
from jobledger.domain.errors import InvalidRequestError
from jobledger.domain.job import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger.adapters.bootstrap import JobStore
    from jobledger.domain.answers import ControlReceipt

By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who asks. Default: your login name.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it stays in the history.")]
Expect = Annotated[
    int | None,
    typer.Option("--expect", metavar="N", help="Refuse if the job's control sequence is not N any more."),
]
CommandId = Annotated[
    str | None,
    typer.Option("--command-id", metavar="ID", help="An id of this command: repeated with it, it acts only once."),
]
Seen = Annotated[
    int | None,
    typer.Option(
        "--expect", metavar="N", help="The control sequence that you looked at. Default: the one read just before."
    ),
]


def register(app: typer.Typer) -> None:
    """Give these commands to an app."""
    command(app, CONTROL, "hold ID --reason 'the disk is full'")(hold)
    command(app, CONTROL, "release ID --reason 'there is room again' --expect 7")(release)
    command(app, CONTROL, "resume ID --reason 'it may wait in its queue again'")(resume)
    command(app, CONTROL, "cancel ID --reason 'nobody needs it'")(cancel)
    command(app, CONTROL, "retry ID --reason 'the cause is mended'")(retry)
    command(app, CONTROL, "recover ID", "recover --expired")(recover)


def hold(
    desk: Desk, job_id: JobId, reason: Reason, by: By = None, expect: Expect = None, command_id: CommandId = None
) -> None:
    """Place a stop sign: what waits is paused at once, what runs parks at its next boundary."""
    who = operator(by)
    with desk.open() as store:
        receipt = store.hold(job_id, by=who, reason=reason, expected_sequence=expect, command_id=command_id)
    _show(desk, "the hold stands already on" if receipt.reused else "held", receipt)


def release(
    desk: Desk, job_id: JobId, reason: Reason, by: By = None, expect: Seen = None, command_id: CommandId = None
) -> None:
    """Take the stop sign away; parked work is claimable again, with a new budget."""
    with desk.open() as store:
        receipt = _as_seen(store, store.release_hold, job_id, by, reason, expect, command_id)
    _show(desk, "the hold was released before from" if receipt.reused else "released", receipt)


def resume(
    desk: Desk, job_id: JobId, reason: Reason, by: By = None, expect: Seen = None, command_id: CommandId = None
) -> None:
    """Put a paused job that no worker ever had back into its queue."""
    with desk.open() as store:
        receipt = _as_seen(store, store.resume, job_id, by, reason, expect, command_id)
    _show(desk, "it was resumed before:" if receipt.reused else "resumed", receipt)


def cancel(
    desk: Desk, job_id: JobId, reason: Reason, by: By = None, expect: Expect = None, command_id: CommandId = None
) -> None:
    """Cancel what waits at once, and ask what runs to stop for good at its next boundary."""
    who = operator(by)
    with desk.open() as store:
        receipt = store.request_cancel(job_id, by=who, reason=reason, expected_sequence=expect, command_id=command_id)
    asked = "asked to cancel" if receipt.state is State.RUNNING else "cancelled"
    _show(desk, "a cancel is asked for already of" if receipt.reused else asked, receipt)


def retry(
    desk: Desk, job_id: JobId, reason: Reason, by: By = None, expect: Seen = None, command_id: CommandId = None
) -> None:
    """Make waiting or parked work due now, with a new budget."""
    with desk.open() as store:
        receipt = _as_seen(store, store.retry, job_id, by, reason, expect, command_id)
    _show(desk, "it is due already:" if receipt.reused else "made due", receipt)


def recover(
    desk: Desk,
    job_id: Annotated[str | None, typer.Argument(metavar="ID", help="The job's id.")] = None,
    expired: Annotated[  # noqa: FBT002  # a flag is typed by its name
        bool, typer.Option("--expired", metavar="", help="All jobs whose lease has run out, up to 1,000.")
    ] = False,
    by: By = None,
    command_id: CommandId = None,
) -> None:
    """Park a job whose worker's lease has run out; a live lease keeps its job."""
    if (job_id is None) is not expired:
        raise InvalidRequestError("ID", "give one job's id, or --expired for all whose lease has run out")
    if expired and (by is not None or command_id is not None):
        raise InvalidRequestError("--expired", "the sweep is the engine's own; leave --by and --command-id out")
    with desk.open() as store:
        if job_id is not None:
            _show(desk, "recovered", store.recover(job_id, by=operator(by), command_id=command_id))
            return
        receipts = store.recover_expired(BATCH_MAX)
    lines = [receipt_line("recovered", each.job_id, each.state, each.sequence) for each in receipts]
    desk.answer({"recovered": receipts}, *lines, Text(f"{many(len(receipts), 'job')} recovered"))


def operator(by: str | None) -> str:
    """The name under which a command is put on record.

    Raises:
        InvalidRequestError: the machine knows no login name; give one.
    """
    if by is not None:
        return by
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise InvalidRequestError("by", "this machine knows no login name for you; say who you are with --by") from None


def require_seen(expect: int | None, command_id: str | None) -> None:
    """Require that a command that may come again says what its operator saw: read just before, it would differ.

    Raises:
        InvalidRequestError: it has an id and does not say.
    """
    if command_id is not None and expect is None:
        problem = "say with --expect which sequence you looked at: a repeated command has to be the same"
        raise InvalidRequestError("--command-id", problem)


def _as_seen(
    store: JobStore,
    control: Callable[..., ControlReceipt],
    job_id: str,
    by: str | None,
    reason: str,
    expect: int | None,
    command_id: str | None,
) -> ControlReceipt:
    """Ask for a control under the control sequence that the operator saw: it cannot act on a newer state."""
    require_seen(expect, command_id)
    seen = store.status(job_id).control_sequence if expect is None else expect
    return control(job_id, by=operator(by), reason=reason, expected_sequence=seen, command_id=command_id)


def _show(desk: Desk, what: str, receipt: ControlReceipt) -> None:
    desk.answer(receipt, receipt_line(what, receipt.job_id, receipt.state, receipt.sequence))
