-- Single calls: what looks for work, and what makes one job.
-- Looking for work costs what is found, also where a plan was made while the store was empty: each lease, group and job
-- is looked up by its key (LATERAL with OFFSET 0), never by a join that might read all of one side for each of the other.

CREATE OR REPLACE FUNCTION jobledger.candidates(
    in_namespace text, in_queues text[], in_kinds text[], in_now bigint, in_limit bigint
) RETURNS TABLE (job_id text, claimable text) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    RETURN QUERY
    SELECT found.job_id, found.claimable FROM (
        SELECT d.job_id, 'when_ready'::text AS claimable, d.priority, d.ready_at_us, d.position
        FROM jobledger.due(in_namespace, in_queues, in_kinds, in_now, in_limit) AS d
        UNION ALL
        SELECT s.job_id, s.claimable, s.priority, s.ready_at_us, s.position
        FROM (SELECT DISTINCT unnest(in_queues)) AS q (queue)
        CROSS JOIN LATERAL (
            SELECT * FROM jobledger.job_status AS s
            WHERE s.namespace = in_namespace AND s.queue = q.queue AND s.claimable IN ('when_dead', 'when_fenced')
                AND (in_kinds IS NULL OR s.kind = ANY (in_kinds))
            OFFSET 0
        ) AS s
        CROSS JOIN LATERAL (SELECT * FROM jobledger.job_lease AS l WHERE l.job_id = s.job_id OFFSET 0) AS l
        LEFT JOIN LATERAL (
            SELECT g.epoch FROM jobledger.worker_group AS g
            WHERE g.namespace = l.namespace AND g.name = l.worker_group OFFSET 0
        ) AS g ON true
        WHERE l.epoch <> coalesce(g.epoch, 1) OR (l.expires_at_us <= in_now AND s.claimable = 'when_dead')
    ) AS found
    ORDER BY found.priority DESC, found.ready_at_us, found.position LIMIT in_limit;
END $$;

-- The same for a claim: only those that nobody else is writing, locked, and never more than asked for. The best are looked
-- at first; where others have taken all of them, a wider look follows. What changed since the look is passed over too.
CREATE OR REPLACE FUNCTION jobledger.free_candidates(
    in_namespace text, in_queues text[], in_kinds text[], in_now bigint, in_limit bigint
) RETURNS SETOF text LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    wide bigint := in_limit;
    seen text[];
    states text[];
    taken text[];
BEGIN
    LOOP
        SELECT array_agg(c.job_id ORDER BY c.place), array_agg(c.claimable ORDER BY c.place) INTO seen, states
        FROM jobledger.candidates(in_namespace, in_queues, in_kinds, in_now, wide) WITH ORDINALITY
            AS c (job_id, claimable, place);
        -- One after the other, in the order of the arrays: to sort them would lock those that are not asked for.
        taken := ARRAY(
            SELECT s.job_id FROM unnest(seen, states) AS c (job_id, claimable)
            CROSS JOIN LATERAL (
                SELECT s.job_id FROM jobledger.job_status AS s
                WHERE s.job_id = c.job_id AND s.claimable = c.claimable FOR NO KEY UPDATE SKIP LOCKED
            ) AS s
            LIMIT in_limit
        );
        EXIT WHEN cardinality(taken) = in_limit OR cardinality(seen) IS NULL OR cardinality(seen) < wide;
        wide := wide * 4;
    END LOOP;
    RETURN QUERY SELECT unnest(taken);
END $$;

CREATE OR REPLACE FUNCTION jobledger.dead_in(
    in_namespace text, in_queue text, in_kinds text[], in_now bigint, in_limit bigint
) RETURNS TABLE (job_id text, priority bigint, ready_at_us bigint, "position" bigint) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    RETURN QUERY
    SELECT s.job_id, s.priority, s.ready_at_us, s.position
    FROM jobledger.job_status AS s
    CROSS JOIN LATERAL (SELECT * FROM jobledger.job_lease AS l WHERE l.job_id = s.job_id OFFSET 0) AS l
    LEFT JOIN LATERAL (
        SELECT g.epoch FROM jobledger.worker_group AS g
        WHERE g.namespace = l.namespace AND g.name = l.worker_group OFFSET 0
    ) AS g ON true
    WHERE s.namespace = in_namespace AND s.queue = in_queue AND s.claimable IN ('when_dead', 'when_fenced')
        AND (in_kinds IS NULL OR s.kind = ANY (in_kinds))
        AND (l.epoch <> coalesce(g.epoch, 1) OR (l.expires_at_us <= in_now AND s.claimable = 'when_dead'))
    ORDER BY s.priority DESC, s.ready_at_us, s.position LIMIT in_limit;
END $$;

-- The append of one new job that most creates are: its first event, and nothing beside it. Whoever creates the same job
-- meanwhile lets this fail, and its caller begins anew.
CREATE FUNCTION jobledger.create_one(
    in_job text, in_namespace text, in_owner text, in_key text, in_kind text, in_queue text, in_priority bigint,
    in_state text, in_claimable text, in_ready bigint, in_held boolean, in_head text, in_status bytea,
    in_created bigint, in_topic text, in_event bytea, in_command text
) RETURNS text LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
DECLARE
    drawn bigint;
BEGIN
    IF EXISTS (SELECT 1 FROM jobledger.job_status AS s WHERE s.job_id = in_job) THEN
        RETURN 'sequence';
    END IF;
    IF EXISTS (
        SELECT 1 FROM jobledger.stored_events AS x WHERE x.originator_id = in_job AND x.originator_version = 1
    ) THEN
        RETURN 'records';
    END IF;
    drawn := (jobledger.draw(1))[1];
    INSERT INTO jobledger.job_status (
        job_id, position, namespace, queue, kind, priority, state, claimable, ready_at_us, is_held,
        sequence, head, updated_at_us, job
    ) VALUES (
        in_job, drawn, in_namespace, in_queue, in_kind, in_priority, in_state, in_claimable, in_ready, in_held,
        1, in_head, in_created, in_status
    );
    INSERT INTO jobledger.job (position, job_id, namespace, owner, key, kind, queue, priority, created_at_us)
    VALUES (drawn, in_job, in_namespace, in_owner, in_key, in_kind, in_queue, in_priority, in_created);
    INSERT INTO jobledger.stored_events
        (originator_id, originator_version, topic, state, command_id, notification_id)
    VALUES (in_job, 1, in_topic, in_event, in_command, drawn);
    RETURN NULL;
END $$;
