"""The statements that write a SQLite store, with named parameters; the session that runs them holds the write lock."""

from __future__ import annotations

from typing import Final, LiteralString

INDEXED: Final = ("state", "claimable", "ready_at_us", "is_held")
"""The columns of a status row that indexes hang on and events change."""

# By UNIQUE (job_id), and the lease by its primary key.
STANDINGS: Final[LiteralString] = """
    SELECT s.job_id, s.sequence, s.state, s.claimable, s.ready_at_us, s.is_held, l.generation, l.expires_at_us, l.step
    FROM job_status AS s LEFT JOIN job_lease AS l ON l.namespace = s.namespace AND l.job_id = s.job_id
    WHERE s.job_id IN (SELECT value FROM json_each(:job_ids))
"""

INSERT_STATUS: Final[LiteralString] = """
    INSERT INTO job_status (
        position, job_id, namespace, owner, key, kind, queue, priority, state, claimable, ready_at_us, is_held,
        sequence, head, created_at_us, updated_at_us, job
    ) VALUES (
        :position, :job_id, :namespace, :owner, :key, :kind, :queue, :priority, :state, :claimable, :ready_at_us,
        :is_held, :sequence, :head, :created_at_us, :updated_at_us, :job
    )
"""

MOVE_STATUS: Final[LiteralString] = """
    UPDATE job_status SET
        state = :state, claimable = :claimable, ready_at_us = :ready_at_us, is_held = :is_held,
        sequence = :sequence, head = :head, updated_at_us = :updated_at_us, job = :job
    WHERE job_id = :job_id
"""

# Everything that follows from the state; its position is that of its first record, and stays.
REWRITE_STATUS: Final[LiteralString] = """
    UPDATE job_status SET
        namespace = :namespace, owner = :owner, key = :key, kind = :kind, queue = :queue, priority = :priority,
        state = :state, claimable = :claimable, ready_at_us = :ready_at_us, is_held = :is_held, sequence = :sequence,
        head = :head, created_at_us = :created_at_us, updated_at_us = :updated_at_us, job = :job
    WHERE job_id = :job_id
"""

# What an attempt reports while it runs touches no index: SQLite rewrites the entries of every column that is set.
GROW_STATUS: Final[LiteralString] = """
    UPDATE job_status SET sequence = :sequence, head = :head, updated_at_us = :updated_at_us, job = :job
    WHERE job_id = :job_id
"""

INSERT_LABEL: Final[LiteralString] = """
    INSERT INTO job_label (namespace, name, value, position) VALUES (:namespace, :name, :value, :position)
"""

INSERT_SUBMISSION: Final[LiteralString] = """
    INSERT INTO submission (namespace, owner, submission, job_id) VALUES (:namespace, :owner, :submission, :job_id)
"""

PUT_LEASE: Final[LiteralString] = """
    INSERT INTO job_lease (namespace, job_id, generation, expires_at_us, step, worker_group, epoch)
    VALUES (:namespace, :job_id, :generation, :expires_at_us, :step, :worker_group, :epoch)
    ON CONFLICT (namespace, job_id) DO UPDATE SET
        generation = excluded.generation, expires_at_us = excluded.expires_at_us, step = excluded.step,
        worker_group = excluded.worker_group, epoch = excluded.epoch
"""

DELETE_LEASE: Final[LiteralString] = "DELETE FROM job_lease WHERE namespace = :namespace AND job_id = :job_id"

PUT_BODY: Final[LiteralString] = """
    INSERT INTO job_body (job_id, digest, is_checkpoint, bytes) VALUES (:job_id, :digest, :is_checkpoint, :bytes)
    ON CONFLICT (job_id, digest, is_checkpoint) DO NOTHING
"""

DROP_CHECKPOINT: Final[LiteralString] = """
    DELETE FROM job_body WHERE job_id = :job_id AND digest = :digest AND is_checkpoint = 1
"""

INSERT_UNIT: Final[LiteralString] = """
    INSERT INTO job_unit (job_id, unit, receipt, digest, generation, sequence)
    VALUES (:job_id, :unit, :receipt, :digest, :generation, :sequence)
"""

# What is inherited stands in the new job from its first event on, and no generation of it recorded it.
INHERIT_UNITS: Final[LiteralString] = """
    INSERT INTO job_unit (job_id, unit, receipt, digest, generation, sequence)
    SELECT :job_id, unit, receipt, digest, 0, 1 FROM job_unit WHERE job_id = :source AND sequence <= :sequence
"""

INHERIT_BODIES: Final[LiteralString] = """
    INSERT INTO job_body (job_id, digest, is_checkpoint, bytes)
    SELECT DISTINCT :job_id, b.digest, 0, b.bytes
    FROM job_unit AS u CROSS JOIN job_body AS b
        ON b.job_id = u.job_id AND b.digest = u.digest AND b.is_checkpoint = 0
    WHERE u.job_id = :source AND u.sequence <= :sequence AND u.digest <> ''
    ON CONFLICT (job_id, digest, is_checkpoint) DO NOTHING
"""

PUT_RESOURCE: Final[LiteralString] = """
    INSERT INTO resource (namespace, owner, name, value, version, job_id, generation)
    VALUES (:namespace, :owner, :name, :value, :version, :job_id, :generation)
    ON CONFLICT (namespace, owner, name) DO UPDATE SET
        value = excluded.value, version = excluded.version, job_id = excluded.job_id, generation = excluded.generation
"""

PUT_SNAPSHOT: Final[LiteralString] = """
    INSERT INTO job_snapshot (job_id, sequence, job) VALUES (:job_id, :sequence, :job)
    ON CONFLICT (job_id, sequence) DO UPDATE SET job = excluded.job
"""

DELETE_SNAPSHOTS: Final[LiteralString] = "DELETE FROM job_snapshot WHERE job_id = :job_id"

PUT_GROUP: Final[LiteralString] = """
    INSERT INTO worker_group (namespace, name, epoch, sequence, head)
    VALUES (:namespace, :name, :epoch, :sequence, :head)
    ON CONFLICT (namespace, name) DO UPDATE SET
        epoch = excluded.epoch, sequence = excluded.sequence, head = excluded.head
"""
