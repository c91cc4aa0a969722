-- Schedules: one row for each, written in the same transaction as its events and the jobs that it makes.

-- due_at_us is when the next instant has to be settled; NULL: never, or not while it is held. waits_for is the job that
-- has to end first, where the schedule says that its occurrences wait for each other.
CREATE TABLE jobledger.schedule (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    head text COLLATE "C" NOT NULL,
    due_at_us bigint,
    waits_for text COLLATE "C",
    is_removed boolean NOT NULL,
    schedule bytea NOT NULL,
    PRIMARY KEY (namespace, name)
) WITH (fillfactor = 50);

CREATE INDEX schedule_due ON jobledger.schedule (namespace, due_at_us, name) WHERE due_at_us IS NOT NULL;

CREATE TABLE jobledger.schedule_snapshot (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    schedule bytea NOT NULL,
    PRIMARY KEY (namespace, name, sequence)
);
