"""Writes docs/guarantees.md from the invariants: what is promised, under which assumptions, and what is not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.proof.invariants import (
    ANSWER_INVARIANTS,
    HARNESS_INVARIANTS,
    HISTORY_INVARIANTS,
    INVARIANTS,
    SCHEDULE_STEP_INVARIANTS,
    STEP_INVARIANTS,
    Invariant,
)

PAGE: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "guarantees.md"

OPENING: Final = """\
# Guarantees

Written by `scripts/describe_guarantees` from the invariants in `tests/proof/invariants.py`; a test fails when this page
is not what it writes. To change a promise, change the invariant.

Every promise below is a predicate that runs. `scripts/explore` holds the promises on single events against every
reachable state of a small scope. `scripts/simulate` holds all of them against random worlds with lost, late and doubled
messages, crashes, and clocks that jump, over the simulated store and over the real ones. It has to notice every rule
that `tests/proof/mutants.py` breaks on purpose. `scripts/prove` runs both at full size.

Schedules are simulated with intervals; what cron expressions and time zones mean is tested apart.

`verify` has rules of its own, so that an auditor trusts no decision that wrote what he looks at. Whatever a promise
notices in a log, `verify` has to notice (`tests/proof/test_verify.py`), but for those that need what stood when an
event was written, and for schedules what a calendar says; that test names each of them with its reason. What clients
were told stands in no store: the promises about answers are held by the simulation alone.
"""

ASSUMPTIONS: Final = """\
## What they rest on

- **The store keeps what it committed**, and runs each append atomically with its preconditions. Durability is that of
  the store as it is configured: a disk that lies about its writes, or a database that was told not to wait for them,
  loses what it acknowledged.
- **One store decides.** All writes of a job go to one primary. A store that is replaced by an older copy of itself, by
  a restore or an asynchronous failover, has lost what the copy had not seen; the fence's token still keeps two holders
  of one generation apart, and advancing the epoch of the worker groups fences off all that was handed out before.
- **Time only makes leases live.** Clocks may jump, of workers and of the store: a lease may then end early or late, and
  work may be done again; nothing is written by an attempt that was ended, whatever any clock says.
- **Tokens stay secret.** Whoever has a fence's token is the worker.
- **Command ids and keys are the caller's.** A call that is repeated under the same id is one command; under a fresh id
  it is another one.
- **What was answered as reused left nothing behind**, and neither did a refusal; both are forgotten. A copy of such a
  request that arrives later is decided on as if it were new. A command that must not act late carries the
  `expected_sequence` that its operator saw.
"""

NOT_PROMISED: Final = """\
## What is not promised

- **That code runs exactly once.** An attempt may be interrupted after its work and before its report, and the next one
  does that work again, from the last checkpoint. Recorded once are units, effects, results and outcomes.
- **Effects outside of the store.** A mail that was sent or a file that was written is not undone, and may happen twice;
  an attempt that lost its lease may still be at it. Give other systems a key that is the same for every attempt.
- **That an attempt stops when its lease ends.** It can record nothing any more; its code runs until it notices.
- **Acknowledged commands across an asynchronous failover.** What the new primary had not received is gone.
- **That anything happens by a deadline.** These promises say what never happens. Work goes on when workers claim,
  expired attempts are parked when somebody sweeps, and clocks pass.
- **That a schedule fires at its instant.** It fires when a scheduler looks, and not before; what comes late is settled
  as the schedule says. An interval that was set while the store's clock was wrong follows the wrong clock.
- **An order of time between jobs.** The events of one job have one order. The feed puts those of all jobs into one
  order, that of positions; recorded times need not follow it.
"""


def page() -> str:
    """The whole page."""
    groups = dict.fromkeys(invariant.group for invariant in INVARIANTS)
    parts = [OPENING, "## What is promised\n"]
    for group in groups:
        parts.append(f"### {group}\n")
        parts.append("| promise | name | looked at |\n| --- | --- | --- |")
        parts += [_row(invariant) for invariant in INVARIANTS if invariant.group == group]
        parts.append("")
    return "\n".join([*parts, ASSUMPTIONS, NOT_PROMISED.rstrip()]) + "\n"


def _row(invariant: Invariant) -> str:
    kinds = (
        ((*STEP_INVARIANTS, *SCHEDULE_STEP_INVARIANTS), "each event"),
        (ANSWER_INVARIANTS, "each answer"),
        (HISTORY_INVARIANTS, "whole histories"),
        (HARNESS_INVARIANTS, "each answer"),
    )
    looked_at = next(told for invariants, told in kinds if invariant in invariants)
    return f"| {invariant.sentence} | `{invariant.name}` | {looked_at} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")
