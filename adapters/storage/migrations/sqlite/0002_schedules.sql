-- Schedules: one row for each, written in the same transaction as its events and the jobs that it makes.

-- due_at_us is when the next instant has to be settled; NULL: never, or not while it is held. waits_for is the job that
-- has to end first, where the schedule says that its occurrences wait for each other.
CREATE TABLE schedule (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    head TEXT NOT NULL,
    due_at_us INTEGER,
    waits_for TEXT,
    is_removed INTEGER NOT NULL,
    schedule BLOB NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;

CREATE INDEX schedule_due ON schedule (namespace, due_at_us, name, waits_for) WHERE due_at_us IS NOT NULL;

CREATE TABLE schedule_snapshot (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    schedule BLOB NOT NULL,
    PRIMARY KEY (namespace, name, sequence)
) WITHOUT ROWID;
