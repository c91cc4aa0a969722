"""Archived events in a PostgreSQL store: what is kept of them, whose time has come, and how they are taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, LiteralString

from jobledger.adapters.storage.postgresql_arrays import byte_strings, integers, texts
from jobledger.adapters.storage.postgresql_listing import PostgreSQLLister
from jobledger.adapters.storage.rows import encode_job, from_us, to_us
from jobledger.adapters.storage.status_row import ready_at_us
from jobledger.domain.ports import Due, Leaf

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jobledger.domain.ports import Archival


class PostgreSQLArchiveReader(PostgreSQLLister):
    """Reads what is kept of archived events, and finds the jobs that may be archived."""

    # By the primary key, or by archived_event_behind.
    LEAVES: Final[LiteralString] = """
        SELECT position, digest, behind FROM jobledger.archived_event
        WHERE position > %(after)s AND position <= %(upto)s ORDER BY position LIMIT %(limit)s
    """
    LEAVES_BEHIND: Final[LiteralString] = """
        SELECT position, digest, behind FROM jobledger.archived_event
        WHERE behind = %(behind)s AND position > %(after)s ORDER BY position LIMIT %(limit)s
    """

    def leaves(self, *, after: int, limit: int, behind: int | None = None) -> list[Leaf]:
        """What is kept of archived events by position, below the horizon; of those behind one event, if it is given."""
        if behind is None:
            rows = self._all(self.LEAVES, after=after, limit=limit, upto=self._upto())
        else:
            rows = self._all(self.LEAVES_BEHIND, after=after, limit=limit, behind=behind)
        return [Leaf(position, digest.hex(), place) for position, digest, place in rows]

    # By job_status_finished.
    EXPIRED: Final[LiteralString] = """
        SELECT ready_at_us, job_id FROM jobledger.job_status
        WHERE namespace = %(namespace)s AND claimable = 'finished' AND ready_at_us <= %(now_us)s
            AND (ready_at_us, job_id) > (%(at_us)s, %(job_id)s)
        ORDER BY ready_at_us, job_id LIMIT %(limit)s
    """

    def expired(self, namespace: str, *, after: Due | None, limit: int) -> list[Due]:
        """Ended jobs whose ``keep_finished`` is over by the store's clock, the longest first, from behind ``after``."""
        place = {"at_us": to_us(after.at), "job_id": after.job_id} if after else {"at_us": -(2**63), "job_id": ""}
        rows = self._all(self.EXPIRED, namespace=namespace, now_us=to_us(self.now()), limit=limit, **place)
        return [Due(from_us(at_us), job_id) for at_us, job_id in rows]

    # By job_newest, in the order of positions; the others by their primary keys.
    ENDED: Final[LiteralString] = """
        SELECT j.position, j.job_id
        FROM jobledger.job AS j JOIN jobledger.job_status AS s ON s.job_id = j.job_id
        WHERE j.namespace = %(namespace)s AND j.position > %(after)s AND s.updated_at_us <= %(until_us)s
            AND s.state IN ('complete', 'partial', 'failed', 'unavailable', 'cancelled')
            AND EXISTS (
                SELECT 1 FROM jobledger.stored_events AS e
                WHERE e.originator_id = j.job_id AND e.originator_version = 1
            )
        ORDER BY j.position LIMIT %(limit)s
    """

    def ended(self, namespace: str, *, until: datetime, after: int, limit: int) -> list[tuple[int, str]]:
        """Ended jobs that are not archived and had their last event by ``until``, by position from behind ``after``."""
        rows = self._all(self.ENDED, namespace=namespace, until_us=to_us(until), after=after, limit=limit)
        return [(position, job_id) for position, job_id in rows]


ARCHIVE: Final[LiteralString] = """
    SELECT jobledger.archive(
        %(job)s, %(sequence)s, %(topic)s, %(state)s, %(claimable)s, %(ready)s, %(head)s, %(updated)s, %(status)s,
        %(leaf_item)s, %(leaf_position)s, %(leaf_digest)s, %(kept_item)s, %(kept)s
    )
"""


def archive_arguments(archivals: Sequence[Archival]) -> dict[str, Any]:
    """The arguments of the function that archives: the jobs, and the events and bodies of each by its place."""
    leaves = [(place, *leaf) for place, archival in enumerate(archivals, start=1) for leaf in archival.leaves]
    kept = [(place, digest) for place, archival in enumerate(archivals, start=1) for digest in sorted(archival.kept)]
    return {
        "job": texts([each.job.id for each in archivals]),
        "sequence": integers([each.record.sequence for each in archivals]),
        "topic": texts([each.record.topic for each in archivals]),
        "state": byte_strings([each.record.state for each in archivals]),
        "claimable": texts([each.claimable.value for each in archivals]),
        "ready": integers([ready_at_us(each.job, each.claimable) for each in archivals]),
        "head": texts([each.head for each in archivals]),
        "updated": integers([to_us(each.job.updated_at) for each in archivals]),
        "status": byte_strings([encode_job(each.job) for each in archivals]),
        "leaf_item": integers([place for place, _, _ in leaves]),
        "leaf_position": integers([position for _, position, _ in leaves]),
        "leaf_digest": byte_strings([bytes.fromhex(digest) for _, _, digest in leaves]),
        "kept_item": integers([place for place, _ in kept]),
        "kept": texts([digest for _, digest in kept]),
    }
