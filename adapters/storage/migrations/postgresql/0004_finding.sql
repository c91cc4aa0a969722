-- Finding work: what a claim may take now, at the price of what it finds; what waits or is taken costs nothing.

-- What waits in some queues and is due: each lane (queue, kind, priority) is entered by one step in its index, the most
-- urgent first, and only rows that are due are read there. At most `in_limit` of each queue and kind.
CREATE FUNCTION jobledger.due(in_namespace text, in_queues text[], in_kinds text[], in_now bigint, in_limit bigint)
RETURNS TABLE (job_id text, priority bigint, ready_at_us bigint, "position" bigint) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_sort = off
AS $$
DECLARE
    lane_queue text;
    lane_kind text;
    lane_priority bigint;
    place integer;
    missing bigint;
    found_now bigint;
BEGIN
    FOR lane_queue IN SELECT DISTINCT unnest(in_queues) LOOP
        place := 0;
        lane_kind := '';
        LOOP
            IF in_kinds IS NULL THEN
                SELECT min(s.kind) INTO lane_kind FROM jobledger.job_status AS s
                WHERE s.namespace = in_namespace AND s.queue = lane_queue AND s.claimable = 'when_ready'
                    AND s.kind > lane_kind;
            ELSE
                place := place + 1;
                lane_kind := in_kinds[place];
            END IF;
            EXIT WHEN lane_kind IS NULL;
            CONTINUE WHEN in_kinds IS NOT NULL AND lane_kind = ANY (in_kinds[1:place - 1]);
            missing := in_limit;
            lane_priority := 9223372036854775807;
            WHILE missing > 0 LOOP
                SELECT max(s.priority) INTO lane_priority FROM jobledger.job_status AS s
                WHERE s.namespace = in_namespace AND s.queue = lane_queue AND s.kind = lane_kind
                    AND s.claimable = 'when_ready' AND s.priority < lane_priority;
                EXIT WHEN lane_priority IS NULL;
                RETURN QUERY
                SELECT s.job_id, s.priority, s.ready_at_us, s.position FROM jobledger.job_status AS s
                WHERE s.namespace = in_namespace AND s.queue = lane_queue AND s.kind = lane_kind
                    AND s.claimable = 'when_ready' AND s.priority = lane_priority AND s.ready_at_us <= in_now
                ORDER BY s.ready_at_us, s.position LIMIT missing;
                GET DIAGNOSTICS found_now = ROW_COUNT;
                missing := missing - found_now;
            END LOOP;
        END LOOP;
    END LOOP;
END $$;

-- Larger priority first, then earlier due, then earlier created; of what runs, its lease says whether it may be taken.
CREATE FUNCTION jobledger.candidates(
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
        JOIN jobledger.job_status AS s
            ON s.namespace = in_namespace AND s.queue = q.queue AND s.claimable IN ('when_dead', 'when_fenced')
        JOIN jobledger.job_lease AS l ON l.job_id = s.job_id
        LEFT JOIN jobledger.worker_group AS g ON g.namespace = l.namespace AND g.name = l.worker_group
        WHERE (in_kinds IS NULL OR s.kind = ANY (in_kinds))
            AND (l.epoch <> coalesce(g.epoch, 1) OR (l.expires_at_us <= in_now AND s.claimable = 'when_dead'))
    ) AS found
    ORDER BY found.priority DESC, found.ready_at_us, found.position LIMIT in_limit;
END $$;

-- The same for a claim: only those that nobody else is writing, locked, and never more than asked for. The best are looked
-- at first; where others have taken all of them, a wider look follows. What changed since the look is passed over too.
CREATE FUNCTION jobledger.free_candidates(
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
        taken := ARRAY(
            SELECT s.job_id FROM unnest(seen, states) WITH ORDINALITY AS c (job_id, claimable, place)
            JOIN jobledger.job_status AS s ON s.job_id = c.job_id AND s.claimable = c.claimable
            ORDER BY c.place LIMIT in_limit FOR NO KEY UPDATE OF s SKIP LOCKED
        );
        EXIT WHEN cardinality(taken) = in_limit OR cardinality(seen) IS NULL OR cardinality(seen) < wide;
        wide := wide * 4;
    END LOOP;
    RETURN QUERY SELECT unnest(taken);
END $$;
