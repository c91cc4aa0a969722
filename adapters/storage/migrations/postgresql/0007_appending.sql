-- The same append and the same load, at a fraction of their price; what a call has nothing of may be left out of it.
-- No plan may hang on how many rows a table had when it was made: rows are found by a join that can only be a look-up of
-- each (LATERAL with OFFSET 0), and changed by an upsert, which looks each up by its key.

-- Locks jobs in the order of their ids, then reads the clock, and then the rows: each by a snapshot of its own, so that
-- what was written while this waited is seen. There is always a first row, for the clock.
CREATE OR REPLACE FUNCTION jobledger.load(in_job text[]) RETURNS TABLE (
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
    LEFT JOIN LATERAL (SELECT * FROM jobledger.job_lease AS l WHERE l.job_id = s.job_id OFFSET 0) AS l ON true
    LEFT JOIN LATERAL (
        SELECT g.epoch FROM jobledger.worker_group AS g
        WHERE g.namespace = l.namespace AND g.name = l.worker_group OFFSET 0
    ) AS g ON true;
END $$;

-- The append: many items in one call, each with its preconditions, each answered for itself.
-- Arrays beside each other make one table: the items; then for each item any number of events, epochs, effects, bodies,
-- dropped checkpoints, kept states, labels and inherited receipts, which name their item by its place. `first` is the
-- place of an item's first event among all events: a join would cost the square of the number of items. A caller never
-- puts two items into one call that touch the same job, resource or submission.
-- There is no subtransaction: with one, each row that was locked before would need a MultiXact to be changed. Where
-- somebody else creates the same job, submission or resource meanwhile, the call fails and the caller begins anew.
CREATE OR REPLACE FUNCTION jobledger.append(
    in_is_locked boolean,
    in_job text[], in_namespace text[], in_owner text[],
    in_guard bigint[], in_live bigint[], in_seen bigint[], in_step bigint[],
    in_key text[] DEFAULT NULL, in_kind text[] DEFAULT NULL, in_queue text[] DEFAULT NULL,
    in_priority bigint[] DEFAULT NULL, in_created bigint[] DEFAULT NULL, in_submission text[] DEFAULT NULL,
    in_first bigint[] DEFAULT NULL,
    in_state text[] DEFAULT NULL, in_claimable text[] DEFAULT NULL, in_ready bigint[] DEFAULT NULL,
    in_held boolean[] DEFAULT NULL, in_sequence bigint[] DEFAULT NULL, in_head text[] DEFAULT NULL,
    in_updated bigint[] DEFAULT NULL, in_status bytea[] DEFAULT NULL,
    in_lease_generation bigint[] DEFAULT NULL, in_lease_expiry bigint[] DEFAULT NULL,
    in_lease_step bigint[] DEFAULT NULL, in_lease_group text[] DEFAULT NULL, in_lease_epoch bigint[] DEFAULT NULL,
    in_event_item bigint[] DEFAULT NULL, in_event_job text[] DEFAULT NULL, in_event_version bigint[] DEFAULT NULL,
    in_event_topic text[] DEFAULT NULL, in_event_state bytea[] DEFAULT NULL, in_event_command text[] DEFAULT NULL,
    in_epoch_item bigint[] DEFAULT NULL, in_epoch_namespace text[] DEFAULT NULL, in_epoch_group text[] DEFAULT NULL,
    in_epoch bigint[] DEFAULT NULL,
    in_unit_item bigint[] DEFAULT NULL, in_unit_job text[] DEFAULT NULL, in_unit text[] DEFAULT NULL,
    in_unit_receipt bytea[] DEFAULT NULL, in_unit_digest text[] DEFAULT NULL,
    in_unit_generation bigint[] DEFAULT NULL, in_unit_sequence bigint[] DEFAULT NULL,
    in_effect_item bigint[] DEFAULT NULL, in_effect_namespace text[] DEFAULT NULL,
    in_effect_owner text[] DEFAULT NULL, in_effect_name text[] DEFAULT NULL, in_effect_expected bigint[] DEFAULT NULL,
    in_effect_value bytea[] DEFAULT NULL, in_effect_job text[] DEFAULT NULL,
    in_effect_generation bigint[] DEFAULT NULL,
    in_body_item bigint[] DEFAULT NULL, in_body_job text[] DEFAULT NULL, in_body_digest text[] DEFAULT NULL,
    in_body_is_checkpoint boolean[] DEFAULT NULL, in_body_bytes bytea[] DEFAULT NULL,
    in_dropped_item bigint[] DEFAULT NULL, in_dropped_job text[] DEFAULT NULL, in_dropped text[] DEFAULT NULL,
    in_kept_item bigint[] DEFAULT NULL, in_kept_job text[] DEFAULT NULL, in_kept_sequence bigint[] DEFAULT NULL,
    in_kept bytea[] DEFAULT NULL,
    in_label_item bigint[] DEFAULT NULL, in_label_namespace text[] DEFAULT NULL, in_label_name text[] DEFAULT NULL,
    in_label_value text[] DEFAULT NULL, in_label_job text[] DEFAULT NULL, in_label_first bigint[] DEFAULT NULL,
    in_inherit_item bigint[] DEFAULT NULL, in_inherit_job text[] DEFAULT NULL,
    in_inherit_source text[] DEFAULT NULL, in_inherit_sequence bigint[] DEFAULT NULL,
    OUT failed text[], OUT positions bigint[]
) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    log_id integer := 'jobledger.position'::regclass::oid::integer;
    clock bigint;
    is_fine boolean[];
    moved bigint[] := '{}';
    conflicting bigint[] := '{}';
    recorded bigint[] := '{}';
    drawn bigint[];
BEGIN
    -- Locks, always in this order: jobs, groups, resources; and within each kind by name.
    IF NOT in_is_locked THEN
        PERFORM 1 FROM jobledger.job_status AS s WHERE s.job_id = ANY (in_job)
        ORDER BY s.job_id FOR NO KEY UPDATE;
    END IF;
    IF in_epoch_item IS NOT NULL THEN
        -- Shared: appends do not wait for each other, only for whoever advances the epoch.
        PERFORM pg_advisory_xact_lock_shared(log_id, g.lock)
        FROM (
            SELECT DISTINCT jobledger.name_lock('group', e.namespace, e.name) AS lock
            FROM unnest(in_epoch_namespace, in_epoch_group) AS e (namespace, name) ORDER BY 1
        ) AS g;
        moved := ARRAY(
            SELECT e.item
            FROM unnest(in_epoch_item, in_epoch_namespace, in_epoch_group, in_epoch) AS e (item, namespace, name, epoch)
            LEFT JOIN LATERAL (
                SELECT g.epoch FROM jobledger.worker_group AS g
                WHERE g.namespace = e.namespace AND g.name = e.name OFFSET 0
            ) AS g ON true
            WHERE coalesce(g.epoch, 1) <> e.epoch
        );
    END IF;
    IF in_effect_item IS NOT NULL THEN
        PERFORM 1 FROM (
            SELECT DISTINCT e.namespace COLLATE "C" AS namespace, e.owner COLLATE "C" AS owner, e.name COLLATE "C" AS name
            FROM unnest(in_effect_namespace, in_effect_owner, in_effect_name) AS e (namespace, owner, name)
            ORDER BY 1, 2, 3
        ) AS e
        CROSS JOIN LATERAL (
            SELECT 1 FROM jobledger.resource AS r
            WHERE r.namespace = e.namespace AND r.owner = e.owner AND r.name = e.name FOR NO KEY UPDATE
        ) AS r;
        conflicting := ARRAY(
            SELECT e.item
            FROM unnest(in_effect_item, in_effect_namespace, in_effect_owner, in_effect_name, in_effect_expected)
                AS e (item, namespace, owner, name, expected)
            LEFT JOIN LATERAL (
                SELECT r.version FROM jobledger.resource AS r
                WHERE r.namespace = e.namespace AND r.owner = e.owner AND r.name = e.name OFFSET 0
            ) AS r ON true
            WHERE coalesce(r.version, 0) <> e.expected
        );
    END IF;
    clock := jobledger.now_us();

    -- Preconditions.
    IF in_unit_item IS NOT NULL THEN
        recorded := ARRAY(
            SELECT e.item FROM unnest(in_unit_item, in_unit_job, in_unit) AS e (item, job, unit)
            WHERE EXISTS (SELECT 1 FROM jobledger.job_unit AS u WHERE u.job_id = e.job AND u.unit = e.unit OFFSET 0)
        );
    END IF;
    SELECT array_agg(
        CASE
            WHEN coalesce(s.sequence, 0) <> a.guard THEN 'sequence'
            -- Time never decreases within a job, even where the clock was set back.
            WHEN a.live IS NOT NULL AND (
                l.generation IS DISTINCT FROM a.live OR l.expires_at_us <= greatest(clock, a.updated)
            ) THEN 'live_generation'
            WHEN a.seen IS NOT NULL AND l.expires_at_us IS DISTINCT FROM a.seen THEN 'seen_expiry'
            WHEN a.place = ANY (moved) THEN 'epochs'
            WHEN a.step IS NOT NULL AND (l.step IS NULL OR l.step >= a.step) THEN 'step'
            WHEN a.place = ANY (conflicting) THEN 'effects'
            WHEN a.place = ANY (recorded) THEN 'unit'
            WHEN a.guard = 0 AND a.submission IS NOT NULL AND EXISTS (
                SELECT 1 FROM jobledger.submission AS x
                WHERE x.namespace = a.namespace AND x.owner = a.owner AND x.submission = a.submission
            ) THEN 'submission'
            WHEN a.sequence > a.guard AND EXISTS (
                SELECT 1 FROM jobledger.stored_events AS x
                WHERE x.originator_id = a.job
                    AND x.originator_version > a.guard AND x.originator_version <= a.sequence
            ) THEN 'records'
        END
    ) INTO failed  -- in the order of the arrays: nothing here could change it
    FROM unnest(in_job, in_namespace, in_owner, in_guard, in_live, in_seen, in_step, in_updated, in_sequence,
        in_submission) WITH ORDINALITY
        AS a (job, namespace, owner, guard, live, seen, step, updated, sequence, submission, place)
    LEFT JOIN LATERAL (SELECT s.sequence FROM jobledger.job_status AS s WHERE s.job_id = a.job OFFSET 0) AS s ON true
    LEFT JOIN LATERAL (
        SELECT l.generation, l.expires_at_us, l.step FROM jobledger.job_lease AS l
        WHERE l.job_id = a.job AND (a.live IS NOT NULL OR a.seen IS NOT NULL OR a.step IS NOT NULL) OFFSET 0
    ) AS l ON true;
    is_fine := ARRAY(SELECT f.name IS NULL FROM unnest(failed) AS f (name));
    IF NOT (true = ANY (is_fine)) THEN
        RETURN;
    END IF;

    IF in_event_item IS NOT NULL THEN
        -- Positions without a gap for those that are written, 0 for the others.
        IF false = ANY (is_fine) THEN
            drawn := jobledger.draw(
                (SELECT count(*)::integer FROM unnest(in_event_item) AS e (item) WHERE is_fine[e.item])
            );
            positions := ARRAY(
                SELECT CASE WHEN is_fine[e.item]
                    THEN drawn[count(*) FILTER (WHERE is_fine[e.item]) OVER (ORDER BY e.place)] ELSE 0 END
                FROM unnest(in_event_item) WITH ORDINALITY AS e (item, place) ORDER BY e.place
            );
        ELSE
            positions := jobledger.draw(cardinality(in_event_item));
        END IF;
    END IF;

    IF in_key IS NOT NULL THEN
        INSERT INTO jobledger.job_status (
            job_id, position, namespace, queue, kind, priority, state, claimable, ready_at_us, is_held,
            sequence, head, updated_at_us, job
        )
        SELECT a.job, positions[a.first], a.namespace, a.queue, a.kind, a.priority, a.state, a.claimable,
            a.ready, a.held, a.sequence, a.head, a.updated, a.status
        FROM unnest(in_job, in_namespace, in_guard, in_queue, in_kind, in_priority, in_first, in_state,
            in_claimable, in_ready, in_held, in_sequence, in_head, in_updated, in_status) WITH ORDINALITY
            AS a (job, namespace, guard, queue, kind, priority, first, state, claimable, ready, held, sequence,
            head, updated, status, place)
        WHERE a.guard = 0 AND is_fine[a.place]
        ORDER BY a.job;

        INSERT INTO jobledger.job
            (position, job_id, namespace, owner, key, kind, queue, priority, created_at_us)
        SELECT positions[a.first], a.job, a.namespace, a.owner, a.key, a.kind, a.queue, a.priority, a.created
        FROM unnest(in_job, in_namespace, in_owner, in_guard, in_key, in_kind, in_queue, in_priority,
            in_created, in_first) WITH ORDINALITY
            AS a (job, namespace, owner, guard, key, kind, queue, priority, created, first, place)
        WHERE a.guard = 0 AND is_fine[a.place];

        INSERT INTO jobledger.submission (namespace, owner, submission, job_id)
        SELECT a.namespace, a.owner, a.submission, a.job
        FROM unnest(in_job, in_namespace, in_owner, in_guard, in_submission) WITH ORDINALITY
            AS a (job, namespace, owner, guard, submission, place)
        WHERE a.guard = 0 AND a.submission IS NOT NULL AND is_fine[a.place]
        ORDER BY a.namespace, a.owner, a.submission;

        IF in_label_item IS NOT NULL THEN
            INSERT INTO jobledger.job_label (namespace, name, value, position, job_id)
            SELECT b.namespace, b.name, b.value, positions[b.first], b.job
            FROM unnest(in_label_item, in_label_namespace, in_label_name, in_label_value, in_label_job,
                in_label_first) AS b (item, namespace, name, value, job, first)
            WHERE is_fine[b.item];
        END IF;
    END IF;

    IF in_event_item IS NOT NULL THEN
        INSERT INTO jobledger.stored_events
            (originator_id, originator_version, topic, state, command_id, notification_id)
        SELECT e.job, e.version, e.topic, e.state, e.command, positions[e.place]
        FROM unnest(in_event_item, in_event_job, in_event_version, in_event_topic, in_event_state,
            in_event_command) WITH ORDINALITY AS e (item, job, version, topic, state, command, place)
        WHERE is_fine[e.item];

        -- The row is there, and locked: it is changed, and what would be inserted in its place is only looked up by.
        IF 0 < ANY (in_guard) THEN
            INSERT INTO jobledger.job_status AS s (
                job_id, position, namespace, queue, kind, priority, state, claimable, ready_at_us, is_held,
                sequence, head, updated_at_us, job
            )
            SELECT a.job, 0, a.namespace, '', '', 0, a.state, a.claimable, a.ready, a.held,
                a.sequence, a.head, a.updated, a.status
            FROM unnest(in_job, in_namespace, in_guard, in_state, in_claimable, in_ready, in_held, in_sequence, in_head,
                in_updated, in_status) WITH ORDINALITY
                AS a (job, namespace, guard, state, claimable, ready, held, sequence, head, updated, status, place)
            WHERE a.guard > 0 AND a.sequence > a.guard AND is_fine[a.place]
            ON CONFLICT (job_id) DO UPDATE SET
                state = excluded.state, claimable = excluded.claimable, ready_at_us = excluded.ready_at_us,
                is_held = excluded.is_held, sequence = excluded.sequence, head = excluded.head,
                updated_at_us = excluded.updated_at_us, job = excluded.job;
        END IF;
    END IF;

    -- An expiry and a step of one generation never go back, whoever writes them.
    IF in_lease_generation IS NOT NULL THEN
        INSERT INTO jobledger.job_lease AS l
            (job_id, namespace, generation, expires_at_us, step, worker_group, epoch)
        SELECT a.job, a.namespace, a.generation, a.expiry, a.step, a.name, a.epoch
        FROM unnest(in_job, in_namespace, in_lease_generation, in_lease_expiry, in_lease_step, in_lease_group,
            in_lease_epoch) WITH ORDINALITY AS a (job, namespace, generation, expiry, step, name, epoch, place)
        WHERE a.generation IS NOT NULL AND is_fine[a.place]
        ON CONFLICT (job_id) DO UPDATE SET
            generation = excluded.generation, worker_group = excluded.worker_group, epoch = excluded.epoch,
            expires_at_us = CASE WHEN l.generation = excluded.generation
                THEN greatest(l.expires_at_us, excluded.expires_at_us) ELSE excluded.expires_at_us END,
            step = CASE WHEN l.generation = excluded.generation
                THEN greatest(l.step, excluded.step) ELSE excluded.step END
        WHERE (l.generation, l.expires_at_us, l.step, l.worker_group, l.epoch) IS DISTINCT FROM
            (excluded.generation, excluded.expires_at_us, excluded.step, excluded.worker_group, excluded.epoch);
    END IF;
    IF 0 < ANY (in_guard) AND (in_lease_generation IS NULL OR array_position(in_lease_generation, NULL) > 0) THEN
        DELETE FROM jobledger.job_lease AS l WHERE l.job_id = ANY (ARRAY(
            SELECT a.job FROM unnest(in_job, in_guard, in_lease_generation) WITH ORDINALITY
                AS a (job, guard, generation, place)
            WHERE a.guard > 0 AND a.generation IS NULL AND is_fine[a.place]
        ));
    END IF;
    IF in_body_item IS NOT NULL THEN
        INSERT INTO jobledger.job_body (job_id, digest, is_checkpoint, bytes)
        SELECT b.job, b.digest, b.is_checkpoint, b.bytes
        FROM unnest(in_body_item, in_body_job, in_body_digest, in_body_is_checkpoint, in_body_bytes)
            AS b (item, job, digest, is_checkpoint, bytes)
        WHERE is_fine[b.item]
        ON CONFLICT DO NOTHING;
    END IF;
    IF in_dropped_item IS NOT NULL THEN
        DELETE FROM jobledger.job_body AS x WHERE x.ctid = ANY (ARRAY(
            SELECT b.ctid FROM unnest(in_dropped_item, in_dropped_job, in_dropped) AS d (item, job, digest)
            CROSS JOIN LATERAL (
                SELECT b.ctid FROM jobledger.job_body AS b
                WHERE b.job_id = d.job AND b.digest = d.digest AND b.is_checkpoint OFFSET 0
            ) AS b
            WHERE is_fine[d.item]
        ));
    END IF;
    IF in_unit_item IS NOT NULL THEN
        INSERT INTO jobledger.job_unit (job_id, unit, receipt, digest, generation, sequence)
        SELECT u.job, u.unit, u.receipt, u.digest, u.generation, u.sequence
        FROM unnest(in_unit_item, in_unit_job, in_unit, in_unit_receipt, in_unit_digest, in_unit_generation,
            in_unit_sequence) AS u (item, job, unit, receipt, digest, generation, sequence)
        WHERE is_fine[u.item];
    END IF;
    IF in_effect_item IS NOT NULL THEN
        -- What is absent is inserted, and not over what somebody else inserted meanwhile.
        INSERT INTO jobledger.resource (namespace, owner, name, value, version, job_id, generation)
        SELECT e.namespace, e.owner, e.name, e.value, 1, e.job, e.generation
        FROM unnest(in_effect_item, in_effect_namespace, in_effect_owner, in_effect_name, in_effect_expected,
            in_effect_value, in_effect_job, in_effect_generation)
            AS e (item, namespace, owner, name, expected, value, job, generation)
        WHERE e.expected = 0 AND is_fine[e.item]
        ORDER BY e.namespace, e.owner, e.name;

        INSERT INTO jobledger.resource AS r (namespace, owner, name, value, version, job_id, generation)
        SELECT e.namespace, e.owner, e.name, e.value, e.expected + 1, e.job, e.generation
        FROM unnest(in_effect_item, in_effect_namespace, in_effect_owner, in_effect_name, in_effect_expected,
            in_effect_value, in_effect_job, in_effect_generation)
            AS e (item, namespace, owner, name, expected, value, job, generation)
        WHERE e.expected > 0 AND is_fine[e.item]
        ON CONFLICT (namespace, owner, name) DO UPDATE SET
            value = excluded.value, version = excluded.version, job_id = excluded.job_id,
            generation = excluded.generation;
    END IF;
    IF in_kept_item IS NOT NULL THEN
        INSERT INTO jobledger.job_snapshot (job_id, sequence, job)
        SELECT k.job, k.sequence, k.kept
        FROM unnest(in_kept_item, in_kept_job, in_kept_sequence, in_kept) AS k (item, job, sequence, kept)
        WHERE is_fine[k.item]
        ON CONFLICT (job_id, sequence) DO UPDATE SET job = excluded.job;
    END IF;
    IF in_inherit_item IS NOT NULL THEN
        -- What is inherited stands in the new job from its first event on; no generation of it recorded it.
        INSERT INTO jobledger.job_body (job_id, digest, is_checkpoint, bytes)
        SELECT DISTINCT i.job, b.digest, false, b.bytes
        FROM unnest(in_inherit_item, in_inherit_job, in_inherit_source, in_inherit_sequence)
            AS i (item, job, source, sequence)
        JOIN jobledger.job_unit AS u ON u.job_id = i.source AND u.sequence <= i.sequence
        JOIN jobledger.job_body AS b
            ON b.job_id = u.job_id AND b.digest = u.digest AND NOT b.is_checkpoint
        WHERE u.digest <> '' AND is_fine[i.item]
        ON CONFLICT DO NOTHING;

        INSERT INTO jobledger.job_unit (job_id, unit, receipt, digest, generation, sequence)
        SELECT i.job, u.unit, u.receipt, u.digest, 0, 1
        FROM unnest(in_inherit_item, in_inherit_job, in_inherit_source, in_inherit_sequence)
            AS i (item, job, source, sequence)
        JOIN jobledger.job_unit AS u ON u.job_id = i.source AND u.sequence <= i.sequence
        WHERE is_fine[i.item];
    END IF;
END $$;

-- The same hash as before, of parts that can be put into the statement that asks for it.
CREATE OR REPLACE FUNCTION jobledger.name_lock(what text, namespace text, name text)
RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT hashtext($1 || chr(31) || $2 || chr(31) || $3)';

-- Loads one job, as load() does: the lock answers the newest row, also where it had to be waited for.
CREATE FUNCTION jobledger.load_one(
    in_job text,
    OUT now_us bigint, OUT "position" bigint, OUT job_id text, OUT sequence bigint, OUT head text, OUT job bytea,
    OUT generation bigint, OUT expires_at_us bigint, OUT step bigint, OUT epoch bigint
) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
BEGIN
    SELECT s.position, s.job_id, s.sequence, s.head, s.job INTO "position", job_id, sequence, head, job
    FROM jobledger.job_status AS s WHERE s.job_id = in_job FOR NO KEY UPDATE;
    now_us := jobledger.now_us();
    SELECT l.generation, l.expires_at_us, l.step, coalesce(
        (SELECT g.epoch FROM jobledger.worker_group AS g WHERE g.namespace = l.namespace AND g.name = l.worker_group), 1
    ) INTO generation, expires_at_us, step, epoch
    FROM jobledger.job_lease AS l WHERE l.job_id = in_job;
    epoch := coalesce(epoch, 0);
END $$;

-- The append of one item that most calls are: at most one event of a job that is there and locked, under at most one
-- epoch, and nothing beside its state and its lease. The same preconditions in the same order as in append().
CREATE FUNCTION jobledger.append_one(
    in_job text, in_namespace text, in_guard bigint, in_live bigint, in_seen bigint, in_step bigint,
    in_sequence bigint, in_updated bigint, in_group text, in_epoch bigint,
    in_state text, in_claimable text, in_ready bigint, in_held boolean, in_head text, in_status bytea,
    in_topic text, in_event bytea, in_command text,
    in_lease_generation bigint, in_lease_expiry bigint, in_lease_step bigint, in_lease_group text, in_lease_epoch bigint
) RETURNS text LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
DECLARE
    has_moved boolean := false;
    clock bigint;
    found_sequence bigint;
    found_generation bigint;
    found_expiry bigint;
    found_step bigint;
BEGIN
    IF in_group IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock_shared(
            'jobledger.position'::regclass::oid::integer, jobledger.name_lock('group', in_namespace, in_group)
        );
        has_moved := in_epoch <> coalesce(
            (SELECT g.epoch FROM jobledger.worker_group AS g WHERE g.namespace = in_namespace AND g.name = in_group), 1
        );
    END IF;
    clock := jobledger.now_us();
    SELECT s.sequence, l.generation, l.expires_at_us, l.step
    INTO found_sequence, found_generation, found_expiry, found_step
    FROM jobledger.job_status AS s
    LEFT JOIN LATERAL (SELECT * FROM jobledger.job_lease AS l WHERE l.job_id = in_job OFFSET 0) AS l ON true
    WHERE s.job_id = in_job;
    IF coalesce(found_sequence, 0) <> in_guard THEN
        RETURN 'sequence';
    END IF;
    -- Time never decreases within a job, even where the clock was set back.
    IF in_live IS NOT NULL AND (
        found_generation IS DISTINCT FROM in_live OR found_expiry <= greatest(clock, in_updated)
    ) THEN
        RETURN 'live_generation';
    END IF;
    IF in_seen IS NOT NULL AND found_expiry IS DISTINCT FROM in_seen THEN
        RETURN 'seen_expiry';
    END IF;
    IF has_moved THEN
        RETURN 'epochs';
    END IF;
    IF in_step IS NOT NULL AND (found_step IS NULL OR found_step >= in_step) THEN
        RETURN 'step';
    END IF;

    IF in_topic IS NOT NULL THEN
        IF EXISTS (
            SELECT 1 FROM jobledger.stored_events AS x
            WHERE x.originator_id = in_job AND x.originator_version > in_guard AND x.originator_version <= in_sequence
        ) THEN
            RETURN 'records';
        END IF;
        INSERT INTO jobledger.stored_events
            (originator_id, originator_version, topic, state, command_id, notification_id)
        VALUES (in_job, in_sequence, in_topic, in_event, in_command, (jobledger.draw(1))[1]);
        UPDATE jobledger.job_status AS s SET
            state = in_state, claimable = in_claimable, ready_at_us = in_ready, is_held = in_held,
            sequence = in_sequence, head = in_head, updated_at_us = in_updated, job = in_status
        WHERE s.job_id = in_job;
    END IF;

    IF in_lease_generation IS NULL THEN
        IF found_generation IS NOT NULL THEN
            DELETE FROM jobledger.job_lease AS l WHERE l.job_id = in_job;
        END IF;
    ELSIF found_generation = in_lease_generation THEN
        -- An expiry and a step of one generation never go back, whoever writes them.
        UPDATE jobledger.job_lease AS l SET
            worker_group = in_lease_group, epoch = in_lease_epoch,
            expires_at_us = greatest(l.expires_at_us, in_lease_expiry), step = greatest(l.step, in_lease_step)
        WHERE l.job_id = in_job AND (
            l.expires_at_us < in_lease_expiry OR l.step < in_lease_step
            OR (l.worker_group, l.epoch) IS DISTINCT FROM (in_lease_group, in_lease_epoch)
        );
    ELSE
        INSERT INTO jobledger.job_lease (job_id, namespace, generation, expires_at_us, step, worker_group, epoch)
        VALUES (in_job, in_namespace, in_lease_generation, in_lease_expiry, in_lease_step, in_lease_group, in_lease_epoch)
        ON CONFLICT (job_id) DO UPDATE SET
            generation = excluded.generation, expires_at_us = excluded.expires_at_us, step = excluded.step,
            worker_group = excluded.worker_group, epoch = excluded.epoch;
    END IF;
    RETURN NULL;
END $$;
