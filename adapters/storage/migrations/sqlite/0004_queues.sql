-- Queues: a row for each that was ever limited or held, and what the claims of limited ones remember.

-- The name is empty where the row is of the whole namespace. share_by is what divides the queue, if anything does.
CREATE TABLE queue (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    head TEXT NOT NULL,
    share_by TEXT,
    queue BLOB NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;

CREATE TABLE queue_usage (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    usage BLOB NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;

-- A job that waits in a divided queue and was assigned to its share is claimable 'when_shared', and so has an entry here
-- instead of in job_status_waiting; jobs of other queues have no share and no entry.
ALTER TABLE job_status ADD COLUMN share TEXT;

CREATE INDEX job_status_shared ON job_status (namespace, queue, share, kind, priority, ready_at_us)
WHERE claimable = 'when_shared';
