"""One worker process of the demonstration: ``python -m jobledger.adapters.demo.working URL NAME [BATCH]``.

It runs a host until it is stopped. With a BATCH it waits there to be killed: between the batch's effect and its
checkpoint it hands the text of its fence to the process that started it, and goes no further.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.demo import crashing
from jobledger.adapters.demo.jobs import POLICIES, PatrolIndex, RebuildIndex
from jobledger.adapters.worker.host import JobHost

if TYPE_CHECKING:
    from jobledger.domain.answers import Lease


class HandingOver(JobStore):
    """A store that keeps the last lease it was given, so that its fence can be handed over."""

    latest: Lease | None = None

    def claim_next(self, **given: Any) -> list[Lease]:
        """Claim, and keep the lease."""
        leases = super().claim_next(**given)
        for lease in leases:
            HandingOver.latest = lease
        return leases


def main() -> None:
    """Run the host."""
    url, name, *rest = sys.argv[1:]
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    if rest:
        crashing.wait_to_be_killed(int(rest[0]), _hand_over)
    with HandingOver.open(url, policies=POLICIES, migrate=False) as store:
        JobHost(store, jobs=[RebuildIndex, PatrolIndex], concurrency=1, name=name).run()


def _hand_over() -> None:
    lease = HandingOver.latest
    sys.stdout.write(f"{lease.fence.to_token() if lease else ''}\n")
    sys.stdout.flush()
    threading.Event().wait()


def _end_with_the_parent() -> None:
    """End when the parent does: it holds the other end of the standard input, and never writes to it."""
    os.read(0, 1)  # not through sys.stdin, whose lock would be held when the interpreter ends
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
