-- Projections that follow the feed, and the secrets of this store.

-- One row for each build of a projection; the live one is read, another one is under construction. Everything up to
-- its position is in its rows, and nothing behind it.
CREATE TABLE jobledger.projection (
    name text COLLATE "C" NOT NULL,
    build bigint NOT NULL,
    version bigint NOT NULL,
    is_live boolean NOT NULL,
    position bigint NOT NULL,
    runner text COLLATE "C" NOT NULL,
    moved_at_us bigint NOT NULL,
    trouble bytea,
    PRIMARY KEY (name, build)
) WITH (fillfactor = 50);

CREATE UNIQUE INDEX projection_live ON jobledger.projection (name) WHERE is_live;

-- Most rows of open jobs are put and dropped again: vacuumed early, as the status rows are.
CREATE TABLE jobledger.projection_row (
    name text COLLATE "C" NOT NULL,
    build bigint NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (name, build, key)
) WITH (fillfactor = 67, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- Made once, from the server's strong random numbers: what this store signs, no other store does.
CREATE TABLE jobledger.store_secret (
    name text COLLATE "C" PRIMARY KEY,
    secret bytea NOT NULL
);

INSERT INTO jobledger.store_secret (name, secret)
SELECT 'cursors', decode(replace(concat(gen_random_uuid(), gen_random_uuid()), '-', ''), 'hex');
