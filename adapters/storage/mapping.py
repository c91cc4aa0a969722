"""A jobledger history as the eventsourcing library sees it: a mapper for our records, a projector for our jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eventsourcing.persistence import Cipher, Compressor, Mapper, StoredEvent, Transcoder
from typing_extensions import override

from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError
from jobledger.domain.history import RecordedEvent, StoredRecord, read
from jobledger.domain.replaying import advance

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eventsourcing.domain import DomainEventProtocol

    from jobledger.domain.job import Job


@dataclass(frozen=True)
class LedgerEvent:
    """One fact in the library's shape; ``state`` are its stored bytes, which its successor's digest was made from."""

    originator_id: str
    originator_version: int
    recorded: RecordedEvent
    state: bytes = field(repr=False)


class LedgerMapper(Mapper[str]):
    """Reads and writes jobledger's records, whose topics come from a closed registry; nothing stored is ever imported.

    Set ``MAPPER_TOPIC`` to this class's topic, or answer it from ``Application.construct_mapper``.
    """

    def __init__(
        self, transcoder: Transcoder, compressor: Compressor | None = None, cipher: Cipher | None = None
    ) -> None:
        """Take the library's arguments; the transcoder is not used.

        Raises:
            InvalidRequestError: records are stored as they are, since digests are made from the stored bytes.
        """
        for name, given in (("compressor", compressor), ("cipher", cipher)):
            if given is not None:
                raise InvalidRequestError(name, "a jobledger store keeps records as they are; leave it out")
        super().__init__(transcoder)

    @override
    def to_domain_event(self, stored_event: StoredEvent) -> LedgerEvent:
        """Decode one record.

        Raises:
            HistoryCorruptError: an unknown topic or version, or bytes that are no such event.
        """
        stream, sequence = str(stored_event.originator_id), stored_event.originator_version
        recorded = read(StoredRecord(stream, sequence, stored_event.topic, bytes(stored_event.state)))
        return LedgerEvent(stream, sequence, recorded, bytes(stored_event.state))

    @override
    def to_stored_event(self, domain_event: DomainEventProtocol[str]) -> StoredEvent:
        """Give the stored bytes back, untouched.

        Raises:
            InvalidRequestError: it is not one of jobledger's events.
        """
        if not isinstance(domain_event, LedgerEvent):
            problem = f"a LedgerEvent is needed, not {type(domain_event).__name__}"
            raise InvalidRequestError("domain_event", problem)
        event: LedgerEvent = domain_event
        return StoredEvent(event.originator_id, event.originator_version, event.recorded.topic, event.state)


def project_job(job: Any, events: Iterable[LedgerEvent]) -> Any:
    """Fold a job, for ``Repository.get(job_id, projector_func=project_job)``: a ``Job``, or ``None`` for no events.

    Raises:
        HistoryCorruptError: an event does not follow the one before it.
    """
    folded: Job | None = job
    for event in events:
        if event.originator_version != (folded.sequence if folded else 0) + 1:
            raise HistoryCorruptError(event.originator_id, event.originator_version, "an event before it is missing")
        folded = advance(folded, event.recorded)
    return folded
