-- Archiving: what is kept of events that were taken out of the log, and an index on jobs whose time comes.

-- Of each such event its place and its digest (32 bytes), so that the tree over the log can still be made; behind is the
-- place of the event that stands for it.
CREATE TABLE archived_event (
    position INTEGER PRIMARY KEY,
    digest BLOB NOT NULL,
    behind INTEGER NOT NULL
);

CREATE INDEX archived_event_behind ON archived_event (behind, position);

-- Ended jobs that are not kept for ever, by the instant at which their time is over: it stands in ready_at_us.
CREATE INDEX job_status_finished ON job_status (namespace, ready_at_us, job_id) WHERE claimable = 'finished';

-- Jobs that had ended before there was archiving: span_us reads a policy's span, which stands in ISO 8601.
UPDATE job_status SET
    claimable = 'finished',
    ready_at_us = updated_at_us + span_us(json_extract(CAST(job AS TEXT), '$.policy_changes.keep_finished'))
WHERE state IN ('complete', 'partial', 'failed', 'unavailable', 'cancelled')
    AND CASE WHEN json_valid(CAST(job AS TEXT))
        THEN json_extract(CAST(job AS TEXT), '$.policy_changes.keep_finished') IS NOT NULL END;
