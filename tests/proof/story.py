"""A run told so that a person can read it: who sent what, what became of it on the way, and what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.answers import ControlReceipt, CreateReceipt, ExecutionResult, Lease, Renewal, UnitReceipt
from jobledger.domain.decisions.working import Effect

if TYPE_CHECKING:
    from tests.proof.history import Entry, Operation, Served
    from tests.proof.runs import Moment, Run


OF_SCHEDULES: Final = ("instant", "first", "last", "count", "how", "reason", "job_id", "next_at")


def story(run: Run) -> str:
    """The run as text; the same seed gives the same text, byte for byte."""
    names = _Names(run)
    lines = [f"seed {run.seed}, {run.steps} steps; {run.mix.told()}", ""]
    written = {entry.position: entry for entry in run.history.log}
    told, lengths = 0, _lengths(run)
    for moment in run.moments:
        lines.append(f"{moment.tick:>5} s  {_clock(moment)}  {_sentence(moment, names)}")
        while told < lengths.get(id(moment), 0):
            told += 1
            lines.append(f"{'':>19}  ⇒ {names.event(written[told])}" if told in written else "")
    lines += [f"{'':>19}  ⇒ {names.event(written[rest])}" for rest in sorted(written) if rest > told]
    lines += ["", *(f"BROKEN  {violation}" for violation in run.violations)] if run.violations else []
    return "\n".join(names.short(line) for line in lines) + "\n"


def _lengths(run: Run) -> dict[int, int]:
    """How long the log was after each moment that tells of an answer."""
    return {id(moment): moment.told.log for moment in run.moments if moment.what == "served"}


def _clock(moment: Moment) -> str:
    return moment.now.strftime("%H:%M:%S")


def _sentence(moment: Moment, names: _Names) -> str:
    operation = moment.operation
    if operation is None:
        return f"{moment.by} {moment.what}" if moment.by else moment.what
    if moment.what == "sent":
        return f"{operation.client} asks [{moment.by}]: {names.asked(operation)}"
    if moment.what == "served":
        return f"  the store answers {operation.client}'s {_label(operation)}: {_answer(moment.told)}"
    return f"  {operation.client}'s {_label(operation)}: {moment.what}"


def _label(operation: Operation) -> str:
    return f"{operation.name} ({operation.command_id})" if operation.command_id else operation.name


def _answer(served: Served) -> str:
    answer = served.answer
    if served.result != "ok":
        return f"{served.result}, {served.code}"
    if isinstance(answer, Lease):
        return f"generation {answer.generation} until {answer.expires_at:%H:%M:%S}"
    if isinstance(answer, list):
        return f"{len(answer)} jobs: {', '.join(_answer_of_one(each) for each in answer)}" if answer else "nothing"
    return _answer_of_one(answer)


def _answer_of_one(answer: Any) -> str:
    match answer:
        case Lease():
            return f"{answer.job_id}, generation {answer.generation} until {answer.expires_at:%H:%M:%S}"
        case Renewal():
            asked = [name for name in ("hold_requested", "cancel_requested", "late") if getattr(answer, name)]
            return ", ".join([f"ok until {answer.expires_at:%H:%M:%S}", *asked])
        case ControlReceipt() | ExecutionResult() | CreateReceipt():
            return f"{answer.job_id} is {answer.state}" + (" (reused)" if answer.reused else "")
        case UnitReceipt():
            return f"receipt {answer.receipt!r}" + (" (reused)" if answer.reused else "")
        case _:
            return str(answer)


class _Names:
    """Short names for jobs, in the order in which they were made."""

    def __init__(self, run: Run) -> None:
        streams = dict.fromkeys(
            entry.stream for entry in run.history.log if not entry.stream.startswith(("group:", "schedule:"))
        )
        self._short = {stream: f"job-{number}" for number, stream in enumerate(streams, start=1)}

    def short(self, line: str) -> str:
        """A line with the jobs' short names."""
        for stream, name in self._short.items():
            line = line.replace(stream, name)
        return line

    def asked(self, operation: Operation) -> str:
        """What is asked, with its arguments."""
        fence = operation.fence
        told = [f"{name}={_value(value)}" for name, value in operation.arguments.items() if name != "token"]
        under = f" under generation {fence.generation}, step {operation.step}" if fence else ""
        return f"{_label(operation)} {operation.job_id or ''}{under} {' '.join(told)}".rstrip()

    def event(self, entry: Entry) -> str:
        """What was written."""
        event: Any = entry.event
        told = [
            f"{name}={_value(getattr(event, name))}"
            for name in (
                "generation",
                "cause",
                "outcome",
                "by",
                "expires_at",
                "ready_at",
                "retry_at",
                "epoch",
                *OF_SCHEDULES,
            )
            if getattr(event, name, None) is not None
        ]
        return f"{entry.stream}#{entry.sequence} {type(event).__name__} {' '.join(told)}".rstrip()


def _value(value: Any) -> str:
    if hasattr(value, "strftime"):
        return str(value.strftime("%H:%M:%S"))
    if isinstance(value, list) and all(isinstance(each, Effect) for each in value):
        return "[" + ", ".join(f"{each.resource}@{each.expected_version}" for each in value) + "]"
    return str(value)
