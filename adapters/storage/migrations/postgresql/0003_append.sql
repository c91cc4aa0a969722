-- The append: many items in one call, each with its preconditions, each answered for itself.
-- Arrays beside each other make one table: the items; then for each item any number of events, epochs, effects, bodies,
-- dropped checkpoints, kept states, labels and inherited receipts, which name their item by its place. `first` is the
-- place of an item's first event among all events: a join would cost the square of the number of items. A caller never
-- puts two items into one call that touch the same job, resource or submission.
CREATE FUNCTION jobledger.append(
    in_is_locked boolean,
    in_job text[], in_namespace text[], in_owner text[],
    in_guard bigint[], in_live bigint[], in_seen bigint[], in_step bigint[],
    in_key text[], in_kind text[], in_queue text[], in_priority bigint[], in_created bigint[], in_submission text[],
    in_first bigint[],
    in_state text[], in_claimable text[], in_ready bigint[], in_held boolean[], in_sequence bigint[], in_head text[],
    in_updated bigint[], in_status bytea[],
    in_lease_generation bigint[], in_lease_expiry bigint[], in_lease_step bigint[], in_lease_group text[],
    in_lease_epoch bigint[],
    in_event_item bigint[], in_event_job text[], in_event_version bigint[], in_event_topic text[],
    in_event_state bytea[], in_event_command text[],
    in_epoch_item bigint[], in_epoch_namespace text[], in_epoch_group text[], in_epoch bigint[],
    in_unit_item bigint[], in_unit_job text[], in_unit text[], in_unit_receipt bytea[], in_unit_digest text[],
    in_unit_generation bigint[], in_unit_sequence bigint[],
    in_effect_item bigint[], in_effect_namespace text[], in_effect_owner text[], in_effect_name text[],
    in_effect_expected bigint[], in_effect_value bytea[], in_effect_job text[], in_effect_generation bigint[],
    in_body_item bigint[], in_body_job text[], in_body_digest text[], in_body_is_checkpoint boolean[],
    in_body_bytes bytea[],
    in_dropped_item bigint[], in_dropped_job text[], in_dropped text[],
    in_kept_item bigint[], in_kept_job text[], in_kept_sequence bigint[], in_kept bytea[],
    in_label_item bigint[], in_label_namespace text[], in_label_name text[], in_label_value text[],
    in_label_job text[], in_label_first bigint[],
    in_inherit_item bigint[], in_inherit_job text[], in_inherit_source text[], in_inherit_sequence bigint[],
    OUT failed text[], OUT positions bigint[]
) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    log_id integer := 'jobledger.position'::regclass::oid::integer;
    tries integer := 0;
    clock bigint;
    is_fine boolean[];
    moved bigint[];
    conflicting bigint[];
    recorded bigint[];
    drawn bigint[];
BEGIN
    LOOP
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
        END IF;
        IF in_effect_item IS NOT NULL THEN
            PERFORM 1 FROM jobledger.resource AS r
            WHERE (r.namespace, r.owner, r.name) IN (
                SELECT e.namespace, e.owner, e.name
                FROM unnest(in_effect_namespace, in_effect_owner, in_effect_name) AS e (namespace, owner, name)
            )
            ORDER BY r.namespace, r.owner, r.name FOR NO KEY UPDATE;
        END IF;
        clock := jobledger.now_us();

        -- Preconditions.
        moved := CASE WHEN in_epoch_item IS NULL THEN '{}' ELSE ARRAY(
            SELECT e.item
            FROM unnest(in_epoch_item, in_epoch_namespace, in_epoch_group, in_epoch) AS e (item, namespace, name, epoch)
            LEFT JOIN jobledger.worker_group AS g ON g.namespace = e.namespace AND g.name = e.name
            WHERE coalesce(g.epoch, 1) <> e.epoch
        ) END;
        conflicting := CASE WHEN in_effect_item IS NULL THEN '{}' ELSE ARRAY(
            SELECT e.item
            FROM unnest(in_effect_item, in_effect_namespace, in_effect_owner, in_effect_name, in_effect_expected)
                AS e (item, namespace, owner, name, expected)
            LEFT JOIN jobledger.resource AS r
                ON r.namespace = e.namespace AND r.owner = e.owner AND r.name = e.name
            WHERE coalesce(r.version, 0) <> e.expected
        ) END;
        recorded := CASE WHEN in_unit_item IS NULL THEN '{}' ELSE ARRAY(
            SELECT e.item FROM unnest(in_unit_item, in_unit_job, in_unit) AS e (item, job, unit)
            JOIN jobledger.job_unit AS u ON u.job_id = e.job AND u.unit = e.unit
        ) END;
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
            END ORDER BY a.place
        ) INTO failed
        FROM unnest(in_job, in_namespace, in_owner, in_guard, in_live, in_seen, in_step, in_updated, in_sequence,
            in_submission) WITH ORDINALITY
            AS a (job, namespace, owner, guard, live, seen, step, updated, sequence, submission, place)
        LEFT JOIN jobledger.job_status AS s ON s.job_id = a.job
        LEFT JOIN jobledger.job_lease AS l ON l.job_id = a.job;
        is_fine := ARRAY(SELECT f.name IS NULL FROM unnest(failed) WITH ORDINALITY AS f (name, place) ORDER BY f.place);
        EXIT WHEN NOT (true = ANY (is_fine));

        BEGIN
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

                INSERT INTO jobledger.job_label (namespace, name, value, position, job_id)
                SELECT b.namespace, b.name, b.value, positions[b.first], b.job
                FROM unnest(in_label_item, in_label_namespace, in_label_name, in_label_value, in_label_job,
                    in_label_first) AS b (item, namespace, name, value, job, first)
                WHERE is_fine[b.item];
            END IF;

            IF in_event_item IS NOT NULL THEN
                INSERT INTO jobledger.stored_events
                    (originator_id, originator_version, topic, state, command_id, notification_id)
                SELECT e.job, e.version, e.topic, e.state, e.command, positions[e.place]
                FROM unnest(in_event_item, in_event_job, in_event_version, in_event_topic, in_event_state,
                    in_event_command) WITH ORDINALITY AS e (item, job, version, topic, state, command, place)
                WHERE is_fine[e.item];

                UPDATE jobledger.job_status AS s SET
                    state = a.state, claimable = a.claimable, ready_at_us = a.ready, is_held = a.held,
                    sequence = a.sequence, head = a.head, updated_at_us = a.updated, job = a.status
                FROM unnest(in_job, in_guard, in_state, in_claimable, in_ready, in_held, in_sequence, in_head,
                    in_updated, in_status) WITH ORDINALITY
                    AS a (job, guard, state, claimable, ready, held, sequence, head, updated, status, place)
                WHERE s.job_id = a.job AND a.guard > 0 AND a.sequence > a.guard AND is_fine[a.place];
            END IF;

            -- An expiry and a step of one generation never go back, whoever writes them.
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

            DELETE FROM jobledger.job_lease AS l
            USING unnest(in_job, in_guard, in_lease_generation) WITH ORDINALITY AS a (job, guard, generation, place)
            WHERE l.job_id = a.job AND a.guard > 0 AND a.generation IS NULL AND is_fine[a.place];

            IF in_body_item IS NOT NULL THEN
                INSERT INTO jobledger.job_body (job_id, digest, is_checkpoint, bytes)
                SELECT b.job, b.digest, b.is_checkpoint, b.bytes
                FROM unnest(in_body_item, in_body_job, in_body_digest, in_body_is_checkpoint, in_body_bytes)
                    AS b (item, job, digest, is_checkpoint, bytes)
                WHERE is_fine[b.item]
                ON CONFLICT DO NOTHING;
            END IF;
            IF in_dropped_item IS NOT NULL THEN
                DELETE FROM jobledger.job_body AS b
                USING unnest(in_dropped_item, in_dropped_job, in_dropped) AS d (item, job, digest)
                WHERE b.job_id = d.job AND b.digest = d.digest AND b.is_checkpoint AND is_fine[d.item];
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

                UPDATE jobledger.resource AS r SET
                    value = e.value, version = e.expected + 1, job_id = e.job, generation = e.generation
                FROM unnest(in_effect_item, in_effect_namespace, in_effect_owner, in_effect_name, in_effect_expected,
                    in_effect_value, in_effect_job, in_effect_generation)
                    AS e (item, namespace, owner, name, expected, value, job, generation)
                WHERE r.namespace = e.namespace AND r.owner = e.owner AND r.name = e.name
                    AND e.expected > 0 AND is_fine[e.item];
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
            EXIT;
        EXCEPTION WHEN unique_violation THEN
            -- Somebody else created the same job, submission or resource meanwhile, and has committed: look again. Who
            -- holds locks already begins anew instead, since what has appeared would be locked out of its order.
            tries := tries + 1;
            IF in_is_locked OR tries = 3 THEN
                RAISE;
            END IF;
            positions := NULL;
        END;
    END LOOP;
END $$;
