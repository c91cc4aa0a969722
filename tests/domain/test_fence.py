"""The fence: the one rule on every worker write, in the order in which it refuses, and the fence as text."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from jobledger.domain.errors import (
    AlreadyTerminalError,
    InvalidRequestError,
    LeaseExpiredError,
    OutOfOrderError,
    RefusedError,
    StaleEpochError,
    StaleFenceError,
)
from jobledger.domain.events import JobEvent, Outcome
from jobledger.domain.lease import Fence, require_fence, token_digest
from jobledger.domain.steps import Steps
from tests.domain import when
from tests.domain.given import (
    EXPIRY,
    JOB_ID,
    NOON,
    SECOND,
    attempt_failed,
    cancel_requested,
    cancelled,
    claimed,
    completed,
    created,
    fence,
    hold_placed,
    interrupted,
    paused,
    renewed_late,
    standing,
)
from tests.domain.when import WRITES, Write

if TYPE_CHECKING:
    from jobledger.domain.lease import Standing

COMMANDS: dict[str, Write] = {**WRITES, "renew": when.renew}

every_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
every_command = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)

OPEN: list[JobEvent] = [created(), claimed(1), cancel_requested()]
"""An open attempt in which every write is allowed, also ``cancel``."""


@every_write
def test_the_open_generation_may_write(write: Write) -> None:
    """The control for all that follows: under its live lease each command is accepted."""
    assert len(write(standing(OPEN))) == 1


@every_command
def test_a_worker_that_was_replaced_is_refused(command: Write) -> None:
    """Only the newest generation may write, however late the older worker wakes up; it learns who owns the job now."""
    now = standing([created(), claimed(1), interrupted(1), claimed(2, worker="w2"), cancel_requested()])

    with pytest.raises(StaleFenceError) as refusal:
        command(now, fence(1))

    assert (refusal.value.job_id, refusal.value.presented, refusal.value.current) == (JOB_ID, 1, 2)


@every_command
@pytest.mark.parametrize("secret", ["", "guess", "secret of claim 2", token_digest("secret of claim 1")])
def test_a_fence_with_a_wrong_token_is_refused(command: Write, secret: str) -> None:
    """The right generation is no proof: a restored database cannot make a second holder, nor can a reader of events."""
    with pytest.raises(StaleFenceError):
        command(standing(OPEN), fence(1, secret=secret))


@every_command
def test_a_fence_of_a_generation_that_never_was_is_refused(command: Write) -> None:
    """Neither on a job that was never leased, nor ahead of the one that is."""
    with pytest.raises(StaleFenceError):
        command(standing([created()]), fence(1))
    with pytest.raises(StaleFenceError):
        command(standing([created()]), fence(0, secret=""))
    with pytest.raises(StaleFenceError):
        command(standing(OPEN), fence(2))


@every_command
@pytest.mark.parametrize("outcome", [Outcome.COMPLETE, Outcome.PARTIAL, Outcome.FAILED, Outcome.UNAVAILABLE])
def test_the_generation_that_ended_the_job_learns_that_it_ended(command: Write, outcome: Any) -> None:
    """After a terminal event nothing follows, also not from the attempt that published it."""
    with pytest.raises(AlreadyTerminalError) as refusal:
        command(standing([created(), claimed(1), completed(1, outcome)]), fence(1))

    assert refusal.value.state == outcome.value


@every_command
def test_the_last_generation_of_a_cancelled_job_learns_that_it_ended(command: Write) -> None:
    """Also when the job was cancelled without it, while it was parked."""
    with pytest.raises(AlreadyTerminalError):
        command(standing([created(), claimed(1), paused(1), cancelled()]), fence(1))


@every_command
@pytest.mark.parametrize(
    ("end", "how"),
    [
        (paused(1), "paused"),
        (paused(1, "deferred"), "paused"),
        (interrupted(1), "lease_expired"),
        (interrupted(1, cause="epoch_advanced"), "epoch_advanced"),
        (attempt_failed(1), "attempt_failed"),
    ],
    ids=["paused", "deferred", "expired", "epoch", "failed"],
)
def test_a_generation_that_was_ended_cannot_write_again(command: Write, end: JobEvent, how: str) -> None:
    """A generation ends by an event; the refusal says by which, and no renewal brings it back."""
    with pytest.raises(StaleFenceError) as refusal:
        command(standing([created(), claimed(1), end]), fence(1))

    assert (refusal.value.presented, refusal.value.current, refusal.value.ended_by) == (1, 1, how)


@every_command
def test_an_attempt_of_an_older_epoch_is_fenced_off_at_once(command: Write) -> None:
    """Also while its lease would live on; renewing does not help either."""
    with pytest.raises(StaleEpochError) as refusal:
        command(standing(OPEN, epoch=2), fence(1))

    assert (refusal.value.group, refusal.value.presented, refusal.value.current) == ("default", 1, 2)


@every_write
def test_an_expired_lease_can_write_nothing(write: Write) -> None:
    """From the very instant of its expiry, though nobody has taken the job over; the refusal says when it was."""
    with pytest.raises(LeaseExpiredError) as refusal:
        write(standing(OPEN, now=EXPIRY))

    assert (refusal.value.generation, refusal.value.expired_at) == (1, EXPIRY)
    assert len(write(standing(OPEN, now=EXPIRY - SECOND / 1_000_000))) == 1


@every_write
def test_a_renewed_lease_can_write_again(write: Write) -> None:
    """Renew first, then repeat: what an outage delayed is not lost."""
    facts = [*OPEN, renewed_late(1, at=EXPIRY + SECOND)]

    assert len(write(standing(facts, now=EXPIRY + SECOND))) == 1
    assert len(write(standing(OPEN, now=EXPIRY + SECOND, lease=EXPIRY + 2 * SECOND))) == 1


@every_write
@pytest.mark.parametrize("step", [6, 7])
def test_a_late_packet_cannot_undo_a_newer_one(write: Write, step: int) -> None:
    """A write that was given up on and arrives after a newer one was accepted is dropped."""
    now = standing(OPEN, step=7)

    with pytest.raises(OutOfOrderError) as refusal:
        write(now, step=step)

    assert (refusal.value.presented, refusal.value.accepted) == (step, 7)
    assert len(write(now, step=8)) == 1
    assert len(write(now, step=99)) == 1


def test_steps_start_anew_with_each_generation() -> None:
    """The step belongs to the lease: a new attempt's first write is not older than the last one's."""
    now = standing([created(), claimed(1), interrupted(1), claimed(2)], step=0)

    assert when.names(when.checkpoint(now, fence(2), step=1)) == ["Checkpointed"]


def test_a_renewal_has_no_step() -> None:
    """It can undo nothing, so it may overtake and be overtaken."""
    assert when.renew(standing(OPEN, step=99)) == []


# The order ------------------------------------------------------------------------------------------------------------


def ladder() -> list[tuple[type[RefusedError], Standing, Fence, int]]:
    """Each rung has one reason less than the one before: what is left is told."""
    replaced = [created(), claimed(1), interrupted(1), claimed(2)]
    return [
        (StaleFenceError, standing([*replaced, completed(2)], step=9), fence(1), 1),
        (StaleFenceError, standing([created(), claimed(1), completed(1)]), fence(1, secret="guess"), 1),
        (AlreadyTerminalError, standing([created(), claimed(1), paused(1), cancelled()]), fence(1), 1),
        (StaleFenceError, standing([created(), claimed(1), paused(1)], now=EXPIRY, epoch=2), fence(1), 1),
        (StaleEpochError, standing(OPEN, now=EXPIRY, epoch=2, step=9), fence(1), 1),
        (LeaseExpiredError, standing(OPEN, now=EXPIRY, step=9), fence(1), 1),
        (OutOfOrderError, standing(OPEN, step=9), fence(1), 1),
    ]


@every_write
@pytest.mark.parametrize("rung", range(len(ladder())))
def test_the_fence_refuses_in_the_stated_order(write: Write, rung: int) -> None:
    """Older generation or wrong token, job ended, generation ended, older epoch, expired, older step; then its own."""
    refused, now, presented, step = ladder()[rung]

    with pytest.raises(refused):
        write(now, presented, step=step)


@pytest.mark.parametrize("rung", range(5))
def test_a_renewal_is_refused_in_the_same_order(rung: int) -> None:
    """All but the expiry, which is what a renewal mends, and the step, which it does not have."""
    refused, now, presented, _ = ladder()[rung]

    with pytest.raises(refused):
        when.renew(now, presented)


def test_the_fence_comes_before_the_commands_own_refusals() -> None:
    """An expired worker that also sends too much is told to renew: its size does not matter yet."""
    big = "x" * (1024 * 1024)
    expired = standing([created(), claimed(1)], now=EXPIRY)

    with pytest.raises(LeaseExpiredError):
        when.checkpoint(expired, state=big)
    with pytest.raises(LeaseExpiredError):
        when.record_unit(expired, receipt=big)
    with pytest.raises(LeaseExpiredError):
        when.complete(expired, result=big)
    with pytest.raises(LeaseExpiredError):
        when.cancel(expired)


def test_the_rule_answers_the_open_attempt() -> None:
    """What a command needs to know of its lease it gets from the check itself."""
    attempt = require_fence(standing(OPEN), fence(1), 1)

    assert (attempt.worker, attempt.expires_at) == ("w1", EXPIRY)


def test_a_hold_does_not_stop_the_open_generation() -> None:
    """A hold is a request: the attempt writes until it reaches its boundary."""
    now = standing([created(), claimed(1), hold_placed()])

    assert when.names(when.checkpoint(now)) == ["Checkpointed"]


# The fence as text ----------------------------------------------------------------------------------------------------

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=255).filter(
    lambda text: bool(text.strip())
)


@for_all(
    group=NAMES,
    generation=st.integers(1, 2**63 - 1),
    epoch=st.integers(1, 2**63 - 1),
    secret=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=64),
    last=st.integers(0, 2**63 - 1),
)
def test_a_fence_is_read_back_from_its_text(group: str, generation: int, epoch: int, secret: str, last: int) -> None:
    """A worker in another process goes on with the same authority and after the same step."""
    presented = Fence(JOB_ID, generation, group, epoch, secret, Steps(last))

    read = Fence.from_token(presented.to_token())

    assert read == presented
    assert read.steps.last == last


@pytest.mark.parametrize("group", ["😀" * 255, "é" * 255, "\x01" * 254 + "x"], ids=["emoji", "accents", "controls"])
def test_a_fence_of_the_longest_group_name_is_read_back(group: str) -> None:
    """What was handed out is never refused: a name within its bound fits, whatever its characters."""
    presented = fence(1, group=group)

    assert Fence.from_token(presented.to_token()) == presented


def packed(parts: Any) -> str:
    """A text that is encoded as a fence is."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "é",
        "****",
        "A" * 5_000,
        packed([]),
        packed({}),
        packed(None),
        packed(["j", 1, "g", 1, "t"]),
        packed(["j", 1, "g", 1, "t", 0, 0]),
        packed(["j", "1", "g", 1, "t", 0]),
        packed(["j", True, "g", 1, "t", 0]),
        packed(["j", -1, "g", 1, "t", 0]),
        packed(["j", 1.0, "g", 1, "t", 0]),
        packed(["j", 2**63, "g", 1, "t", 0]),
        packed(["", 1, "g", 1, "t", 0]),
        packed(["j", 1, "g\0", 1, "t", 0]),
        packed(["j", 1, "\ud800", 1, "t", 0]),
        packed(["j", 1, "g", 1, None, 0]),
        packed([["j"], 1, "g", 1, "t", 0]),
        base64.urlsafe_b64encode(b"[" * 2_900).decode(),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        None,
        7,
        b"x",
    ],
    ids=lambda text: repr(text)[:24],
)
def test_what_is_no_fence_is_refused_without_being_repeated(text: Any) -> None:
    """A mistaken text may hold half of a secret: it never stands in a message."""
    with pytest.raises(InvalidRequestError) as refusal:
        Fence.from_token(text)

    assert refusal.value.field == "fence"
    if isinstance(text, str) and len(text) > 4:
        assert text not in str(refusal.value)


def test_a_fence_never_shows_its_token() -> None:
    """It may be logged by accident."""
    presented = fence(1, secret="hush-hush")

    assert "hush" not in repr(presented)
    assert "hush" not in str(presented)


def test_fences_are_the_same_whatever_their_step() -> None:
    """The step goes along and is no part of the identity."""
    one = Fence(JOB_ID, 1, "default", 1, "t", Steps(1))
    other = Fence(JOB_ID, 1, "default", 1, "t", Steps(9))

    assert one == other
    assert hash(one) == hash(other)
    assert one != Fence(JOB_ID, 1, "default", 1, "u", Steps(1))


def test_steps_are_drawn_in_order() -> None:
    """Each write of an attempt has the next number."""
    steps = Steps(4)

    assert [steps.draw() for _ in range(3)] == [5, 6, 7]


def test_a_standing_knows_whether_its_lease_is_live() -> None:
    """Not expired, and of the current epoch; without an attempt nothing is live."""
    facts = [created(), claimed(1)]

    assert standing(facts, now=EXPIRY - SECOND).is_live
    assert not standing(facts, now=EXPIRY).is_live
    assert not standing(facts, now=NOON, epoch=2).is_live
    assert not standing([created()]).is_live
    assert standing([created()]).expires_at is None


@every_command
@pytest.mark.parametrize("edited", [fence(1, group="other"), fence(1, epoch=2)], ids=["group", "epoch"])
def test_a_fence_whose_group_or_epoch_was_edited_is_stale(command: Write, edited: Fence) -> None:
    """The token alone is not the fence: group and epoch have to be those of the claim."""
    with pytest.raises(StaleFenceError):
        command(standing(OPEN), edited)
