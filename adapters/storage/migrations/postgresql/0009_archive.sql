-- Archiving: what is kept of events that were taken out of the log, and the one function that takes them out.

-- Of each such event its place and its digest (32 bytes), so that the tree over the log can still be made; behind is the
-- place of the event that stands for it.
CREATE TABLE jobledger.archived_event (
    position bigint PRIMARY KEY,
    behind bigint NOT NULL,
    digest bytea NOT NULL
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX archived_event_behind ON jobledger.archived_event (behind, position);

-- Ended jobs that are not kept for ever, by the instant at which their time is over: it stands in ready_at_us.
CREATE INDEX job_status_finished ON jobledger.job_status (namespace, ready_at_us, job_id)
WHERE claimable = 'finished';

-- Jobs that had ended before there was archiving; their policy's span stands in ISO 8601, with years of 365 days.
UPDATE jobledger.job_status AS s SET
    claimable = 'finished',
    ready_at_us = s.updated_at_us
        + (coalesce(p.span[1], '0')::bigint * 365 + coalesce(p.span[2], '0')::bigint) * 86400000000
        + coalesce(p.span[3], '0')::bigint * 3600000000 + coalesce(p.span[4], '0')::bigint * 60000000
        + (coalesce(p.span[5], '0')::numeric * 1000000)::bigint
FROM (
    SELECT t.job_id, regexp_match(
        jobledger.state_of(t.job) #>> ARRAY['policy_changes', 'keep_finished'],
        '^P(?:([0-9]+)Y)?(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9.]+)S)?)?$'
    ) AS span
    FROM jobledger.job_status AS t WHERE t.state IN ('complete', 'partial', 'failed', 'unavailable', 'cancelled')
) AS p
WHERE p.job_id = s.job_id AND p.span IS NOT NULL;

-- Lets one event of each job stand for all before it, where nothing was added meanwhile; answers for each whether it
-- does. It runs with the owner's rights, so that whoever may call it needs no right to delete or to change a row: it
-- takes out nothing but whole histories of jobs that have ended, and keeps the digest of each event.
CREATE FUNCTION jobledger.archive(
    in_job text[], in_sequence bigint[], in_topic text[], in_state bytea[], in_claimable text[], in_ready bigint[],
    in_head text[], in_updated bigint[], in_status bytea[],
    in_leaf_item bigint[], in_leaf_position bigint[], in_leaf_digest bytea[], in_kept_item bigint[], in_kept text[]
) RETURNS boolean[] LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    is_fine boolean[];
    drawn bigint[];
    behind bigint[];
    taken bigint;
    expected bigint;
BEGIN
    PERFORM 1 FROM jobledger.job_status AS s WHERE s.job_id = ANY (in_job) ORDER BY s.job_id FOR UPDATE;
    SELECT array_agg(coalesce(
        s.sequence = a.sequence - 1 AND a.topic = 'job.archived'
        AND s.state IN ('complete', 'partial', 'failed', 'unavailable', 'cancelled'), false
    ) ORDER BY a.place) INTO is_fine
    FROM unnest(in_job, in_sequence, in_topic) WITH ORDINALITY AS a (job, sequence, topic, place)
    LEFT JOIN jobledger.job_status AS s ON s.job_id = a.job;
    IF NOT (true = ANY (is_fine)) THEN
        RETURN is_fine;
    END IF;

    drawn := jobledger.draw((SELECT count(*)::integer FROM unnest(is_fine) AS f (is_so) WHERE f.is_so));
    behind := ARRAY(
        SELECT CASE WHEN f.is_so THEN drawn[count(*) FILTER (WHERE f.is_so) OVER (ORDER BY f.place)] ELSE 0 END
        FROM unnest(is_fine) WITH ORDINALITY AS f (is_so, place) ORDER BY f.place
    );

    INSERT INTO jobledger.archived_event (position, behind, digest)
    SELECT e.position, behind[e.item], e.digest
    FROM unnest(in_leaf_item, in_leaf_position, in_leaf_digest) AS e (item, position, digest) WHERE is_fine[e.item];
    GET DIAGNOSTICS expected = ROW_COUNT;

    DELETE FROM jobledger.stored_events AS e
    USING unnest(in_job, in_sequence) WITH ORDINALITY AS a (job, sequence, place)
    WHERE e.originator_id = a.job AND e.originator_version < a.sequence AND is_fine[a.place];
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF taken <> expected THEN
        RAISE EXCEPTION 'of % events % were to be archived', taken, expected USING ERRCODE = 'data_corrupted';
    END IF;

    DELETE FROM jobledger.job_unit AS u USING unnest(in_job) WITH ORDINALITY AS a (job, place)
    WHERE u.job_id = a.job AND is_fine[a.place];
    DELETE FROM jobledger.job_snapshot AS k USING unnest(in_job) WITH ORDINALITY AS a (job, place)
    WHERE k.job_id = a.job AND is_fine[a.place];
    DELETE FROM jobledger.job_body AS b USING unnest(in_job) WITH ORDINALITY AS a (job, place)
    WHERE b.job_id = a.job AND is_fine[a.place] AND NOT EXISTS (
        SELECT 1 FROM unnest(in_kept_item, in_kept) AS k (item, digest)
        WHERE k.item = a.place AND k.digest = b.digest
    );

    INSERT INTO jobledger.stored_events (originator_id, originator_version, topic, state, notification_id)
    SELECT a.job, a.sequence, a.topic, a.state, behind[a.place]
    FROM unnest(in_job, in_sequence, in_topic, in_state) WITH ORDINALITY AS a (job, sequence, topic, state, place)
    WHERE is_fine[a.place];

    UPDATE jobledger.job_status AS s SET
        claimable = a.claimable, ready_at_us = a.ready, sequence = a.sequence, head = a.head,
        updated_at_us = a.updated, job = a.status
    FROM unnest(in_job, in_sequence, in_claimable, in_ready, in_head, in_updated, in_status) WITH ORDINALITY
        AS a (job, sequence, claimable, ready, head, updated, status, place)
    WHERE s.job_id = a.job AND is_fine[a.place];
    RETURN is_fine;
END $$;

REVOKE ALL ON FUNCTION jobledger.archive(
    text[], bigint[], text[], bytea[], text[], bigint[], text[], bigint[], bytea[], bigint[], bigint[], bytea[],
    bigint[], text[]
) FROM PUBLIC;
