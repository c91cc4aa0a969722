-- The first schema: the log of all events, and the rows that are kept in the same transaction.
-- Names are compared by their bytes ("C"), which is the order of their code points. Instants are whole microseconds.
-- The schema is called jobledger here; a store in another one has that name put in its place.

-- The log, which only grows: its pages are filled. It is vacuumed for its visibility map and its freezing alone, which
-- the number of inserted rows starts. Positions are drawn from a sequence by jobledger.draw(), never by a default.
CREATE TABLE jobledger.stored_events (
    originator_id text COLLATE "C" NOT NULL,
    originator_version bigint NOT NULL,
    topic text COLLATE "C" NOT NULL,
    state bytea NOT NULL,
    command_id text COLLATE "C",
    notification_id bigint NOT NULL,
    PRIMARY KEY (originator_id, originator_version)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE UNIQUE INDEX stored_events_position ON jobledger.stored_events (notification_id);

-- Led by the command alone: most ids grow with time, so that new entries go to the end of the index.
CREATE INDEX stored_events_command ON jobledger.stored_events (command_id) WHERE command_id IS NOT NULL;

CREATE SEQUENCE jobledger.position AS bigint;

-- How far each projection has read. The first row is the library's own mark that this table has one row for each.
CREATE TABLE jobledger.tracking (
    application_name text COLLATE "C" PRIMARY KEY,
    notification_id bigint NOT NULL
) WITH (fillfactor = 50);

INSERT INTO jobledger.tracking (application_name, notification_id) VALUES ('__migration__', 1);

-- What never changes of a job, with the indexes that lists and walks need: progress touches none of them.
CREATE TABLE jobledger.job (
    position bigint NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    key text COLLATE "C",
    kind text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    priority bigint NOT NULL,
    created_at_us bigint NOT NULL,
    PRIMARY KEY (job_id) INCLUDE (namespace)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX job_newest ON jobledger.job (namespace, position);
CREATE INDEX job_owner ON jobledger.job (namespace, owner, position);
CREATE INDEX job_kind ON jobledger.job (namespace, kind, position);
CREATE INDEX job_queue ON jobledger.job (namespace, queue, position);
CREATE INDEX job_key ON jobledger.job (namespace, key) WHERE key IS NOT NULL;

-- What changes with every event, and what a claim looks at. A third of each page stays free, so that reports find room
-- for the new row beside the old one and touch no index (HOT). Vacuumed early: dead rows are what slows claims down.
CREATE TABLE jobledger.job_status (
    job_id text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    priority bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    claimable text COLLATE "C" NOT NULL,
    ready_at_us bigint NOT NULL,
    is_held boolean NOT NULL,
    sequence bigint NOT NULL,
    head text COLLATE "C" NOT NULL,
    updated_at_us bigint NOT NULL,
    job bytea NOT NULL
) WITH (
    fillfactor = 67,
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0
);

-- Lists by state, and counts: entries change only when a job's state does.
CREATE INDEX job_status_state ON jobledger.job_status (namespace, state, position);
CREATE INDEX job_status_queued ON jobledger.job_status (namespace, queue) WHERE state = 'queued';
CREATE INDEX job_status_held ON jobledger.job_status (namespace, position) WHERE is_held;

-- Claims: what waits for its time, by lane (queue, kind, priority); and what runs and may be taken over one day.
CREATE INDEX job_status_waiting ON jobledger.job_status (namespace, queue, kind, priority, ready_at_us, position)
WHERE claimable = 'when_ready';
CREATE INDEX job_status_running ON jobledger.job_status (namespace, queue, kind)
WHERE claimable IN ('when_dead', 'when_fenced');

CREATE TABLE jobledger.job_label (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, name, value, position)
);

CREATE INDEX job_label_name ON jobledger.job_label (namespace, name, position);

-- Liveness: moved by every renewal, and therefore narrow, half empty, and without an index on the expiry.
CREATE TABLE jobledger.job_lease (
    job_id text COLLATE "C" PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    expires_at_us bigint NOT NULL,
    step bigint NOT NULL,
    worker_group text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE jobledger.worker_group (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    sequence bigint NOT NULL,
    head text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, name)
);

-- A receipt is a small value, or the digest (else empty) of bytes in job_body.
CREATE TABLE jobledger.job_unit (
    job_id text COLLATE "C" NOT NULL,
    unit text COLLATE "C" NOT NULL,
    receipt bytea NOT NULL,
    digest text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    sequence bigint NOT NULL,
    PRIMARY KEY (job_id, unit)
);

-- The same bytes may be kept twice: once as a checkpoint, which may be dropped, and once as something that may not.
CREATE TABLE jobledger.job_body (
    job_id text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    is_checkpoint boolean NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (job_id, digest, is_checkpoint)
);

CREATE TABLE jobledger.job_snapshot (
    job_id text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    job bytea NOT NULL,
    PRIMARY KEY (job_id, sequence)
);

CREATE TABLE jobledger.resource (
    namespace text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    version bigint NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    PRIMARY KEY (namespace, owner, name)
) WITH (fillfactor = 70);

CREATE TABLE jobledger.submission (
    namespace text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    submission text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, owner, submission)
);
