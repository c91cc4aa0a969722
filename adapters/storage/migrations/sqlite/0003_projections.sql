-- Projections that follow the feed, and the secrets of this store.

-- One row for each build of a projection; the live one is read, another one is under construction. Everything up to
-- its position is in its rows, and nothing behind it.
CREATE TABLE projection (
    name TEXT NOT NULL,
    build INTEGER NOT NULL,
    version INTEGER NOT NULL,
    is_live INTEGER NOT NULL,
    position INTEGER NOT NULL,
    runner TEXT NOT NULL,
    moved_at_us INTEGER NOT NULL,
    trouble BLOB,
    PRIMARY KEY (name, build)
) WITHOUT ROWID;

CREATE UNIQUE INDEX projection_live ON projection (name) WHERE is_live = 1;

CREATE TABLE projection_row (
    name TEXT NOT NULL,
    build INTEGER NOT NULL,
    key BLOB NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (name, build, key)
) WITHOUT ROWID;

-- Made once: what this store signs, no other store does.
CREATE TABLE store_secret (
    name TEXT PRIMARY KEY,
    secret BLOB NOT NULL
) WITHOUT ROWID;

INSERT INTO store_secret (name, secret) VALUES ('cursors', randomblob(32));
