-- Functions: the clock, positions in the log, what a claim may take, and an append with its preconditions.
-- None holds a rule of the job: they compare what an append expects with what stands, and write what it says.

-- The clock, which tests replace. clock_timestamp() goes on while a transaction waits for a lock; now() would not.
CREATE FUNCTION jobledger.jobledger_now() RETURNS timestamptz LANGUAGE sql VOLATILE
AS 'SELECT pg_catalog.clock_timestamp()';

CREATE FUNCTION jobledger.now_us() RETURNS bigint LANGUAGE sql VOLATILE
AS 'SELECT (extract(epoch FROM jobledger.jobledger_now()) * 1000000)::bigint';

-- Positions ------------------------------------------------------------------------------------------------------------

-- A position becomes visible when its transaction commits, which is not the order in which positions are drawn. So every
-- append first publishes, as a shared lock, the last position drawn before its own; a reader goes no further than the
-- lowest such mark. The server takes the mark away at the end of the transaction, however it ends. The high bits tell
-- this log's marks from those of other schemas.
CREATE FUNCTION jobledger.mark(last bigint) RETURNS bigint LANGUAGE sql STABLE
AS 'SELECT ((''jobledger.position''::regclass::oid::bigint % 32749 + 1) << 48) | $1';

-- The positions of one append are drawn without a gap, as the eventsourcing library wants them: a lock that is held for
-- these few statements, and no longer, keeps two appends from drawing alternately. Each of its session's statements
-- ends with it released, so that it is safe behind a pooler.
CREATE FUNCTION jobledger.draw(wanted integer) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    log_id integer := 'jobledger.position'::regclass::oid::integer;
    drawn bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock_shared(
        jobledger.mark(coalesce(pg_sequence_last_value('jobledger.position'::regclass), 0))
    );
    IF wanted = 1 THEN
        RETURN ARRAY[nextval('jobledger.position'::regclass)];
    END IF;
    BEGIN
        PERFORM pg_advisory_lock(log_id, 0);
        drawn := ARRAY(SELECT nextval('jobledger.position'::regclass) FROM generate_series(1, wanted));
        PERFORM pg_advisory_unlock(log_id, 0);
    EXCEPTION WHEN query_canceled OR OTHERS THEN
        PERFORM pg_advisory_unlock(log_id, 0);
        RAISE;
    END;
    RETURN drawn;
END $$;

-- The position up to which nothing further will appear. The sequence is read before the marks, and the rows have to be
-- read by a later snapshot than both: whoever drew a lower position had published its mark before, and either still
-- shows it, or has committed or rolled back. A transaction sees its own rows, whatever its mark.
CREATE FUNCTION jobledger.horizon() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    log_tag bigint := jobledger.mark(0) >> 48;
    last bigint;
    lowest bigint;
BEGIN
    last := coalesce(pg_sequence_last_value('jobledger.position'::regclass), 0);
    SELECT min(((l.classid::bigint & 65535) << 32) | l.objid::bigint) INTO lowest
    FROM pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND (l.classid::bigint >> 16) = log_tag
        AND l.pid <> pg_backend_pid()
        AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database());
    RETURN least(last, lowest);
END $$;

-- What the library's recorders write: events and nothing else.
CREATE FUNCTION jobledger.insert_events(
    in_id text[], in_version bigint[], in_topic text[], in_state bytea[], in_command text[]
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    drawn bigint[] := jobledger.draw(cardinality(in_id));
BEGIN
    INSERT INTO jobledger.stored_events
        (originator_id, originator_version, topic, state, command_id, notification_id)
    SELECT e.id, e.version, e.topic, e.state, e.command, drawn[e.place]
    FROM unnest(in_id, in_version, in_topic, in_state, in_command) WITH ORDINALITY
        AS e (id, version, topic, state, command, place);
    RETURN drawn;
END $$;

-- A kept state as JSON, for finding rows that it does not account for; NULL where somebody made something else of it.
CREATE FUNCTION jobledger.state_of(job bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN convert_from(job, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;

-- Loading under locks --------------------------------------------------------------------------------------------------

-- Locks jobs in the order of their ids, then reads the clock, and then the rows: each by a snapshot of its own, so that
-- what was written while this waited is seen. There is always a first row, for the clock.
CREATE FUNCTION jobledger.load(in_job text[]) RETURNS TABLE (
    now_us bigint, "position" bigint, job_id text, sequence bigint, head text, job bytea,
    generation bigint, expires_at_us bigint, step bigint, epoch bigint
) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    clock bigint;
BEGIN
    PERFORM 1 FROM jobledger.job_status AS s WHERE s.job_id = ANY (in_job) ORDER BY s.job_id FOR NO KEY UPDATE;
    clock := jobledger.now_us();
    RETURN QUERY
    SELECT clock, s.position, s.job_id, s.sequence, s.head, s.job, l.generation, l.expires_at_us, l.step,
        CASE WHEN l.generation IS NULL THEN 0 ELSE coalesce(g.epoch, 1) END
    FROM (VALUES (1)) AS always
    LEFT JOIN jobledger.job_status AS s ON s.job_id = ANY (in_job)
    LEFT JOIN jobledger.job_lease AS l ON l.job_id = s.job_id
    LEFT JOIN jobledger.worker_group AS g ON g.namespace = l.namespace AND g.name = l.worker_group;
END $$;

-- A lock on a name that has no row of its own, until the end of the transaction: on a group's epoch, on a queue's depth.
CREATE FUNCTION jobledger.name_lock(what text, namespace text, name text) RETURNS integer LANGUAGE sql IMMUTABLE
AS 'SELECT hashtext(concat_ws(chr(31), $1, $2, $3))';
