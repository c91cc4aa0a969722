"""What must hold of a whole history: the log, what clients were told, effects, receipts, and the rows that are left.

Each predicate yields a place and what is wrong there. It reads an index that is built once for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, cast

from jobledger.domain.answers import CreateReceipt, ExecutionResult, Lease, Renewal, UnitReceipt
from jobledger.domain.events import (
    Checkpointed,
    Claimed,
    Completed,
    Created,
    EpochAdvanced,
    Interrupted,
    UnitRecorded,
)
from jobledger.domain.job import evolve
from jobledger.domain.lease import token_digest
from jobledger.domain.schedule_events import ScheduleEvent
from tests.proof.index import Index, at, of
from tests.proof.timetables import SETTLED
from tests.proof.transitions import OF_A_GENERATION, REPORTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobledger.domain.events import JobEvent
    from tests.proof.history import Entry, Served


# The log --------------------------------------------------------------------------------------------------------------


def streams_have_no_gaps(index: Index) -> Iterator[tuple[str, str]]:
    last = 0
    for entry in index.history.log:
        if entry.position <= last:
            yield at(entry), f"position {entry.position} after {last}"
        last = entry.position
    for entries in index.streams.values():
        for number, entry in enumerate(entries, start=1):
            if entry.sequence != number:
                yield at(entry), f"it is event number {number} of its stream"


def keys_are_unique(index: Index) -> Iterator[tuple[str, str]]:
    jobs: dict[tuple[str, str, str], str] = {}
    for entry in index.history.log:
        event = entry.event
        if isinstance(event, Created):
            if event.job_id != entry.stream:
                yield at(entry), "it was created under another id"
            if event.key is not None:
                first = jobs.setdefault((event.namespace, event.owner, event.key), entry.stream)
                if first != entry.stream:
                    yield at(entry), f"the key {event.key!r} of {event.owner!r} made {first} before"


def commands_are_applied_once(index: Index) -> Iterator[tuple[str, str]]:
    """What is due of several schedules is settled by one command, in a stream each."""
    for command_id, entries in index.caused.items():
        lasts: dict[str, Entry] = {}
        for entry in entries:
            last = lasts.get(entry.stream)
            is_first = last is None and (not lasts or entry.command == "settle")
            if not is_first and (last is None or entry.position != last.position + 1):
                yield at(entry), f"command {command_id} was applied at {at(entries[0])} before"
            lasts[entry.stream] = entry


def epochs_count_up(index: Index) -> Iterator[tuple[str, str]]:
    for entries in index.streams.values():
        epoch = 1
        for entry in entries:
            if isinstance(entry.event, EpochAdvanced):
                epoch += 1
                if entry.event.epoch != epoch:
                    yield at(entry), f"epoch {entry.event.epoch} follows {epoch - 1}"


def advanced_epochs_are_fenced_off(index: Index) -> Iterator[tuple[str, str]]:
    epochs: dict[str, int] = {}
    for entry in index.history.log:
        event = entry.event
        if isinstance(event, EpochAdvanced):
            epochs[entry.stream.rsplit(":", 1)[-1]] = event.epoch
        elif isinstance(event, Claimed) or (isinstance(event, OF_A_GENERATION) and not isinstance(event, Interrupted)):
            claim = index.attempts.get(entry.position)
            current = epochs.get(claim.group, 1) if claim else 1
            if claim is not None and getattr(event, "generation", None) is not None and claim.epoch != current:
                yield at(entry), f"epoch {claim.epoch} of group {claim.group!r} writes, it is at {current}"


def rows_are_the_fold(index: Index) -> Iterator[tuple[str, str]]:
    for job_id, job in index.history.jobs.items():
        folded: Any = None
        for entry in index.streams.get(job_id, []):
            folded = evolve(folded, cast("JobEvent", entry.event))
        if folded != job:
            yield job_id, "its status row is not the fold of its events"


# Answers --------------------------------------------------------------------------------------------------------------


def acknowledged_is_in_the_log(index: Index) -> Iterator[tuple[str, str]]:
    """What was answered as reused left nothing, and so is not remembered; a renewal is an event only when late."""
    for operation, entries in index.acknowledged():
        if operation.name == "renew" or getattr(operation.answer, "reused", False):
            continue
        if not entries:
            yield of(operation), "it was acknowledged, and nothing of it is in the log"
        elif operation.ended is not None and entries[-1].position > operation.ended:
            yield of(operation), "it was acknowledged before it was in the log"
        elif any(entry.command != operation.command for entry in entries):
            yield of(operation), f"its command id belongs to a {entries[0].command}"


def nothing_comes_before_its_command(index: Index) -> Iterator[tuple[str, str]]:
    for command_id, operations in index.asked.items():
        entries = index.caused.get(command_id)
        if entries and entries[0].position <= min(operation.invoked for operation in operations):
            yield at(entries[0]), f"it was there before its command {command_id} was sent"


def refused_leaves_no_trace(index: Index) -> Iterator[tuple[str, str]]:
    """A repeated claim is refused as stale when its attempt has ended since: it had succeeded."""
    for command_id, operations in index.asked.items():
        entries = index.caused.get(command_id)
        if entries and all(
            served.result == "refused" and (operation.name, served.code) != ("claim", "stale_fence")
            for operation in operations
            for served in operation.served
        ):
            yield at(entries[0]), f"every call of command {command_id} was refused"


def stale_stays_stale(index: Index) -> Iterator[tuple[str, str]]:
    refused: dict[tuple[str, int, str], Served] = {}
    for operation, served in sorted(index.served(), key=lambda each: each[1].turn):
        fence = operation.fence
        if fence is None:
            continue
        identity = (fence.job_id, fence.generation, fence.token)
        if served.code == "stale_fence":
            refused.setdefault(identity, served)
        elif served.result == "ok" and identity in refused:
            entries = index.caused.get(operation.command_id or "", [])
            if not entries or entries[0].position > refused[identity].log:
                yield of(operation), f"its fence was refused as stale before, at log {refused[identity].log}"


def repeats_get_the_first_answer(index: Index) -> Iterator[tuple[str, str]]:
    for command_id, entries in index.caused.items():
        first: Any = None
        for operation in index.asked.get(command_id, ()):
            for served in operation.served:
                if served.result != "ok" or served.log < entries[0].position:
                    continue
                answer = _identity(served.answer)
                first = answer if first is None else first
                if answer != first:
                    yield of(operation), f"its repeated call was answered {answer!r}, the first one {first!r}"


def _identity(answer: Any) -> Any:
    """What a repeated command must be told again: a repeated claim gets the checkpoint and expiry of now."""
    if isinstance(answer, Lease):
        return answer.generation, answer.fence.token
    return answer


def results_are_those_recorded(index: Index) -> Iterator[tuple[str, str]]:
    for operation, entries in index.acknowledged():
        if not isinstance(operation.answer, ExecutionResult) or not entries:
            continue
        event = entries[-1].event
        if not isinstance(event, Completed) or event.outcome != operation.answer.outcome:
            yield of(operation), "the outcome that was acknowledged is not the one recorded"
        elif event.outcome.value != operation.arguments["outcome"]:
            yield (
                of(operation),
                f"it asked for the outcome {operation.arguments['outcome']}, {event.outcome} is recorded",
            )
        elif (event.result and event.result.value) != operation.answer.result:
            yield of(operation), "the result that was acknowledged is not the one recorded"
        elif operation.arguments.get("result") != operation.answer.result:
            yield of(operation), "the result that was acknowledged is not the one that was sent"


def claims_never_share_a_generation(index: Index) -> Iterator[tuple[str, str]]:
    holders: dict[tuple[str, int], tuple[str | None, str]] = {}
    for operation, served in index.served():
        leases = served.answer if isinstance(served.answer, list) else [served.answer]
        for lease in leases:
            if isinstance(lease, Lease):
                holder = (operation.command_id, lease.fence.token)
                if holders.setdefault((lease.job_id, lease.generation), holder) != holder:
                    yield of(operation), f"generation {lease.generation} of {lease.job_id} was given to two claims"


def fences_are_those_of_the_claim(index: Index) -> Iterator[tuple[str, str]]:
    for command_id, operations in index.asked.items():
        for entry in index.caused.get(command_id, ()):
            claim, fence = index.attempts.get(entry.position), operations[0].fence
            if fence is None or claim is None or not isinstance(entry.event, OF_A_GENERATION):
                continue
            if token_digest(fence.token) != claim.token_digest or fence.generation != claim.generation:
                yield at(entry), f"generation {fence.generation} wrote with a token that is not of this attempt"


def steps_only_grow(index: Index) -> Iterator[tuple[str, str]]:
    last: dict[tuple[str, int], tuple[int, str]] = {}
    for entry in index.history.log:
        operations = index.asked.get(entry.command_id or "")
        step = operations[0].step if operations else None
        if step is None or not operations or operations[0].fence is None:
            continue
        attempt = (entry.stream, operations[0].fence.generation)
        before, by = last.get(attempt, (0, ""))
        if step <= before and by != entry.command_id:
            yield at(entry), f"step {step} was accepted after step {before}"
        last[attempt] = (max(step, before), entry.command_id or "")


def told_leases_are_protected(index: Index) -> Iterator[tuple[str, str]]:
    told: dict[tuple[str, int], list[tuple[int, Any]]] = defaultdict(list)
    for operation, served in index.served():
        answer = served.answer
        if isinstance(answer, Lease):
            told[answer.job_id, answer.generation].append((served.log, answer.expires_at))
        elif isinstance(answer, Renewal) and operation.fence is not None:
            told[operation.fence.job_id, operation.fence.generation].append((served.log, answer.expires_at))
    for entry in index.history.log:
        event = entry.event
        if isinstance(event, Interrupted) and event.cause == "lease_expired":
            for log, expires_at in told.get((entry.stream, event.generation), ()):
                if log < entry.position and (event.at < expires_at or event.expires_at < expires_at):
                    yield at(entry), f"its worker had been told that the lease lives until {expires_at.isoformat()}"


def creates_meet_their_key(index: Index) -> Iterator[tuple[str, str]]:
    for operation, served in index.served():
        answer = served.answer
        if not isinstance(answer, CreateReceipt) or operation.name == "schedule.trigger":
            continue  # which job a trigger is told of is a promise of its own
        entries = index.streams.get(answer.job_id, [])
        event = entries[0].event if entries else None
        if operation.name != "create":
            if not isinstance(event, Created) or event.key != operation.arguments["key"] or not event.origin:
                yield of(operation), "it was told of a job that it did not ask for"
            elif (event.origin.how, event.origin.of) != (operation.name, operation.job_id):
                yield of(operation), f"it was told of a {event.origin.how} of {event.origin.of}"
            continue
        if not isinstance(event, Created):
            yield of(operation), "the job that it was told of does not exist"
            continue
        asked = operation.arguments
        if (event.owner, event.key) != (asked["owner"], asked["key"]):
            yield of(operation), f"it was told of the job of {event.owner!r} with key {event.key!r}"
        elif event.payload.value != asked["payload"] or event.kind != asked["kind"]:
            yield of(operation), "it was told of a job with another payload or kind"
        elif event.origin is not None:
            yield of(operation), "it was told of a job that was made from another one"


def operators_act_on_what_they_saw(index: Index) -> Iterator[tuple[str, str]]:
    """Where an id was used for several commands, one of them has to fit."""
    for command_id, operations in index.asked.items():
        entries = index.caused.get(command_id)
        if not entries or not any("expected_sequence" in each.arguments for each in operations):
            continue
        first = entries[0]
        seen = [each for each in index.streams[first.stream] if each.sequence < first.sequence]
        moved = max(each.sequence for each in seen if not isinstance(each.event, (*REPORTS, *SETTLED)))
        asked = [each.arguments.get("expected_sequence") for each in operations if each.command == first.command]
        if not any(expected in (None, moved) for expected in asked):
            yield at(first), f"it was asked for at control sequence {asked}, the job was at {moved}"


def claims_record_who_asked(index: Index) -> Iterator[tuple[str, str]]:
    for command_id, operations in index.asked.items():
        for entry in index.caused.get(command_id, ()):
            event, asked = entry.event, operations[0].arguments
            if isinstance(event, Claimed) and (
                (event.token_digest, event.worker, event.group, event.epoch)
                != (token_digest(asked["token"]), asked["worker"], asked["group"], asked["epoch"])
            ):
                yield at(entry), "it is not recorded as it was asked for"


def derived_jobs_start_where_their_origin_stood(index: Index) -> Iterator[tuple[str, str]]:
    for entry in index.history.log:
        event = entry.event
        if not isinstance(event, Created) or event.origin is None or event.origin.how == "occurrence":
            continue
        source = [each for each in index.streams.get(event.origin.of, []) if each.sequence <= event.origin.sequence]
        if event.origin.how == "rerun" and not any(_is_end(each) for each in source):
            yield at(entry), "it is a rerun of a job that had not ended"
        state, units = None, 0
        for each in source:
            if isinstance(each.event, Created):
                state, units = each.event.checkpoint, each.event.units
            elif isinstance(each.event, Checkpointed):
                state = each.event.state
            elif isinstance(each.event, UnitRecorded):
                units += 1
        expected = (state, units) if event.origin.from_checkpoint else (None, 0)
        if (event.checkpoint, event.units) != expected:
            yield at(entry), f"it starts from {event.checkpoint} and {event.units} units, its origin had {expected}"


def _is_end(entry: Entry) -> bool:
    return isinstance(entry.event, Completed) or type(entry.event).__name__ == "Cancelled"


# Effects and receipts -------------------------------------------------------------------------------------------------


def effects_are_compared_and_set(index: Index) -> Iterator[tuple[str, str]]:
    table: dict[tuple[str, str, str], tuple[int, Any]] = {}
    scopes: dict[str, tuple[str, str]] = {}
    for entry in index.history.log:
        event = entry.event
        if isinstance(event, Created):
            scopes[entry.stream] = (event.namespace, event.owner)
        if not isinstance(event, Checkpointed | Completed):
            continue
        for effect in event.effects:
            key = (*scopes[entry.stream], effect.resource)
            if effect.version != table.get(key, (0, None))[0] + 1:
                yield at(entry), f"{effect.resource!r} went from version {table.get(key, (0,))[0]} to {effect.version}"
            table[key] = (effect.version, effect.value.value)
    kept = index.history.resources
    if kept is not None and dict(kept) != table:
        yield "the resources", f"they are {dict(kept)}, the log says {table}"


def effects_are_those_asked_for(index: Index) -> Iterator[tuple[str, str]]:
    for command_id, operations in index.asked.items():
        entries = [
            each for each in index.caused.get(command_id, ()) if isinstance(each.event, Checkpointed | Completed)
        ]
        if not entries:
            continue
        asked = [(each.resource, each.value) for each in operations[0].arguments.get("effects", ())]
        if operations[0].name == "fail_attempt":
            asked = []
        event: Any = entries[0].event
        written = [(each.resource, each.value.value) for each in event.effects]
        if written != asked:
            yield at(entries[0]), f"its command asked for the effects {asked}, it wrote {written}"


def units_are_recorded_once(index: Index) -> Iterator[tuple[str, str]]:
    for entries in index.streams.values():
        seen: set[str] = set()
        for entry in entries:
            if isinstance(entry.event, UnitRecorded):
                if entry.event.unit in seen:
                    yield at(entry), f"unit {entry.event.unit!r} was recorded before"
                seen.add(entry.event.unit)


def receipts_are_the_first_ones(index: Index) -> Iterator[tuple[str, str]]:
    first: dict[tuple[str, str], Any] = {}
    for entry in index.history.log:
        if isinstance(entry.event, UnitRecorded):
            first.setdefault((entry.stream, entry.event.unit), entry.event)
    for operation, served in index.served():
        if isinstance(served.answer, UnitReceipt) and operation.fence is not None:
            event = first.get((operation.fence.job_id, served.answer.unit))
            if event is not None and served.answer.receipt != event.receipt.value:
                yield of(operation), f"it was told of the receipt {served.answer.receipt!r}, not of the first one"
            elif served.answer.receipt != operation.arguments["receipt"]:
                yield of(operation), "another receipt than the one it sent was confirmed"


# The feed -------------------------------------------------------------------------------------------------------------


def followers_miss_nothing(index: Index) -> Iterator[tuple[str, str]]:
    followed = index.history.followed
    if followed is None:
        return
    jobs = [entry.position for entry in index.history.log if not isinstance(entry.event, EpochAdvanced | ScheduleEvent)]
    if list(followed) != jobs[: len(followed)]:
        gap = next((one for one, other in zip(jobs, followed, strict=False) if one != other), None)
        yield "the feed", f"the follower was not given position {gap} in its turn"
