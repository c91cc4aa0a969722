-- Roles that cannot log in, each with the rights of one task; logins are made members of them. Safe to run again.
-- The log can be added to by jobledger_app and shortened, by whole ended histories, by jobledger_retention; no role but
-- the owner may change it.
DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['jobledger_app', 'jobledger_reader', 'jobledger_retention'] LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = role_name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
        END IF;
    END LOOP;
END $$;

REVOKE ALL ON SCHEMA jobledger FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA jobledger FROM PUBLIC;
GRANT USAGE ON SCHEMA jobledger TO jobledger_app, jobledger_reader, jobledger_retention;
GRANT SELECT ON ALL TABLES IN SCHEMA jobledger TO jobledger_app, jobledger_reader, jobledger_retention;
GRANT SELECT ON SEQUENCE jobledger.position TO jobledger_app, jobledger_reader, jobledger_retention;
GRANT EXECUTE ON FUNCTION
    jobledger.jobledger_now(), jobledger.now_us(), jobledger.mark(bigint), jobledger.horizon(),
    jobledger.state_of(bytea), jobledger.candidates(text, text[], text[], bigint, bigint),
    jobledger.due(text, text[], text[], bigint, bigint), jobledger.share_of(text, text, text, bigint, text),
    jobledger.waiting_in(text, text, text[], bigint, bigint, boolean),
    jobledger.shared_in(text, text, text[], bigint, bigint, boolean, text, text[]),
    jobledger.dead_in(text, text, text[], bigint, bigint)
TO jobledger_app, jobledger_reader, jobledger_retention;

-- Workers, hosts, and whoever creates jobs or operates on them.
GRANT USAGE ON SEQUENCE jobledger.position TO jobledger_app;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA jobledger TO jobledger_app;
GRANT INSERT ON
    jobledger.stored_events, jobledger.job, jobledger.job_status, jobledger.job_label, jobledger.job_lease,
    jobledger.worker_group, jobledger.job_unit, jobledger.job_body, jobledger.job_snapshot, jobledger.resource,
    jobledger.submission, jobledger.tracking, jobledger.schedule, jobledger.schedule_snapshot,
    jobledger.projection, jobledger.projection_row, jobledger.queue, jobledger.queue_usage
TO jobledger_app;
GRANT UPDATE ON
    jobledger.job_status, jobledger.job_lease, jobledger.worker_group, jobledger.job_snapshot, jobledger.resource,
    jobledger.tracking, jobledger.schedule, jobledger.schedule_snapshot, jobledger.projection,
    jobledger.projection_row, jobledger.queue, jobledger.queue_usage
TO jobledger_app;
GRANT DELETE ON
    jobledger.job_lease, jobledger.job_body, jobledger.projection, jobledger.projection_row
TO jobledger_app;

-- What takes the events of ended jobs out of the log: one function, which has the owner's rights, and nobody else may call.
REVOKE ALL ON FUNCTION jobledger.archive(
    text[], bigint[], text[], bytea[], text[], bigint[], text[], bigint[], bytea[], bigint[], bigint[], bytea[],
    bigint[], text[]
) FROM jobledger_app;
REVOKE DELETE ON ALL TABLES IN SCHEMA jobledger FROM jobledger_retention;
GRANT EXECUTE ON FUNCTION jobledger.archive(
    text[], bigint[], text[], bytea[], text[], bigint[], text[], bigint[], bytea[], bigint[], bigint[], bytea[],
    bigint[], text[]
) TO jobledger_retention;
