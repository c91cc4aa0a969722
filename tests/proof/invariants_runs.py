"""The invariants of answers and of whole histories."""

from __future__ import annotations

from typing import Final

from tests.proof import histories, refusals
from tests.proof.invariant import Invariant
from tests.proof.invariants_schedules import SCHEDULE_HISTORY_INVARIANTS, SCHEDULER_INVARIANTS

HISTORY_INVARIANTS: Final[tuple[Invariant, ...]] = (
    Invariant(
        "no_gaps",
        "Positions in the log grow, and each job's sequences are whole.",
        histories.streams_have_no_gaps,
        "I01, I04",
        group="The log",
    ),
    Invariant(
        "keys",
        "One owner and key make one job, for ever.",
        histories.keys_are_unique,
        "I03, I35",
        group="The log",
    ),
    Invariant(
        "applied_once",
        "A command is applied at most once, all of it in one transaction, however often it is sent.",
        histories.commands_are_applied_once,
        "I06, I47",
        group="The log",
    ),
    Invariant(
        "rows",
        "The status row of a job is the fold of its events.",
        histories.rows_are_the_fold,
        "I07",
        group="The log",
    ),
    Invariant(
        "epochs",
        "The epochs of a group count up one by one.",
        histories.epochs_count_up,
        group="Generations and leases",
    ),
    Invariant(
        "epoch_fence",
        "Once a group's epoch has advanced, nothing is claimed or written under an older one.",
        histories.advanced_epochs_are_fenced_off,
        group="Generations and leases",
    ),
    Invariant(
        "one_holder",
        "No two claims are ever given the same generation of a job.",
        histories.claims_never_share_a_generation,
        "I15",
        group="Generations and leases",
    ),
    Invariant(
        "token",
        "A generation writes only with the secret token of its own claim.",
        histories.fences_are_those_of_the_claim,
        "I11",
        group="Generations and leases",
    ),
    Invariant(
        "stale_stays_stale",
        "A fence that was refused as stale never writes again.",
        histories.stale_stays_stale,
        "I16",
        group="Generations and leases",
    ),
    Invariant(
        "steps",
        "Within an attempt no older write is accepted after a newer one.",
        histories.steps_only_grow,
        group="Generations and leases",
    ),
    Invariant(
        "told_leases",
        "Nobody ends an attempt for its expiry before the expiry that its worker was last told.",
        histories.told_leases_are_protected,
        "I12",
        group="Generations and leases",
    ),
    Invariant(
        "acknowledged",
        "What was acknowledged is in the log, before its acknowledgement.",
        histories.acknowledged_is_in_the_log,
        "I22, I46",
        group="Answers",
    ),
    Invariant(
        "cause_first",
        "No event stands in the log before its command was sent.",
        histories.nothing_comes_before_its_command,
        "I46",
        group="Answers",
    ),
    Invariant(
        "no_trace",
        "A refused command leaves no trace (a repeated claim whose attempt has ended since is told so, too).",
        histories.refused_leaves_no_trace,
        "I27",
        group="Answers",
    ),
    Invariant(
        "first_answer",
        "A repeated command is told what it was told first.",
        histories.repeats_get_the_first_answer,
        "I15, I46",
        group="Answers",
    ),
    Invariant(
        "results",
        "The result and outcome that were acknowledged are the ones recorded, and the ones that were sent.",
        histories.results_are_those_recorded,
        "I22",
        group="Answers",
    ),
    Invariant(
        "creates",
        "A create is told of the job with its own owner, key, kind and payload, or is refused.",
        histories.creates_meet_their_key,
        "I33, I34",
        group="Answers",
    ),
    Invariant(
        "looked",
        "An operator's command that expects a control sequence is applied only at that sequence.",
        histories.operators_act_on_what_they_saw,
        group="Answers",
    ),
    Invariant(
        "claims_asked",
        "A claim records the token, worker, group and epoch of the worker that asked.",
        histories.claims_record_who_asked,
        group="Answers",
    ),
    Invariant(
        "derived",
        "A rerun follows an ended job; a fork starts from the checkpoint and units of exactly the sequence it names.",
        histories.derived_jobs_start_where_their_origin_stood,
        group="Answers",
    ),
    Invariant(
        "compare_and_set",
        "A resource's versions are 1, 2, 3 …; each write saw the one before; the table is the fold of the log.",
        histories.effects_are_compared_and_set,
        "I29, I30",
        group="Effects and receipts",
    ),
    Invariant(
        "effects_asked",
        "A step writes exactly the effects that were given with it, none of another attempt.",
        histories.effects_are_those_asked_for,
        "I28",
        group="Effects and receipts",
    ),
    Invariant(
        "units",
        "A unit of a job is recorded once, whatever becomes of its attempts.",
        histories.units_are_recorded_once,
        group="Effects and receipts",
    ),
    Invariant(
        "receipts",
        "Whoever records a unit again is told of its first receipt, or refused.",
        histories.receipts_are_the_first_ones,
        group="Effects and receipts",
    ),
    Invariant(
        "feed",
        "A follower of the feed is given every event once, in the order of positions.",
        histories.followers_miss_nothing,
        "I40",
        group="The feed",
    ),
    *SCHEDULE_HISTORY_INVARIANTS,
)

ANSWER_INVARIANTS: Final[tuple[Invariant, ...]] = (
    Invariant(
        "refusals",
        "A command is refused exactly when the table of refusals says so, by the first reason that holds.",
        refusals.refused_as_the_table_says,
        group="Answers",
    ),
)

HARNESS_INVARIANTS: Final[tuple[Invariant, ...]] = (
    Invariant(
        "no_surprises",
        "Nothing but answers comes out of a command, and what was decided undisturbed is written.",
        lambda _: None,
        group="Answers",
    ),
    *SCHEDULER_INVARIANTS,
)
"""What the harness itself notices, rather than a predicate."""
