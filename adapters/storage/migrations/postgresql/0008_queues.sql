-- Queues: a row for each that was ever limited or held, and what the claims of limited ones remember.

-- The name is empty where the row is of the whole namespace. share_by is what divides the queue, if anything does. The
-- row is the lock under which claims of a limited queue take turns; what each of them changes stands beside it.
CREATE TABLE jobledger.queue (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    head text COLLATE "C" NOT NULL,
    share_by text COLLATE "C",
    queue bytea NOT NULL,
    PRIMARY KEY (namespace, name)
);

CREATE TABLE jobledger.queue_usage (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    usage bytea NOT NULL,
    PRIMARY KEY (namespace, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);

-- A job that waits in a divided queue and was assigned to its share is claimable 'when_shared', and so has an entry here
-- instead of in job_status_waiting; jobs of other queues have no share and no entry.
ALTER TABLE jobledger.job_status ADD COLUMN share text COLLATE "C";

CREATE INDEX job_status_shared
ON jobledger.job_status (namespace, queue, share, kind, priority, ready_at_us, position)
WHERE claimable = 'when_shared';

-- What runs in a queue is counted, also what no claim may take over.
CREATE INDEX job_status_busy ON jobledger.job_status (namespace, queue) WHERE state = 'running';

-- What a claim has to respect, and its worker group, in one call. The queues' names are locked first, beside other
-- claims and against whoever limits or holds them, and the rows then read by a snapshot of its own.
CREATE FUNCTION jobledger.queue_rules(in_namespace text, in_group text, in_queues text[]) RETURNS TABLE (
    epoch bigint, group_sequence bigint, group_head text, name text, sequence bigint, head text, queue bytea
) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared('jobledger.position'::regclass::oid::integer, l.lock)
    FROM (
        SELECT DISTINCT jobledger.name_lock('rules', in_namespace, q.name) AS lock
        FROM unnest(in_queues) AS q (name) ORDER BY 1
    ) AS l;
    RETURN QUERY
    SELECT g.epoch, g.sequence, g.head, q.name, q.sequence, q.head, q.queue
    FROM (VALUES (1)) AS always
    LEFT JOIN jobledger.worker_group AS g ON g.namespace = in_namespace AND g.name = in_group
    LEFT JOIN jobledger.queue AS q ON q.namespace = in_namespace AND q.name = ANY (in_queues);
END $$;

-- The turn of a claim in a limited queue, until its transaction ends; answers what the claim before it left behind.
CREATE FUNCTION jobledger.queue_turn(in_namespace text, in_queue text) RETURNS bytea LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM jobledger.queue AS q WHERE q.namespace = in_namespace AND q.name = in_queue FOR NO KEY UPDATE;
    RETURN (SELECT u.usage FROM jobledger.queue_usage AS u WHERE u.namespace = in_namespace AND u.name = in_queue);
END $$;

-- The share of a job, by what divides its queue: 'owner', 'kind', or the name of a label behind 'label:'.
CREATE FUNCTION jobledger.share_of(in_job text, in_kind text, in_namespace text, in_position bigint, in_share_by text)
RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE in_share_by
        WHEN '' THEN '' WHEN 'kind' THEN in_kind
        WHEN 'owner' THEN (SELECT j.owner FROM jobledger.job AS j WHERE j.job_id = in_job)
        ELSE coalesce((
            SELECT b.value FROM jobledger.job_label AS b
            WHERE b.namespace = in_namespace AND b.name = substr(in_share_by, 7) AND b.position = in_position
        ), '')
    END
$$;

-- Assigns what waits in a divided queue to its shares; what others are writing is assigned another time.
CREATE FUNCTION jobledger.share_out(in_namespace text, in_queue text, in_share_by text, in_limit bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    UPDATE jobledger.job_status AS s SET claimable = 'when_shared', share = found.share
    FROM (
        SELECT w.job_id, jobledger.share_of(w.job_id, w.kind, w.namespace, w.position, in_share_by) AS share
        FROM jobledger.job_status AS w
        WHERE w.namespace = in_namespace AND w.queue = in_queue AND w.claimable = 'when_ready'
        LIMIT in_limit FOR NO KEY UPDATE SKIP LOCKED
    ) AS found
    WHERE s.job_id = found.job_id;
END $$;

-- The reverse, of all of them: whoever writes one of them is waited for.
CREATE FUNCTION jobledger.end_shares(in_namespace text, in_queue text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM jobledger.job_status AS s
    WHERE s.namespace = in_namespace AND s.queue = in_queue AND s.claimable = 'when_shared'
    ORDER BY s.job_id FOR NO KEY UPDATE;
    UPDATE jobledger.job_status AS s SET claimable = 'when_ready', share = NULL
    WHERE s.namespace = in_namespace AND s.queue = in_queue AND s.claimable = 'when_shared';
END $$;

-- What waits in a queue and is due, lane by lane (kind, priority), the most urgent first: at most in_limit of each kind, or
-- of each priority. Each lane is entered by one step in job_status_waiting, and only rows that are due are read there.
CREATE FUNCTION jobledger.waiting_in(
    in_namespace text, in_queue text, in_kinds text[], in_now bigint, in_limit bigint, in_every_priority boolean
) RETURNS TABLE (job_id text, priority bigint, ready_at_us bigint, "position" bigint) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_sort = off
AS $$
DECLARE
    lane_kind text := '';
    lane_priority bigint;
    missing bigint;
    found_now bigint;
BEGIN
    LOOP
        SELECT min(s.kind) INTO lane_kind FROM jobledger.job_status AS s
        WHERE s.namespace = in_namespace AND s.queue = in_queue AND s.claimable = 'when_ready' AND s.kind > lane_kind;
        EXIT WHEN lane_kind IS NULL;
        CONTINUE WHEN in_kinds IS NOT NULL AND NOT lane_kind = ANY (in_kinds);
        missing := in_limit;
        lane_priority := 9223372036854775807;
        WHILE missing > 0 LOOP
            SELECT max(s.priority) INTO lane_priority FROM jobledger.job_status AS s
            WHERE s.namespace = in_namespace AND s.queue = in_queue AND s.kind = lane_kind
                AND s.claimable = 'when_ready' AND s.priority < lane_priority;
            EXIT WHEN lane_priority IS NULL;
            RETURN QUERY
            SELECT s.job_id, s.priority, s.ready_at_us, s.position FROM jobledger.job_status AS s
            WHERE s.namespace = in_namespace AND s.queue = in_queue AND s.kind = lane_kind
                AND s.claimable = 'when_ready' AND s.priority = lane_priority AND s.ready_at_us <= in_now
            ORDER BY s.ready_at_us, s.position LIMIT missing;
            GET DIAGNOSTICS found_now = ROW_COUNT;
            missing := CASE WHEN in_every_priority THEN in_limit ELSE missing - found_now END;
        END LOOP;
    END LOOP;
END $$;

-- The same for a divided queue, share by share from behind one and once around, in job_status_shared; shares that are
-- full are stepped over, and no further ones entered once in_limit of them had something.
CREATE FUNCTION jobledger.shared_in(
    in_namespace text, in_queue text, in_kinds text[], in_now bigint, in_limit bigint, in_every_priority boolean,
    in_after text, in_full text[]
) RETURNS TABLE (job_id text, priority bigint, ready_at_us bigint, "position" bigint, share text)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_sort = off
AS $$
DECLARE
    lane_share text := in_after;
    is_around boolean := false;
    shares bigint := 0;
    lane_kind text;
    lane_priority bigint;
    missing bigint;
    found_now bigint;
    is_empty boolean;
BEGIN
    WHILE shares < in_limit LOOP
        SELECT min(s.share) INTO lane_share FROM jobledger.job_status AS s
        WHERE s.namespace = in_namespace AND s.queue = in_queue AND s.claimable = 'when_shared' AND s.share > lane_share;
        IF lane_share IS NULL AND NOT is_around THEN
            is_around := true;
            SELECT min(s.share) INTO lane_share FROM jobledger.job_status AS s
            WHERE s.namespace = in_namespace AND s.queue = in_queue AND s.claimable = 'when_shared';
        END IF;
        EXIT WHEN lane_share IS NULL OR (is_around AND lane_share > in_after);
        CONTINUE WHEN lane_share = ANY (in_full);
        is_empty := true;
        lane_kind := '';
        LOOP
            SELECT min(s.kind) INTO lane_kind FROM jobledger.job_status AS s
            WHERE s.namespace = in_namespace AND s.queue = in_queue AND s.share = lane_share
                AND s.claimable = 'when_shared' AND s.kind > lane_kind;
            EXIT WHEN lane_kind IS NULL;
            CONTINUE WHEN in_kinds IS NOT NULL AND NOT lane_kind = ANY (in_kinds);
            missing := in_limit;
            lane_priority := 9223372036854775807;
            WHILE missing > 0 LOOP
                SELECT max(s.priority) INTO lane_priority FROM jobledger.job_status AS s
                WHERE s.namespace = in_namespace AND s.queue = in_queue AND s.share = lane_share
                    AND s.kind = lane_kind AND s.claimable = 'when_shared' AND s.priority < lane_priority;
                EXIT WHEN lane_priority IS NULL;
                RETURN QUERY
                SELECT s.job_id, s.priority, s.ready_at_us, s.position, s.share FROM jobledger.job_status AS s
                WHERE s.namespace = in_namespace AND s.queue = in_queue AND s.share = lane_share
                    AND s.kind = lane_kind AND s.claimable = 'when_shared' AND s.priority = lane_priority
                    AND s.ready_at_us <= in_now
                ORDER BY s.ready_at_us, s.position LIMIT missing;
                GET DIAGNOSTICS found_now = ROW_COUNT;
                is_empty := is_empty AND found_now = 0;
                missing := CASE WHEN in_every_priority THEN in_limit ELSE missing - found_now END;
            END LOOP;
        END LOOP;
        IF NOT is_empty THEN
            shares := shares + 1;
        END IF;
    END LOOP;
END $$;

-- What runs in a queue on a lease that is not live, and may be taken over.
CREATE FUNCTION jobledger.dead_in(
    in_namespace text, in_queue text, in_kinds text[], in_now bigint, in_limit bigint
) RETURNS TABLE (job_id text, priority bigint, ready_at_us bigint, "position" bigint) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    RETURN QUERY
    SELECT s.job_id, s.priority, s.ready_at_us, s.position
    FROM jobledger.job_status AS s
    JOIN jobledger.job_lease AS l ON l.job_id = s.job_id
    LEFT JOIN jobledger.worker_group AS g ON g.namespace = l.namespace AND g.name = l.worker_group
    WHERE s.namespace = in_namespace AND s.queue = in_queue AND s.claimable IN ('when_dead', 'when_fenced')
        AND (in_kinds IS NULL OR s.kind = ANY (in_kinds))
        AND (l.epoch <> coalesce(g.epoch, 1) OR (l.expires_at_us <= in_now AND s.claimable = 'when_dead'))
    ORDER BY s.priority DESC, s.ready_at_us, s.position LIMIT in_limit;
END $$;
