-- The first schema: the log of all events, and the rows that are kept in the same transaction.
-- Names are compared by their UTF-8 bytes (BINARY), which is the order of their code points. Instants are microseconds.

-- The log. AUTOINCREMENT: a position is never given twice, also after rows were archived.
CREATE TABLE stored_events (
    rowid INTEGER PRIMARY KEY AUTOINCREMENT,
    originator_id TEXT NOT NULL,
    originator_version INTEGER NOT NULL,
    topic TEXT NOT NULL,
    state BLOB NOT NULL,
    command_id TEXT,
    UNIQUE (originator_id, originator_version)
);

CREATE INDEX stored_events_command ON stored_events (originator_id, command_id) WHERE command_id IS NOT NULL;

-- How far each projection has read. The first row is the library's own mark that this table has one row for each.
CREATE TABLE IF NOT EXISTS tracking (
    application_name TEXT,
    notification_id INTEGER,
    PRIMARY KEY (application_name)
) WITHOUT ROWID;

INSERT OR IGNORE INTO tracking (application_name, notification_id) VALUES ('__migration__', 1);

-- One row for each job. Its rowid is the position of its Created event, so that every index below ends in that order.
CREATE TABLE job_status (
    position INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL UNIQUE,
    namespace TEXT NOT NULL,
    owner TEXT NOT NULL,
    key TEXT,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    state TEXT NOT NULL,
    claimable TEXT NOT NULL,
    ready_at_us INTEGER NOT NULL,
    is_held INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    head TEXT NOT NULL,
    created_at_us INTEGER NOT NULL,
    updated_at_us INTEGER NOT NULL,
    job BLOB NOT NULL
);

-- Walks and lists. None of these columns ever changes, so a job's progress does not touch them.
CREATE INDEX job_status_walk ON job_status (namespace, job_id);
CREATE INDEX job_status_newest ON job_status (namespace);
CREATE INDEX job_status_owner ON job_status (namespace, owner);
CREATE INDEX job_status_kind ON job_status (namespace, kind);
CREATE INDEX job_status_queue ON job_status (namespace, queue);
CREATE INDEX job_status_key ON job_status (namespace, key) WHERE key IS NOT NULL;

-- Lists by state, and counts: these change only when a job's state does.
CREATE INDEX job_status_state ON job_status (namespace, state);
CREATE INDEX job_status_owner_state ON job_status (namespace, owner, state);
CREATE INDEX job_status_queue_state ON job_status (namespace, queue, state);
CREATE INDEX job_status_held ON job_status (namespace) WHERE is_held = 1;

-- Claims: what waits for its time, by lane (queue, kind, priority); and what runs and may be taken over one day.
CREATE INDEX job_status_waiting ON job_status (namespace, queue, kind, priority, ready_at_us)
WHERE claimable = 'when_ready';
CREATE INDEX job_status_running ON job_status (namespace, queue, kind, claimable, job_id, priority, ready_at_us)
WHERE claimable IN ('when_dead', 'when_fenced');

CREATE TABLE job_label (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (namespace, name, value, position)
) WITHOUT ROWID;

CREATE INDEX job_label_name ON job_label (namespace, name, position);

-- Liveness: moved by every renewal, and therefore narrow and without an index on the expiry.
CREATE TABLE job_lease (
    namespace TEXT NOT NULL,
    job_id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    expires_at_us INTEGER NOT NULL,
    step INTEGER NOT NULL,
    worker_group TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    PRIMARY KEY (namespace, job_id)
) WITHOUT ROWID;

CREATE TABLE worker_group (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    head TEXT NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;

-- A receipt is a small value, or the digest (else empty) of bytes in job_body.
CREATE TABLE job_unit (
    job_id TEXT NOT NULL,
    unit TEXT NOT NULL,
    receipt BLOB NOT NULL,
    digest TEXT NOT NULL,
    generation INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (job_id, unit)
);

-- The same bytes may be kept twice: once as a checkpoint, which may be dropped, and once as something that may not.
CREATE TABLE job_body (
    job_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    is_checkpoint INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (job_id, digest, is_checkpoint)
);

CREATE TABLE job_snapshot (
    job_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    job BLOB NOT NULL,
    PRIMARY KEY (job_id, sequence)
);

CREATE TABLE resource (
    namespace TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    version INTEGER NOT NULL,
    job_id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (namespace, owner, name)
);

CREATE TABLE submission (
    namespace TEXT NOT NULL,
    owner TEXT NOT NULL,
    submission TEXT NOT NULL,
    job_id TEXT NOT NULL,
    PRIMARY KEY (namespace, owner, submission)
) WITHOUT ROWID;
