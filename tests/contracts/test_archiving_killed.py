"""A process that archives is killed wherever it stands: each job is archived, or as it was, and never between."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.storage.processes import run

JOBS = 4
POINTS = 15

KILLED = """
    import json, os, signal
    from datetime import timedelta
    from jobledger import JobRequest, JobStore
    from jobledger.adapters.bundles import archiving
    from jobledger.adapters.storage.sqlite_session import SQLiteSession
    from jobledger.adapters.storage.sqlite_archiving import DELETE_EVENTS

    url, jobs, points, is_twin = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "twin"
    archiving.EVENTS_OF_A_BATCH = 1  # a transaction for each job, so that a kill finds some archived and some not

    if is_twin:
        archive = SQLiteSession._archive
        def in_halves(session, archival):
            one = {"job_id": archival.job.id, "sequence": archival.record.sequence}
            session._raw.execute(DELETE_EVENTS, one)
            session._raw.execute("COMMIT")
            session._raw.execute("BEGIN IMMEDIATE")
            return archive(session, archival)
        SQLiteSession._archive = in_halves

    def apart(work):
        # What is done in a process of its own answers a line, or nothing where it was killed.
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            with os.fdopen(writing, "w") as answer:
                answer.write(json.dumps(work()))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            told = answer.read()
        os.waitpid(child, 0)
        return json.loads(told) if told else None

    def fill(namespace):
        with JobStore.open(url, namespace=namespace) as store:
            for number in range(jobs):
                receipt = store.create(JobRequest(owner="team", key=f"{number}", kind="index"))
                lease = store.claim(receipt.job_id, worker="w")
                store.record_unit(lease.fence, "u", number)
                store.complete(lease.fence)

    def archive_until(last, namespace):
        with JobStore.open(url, namespace=namespace) as store:
            steps = 0
            def count(frame, event, argument):
                nonlocal steps
                if event in ("call", "c_call") and "/adapters/storage/" in frame.f_code.co_filename:
                    steps += 1
                    if steps == last:
                        os.kill(os.getpid(), signal.SIGKILL)
            sys.setprofile(count)
            store.archive(older_than=0)
            sys.setprofile(None)
            return steps

    def look():
        with JobStore.open(url) as store:
            found = [store.status(job.job_id).archived for job in store.jobs().jobs]
            return [found, [problem.rule for each in store.verify_all() for problem in each.problems]]

    for namespace in ("default", "rehearsal"):
        apart(lambda: fill(namespace))
    steps = apart(lambda: archive_until(0, "rehearsal"))
    told = []
    for point in range(1, points + 1):
        apart(lambda: archive_until(point * steps // points, "default"))
        told.append(apart(look))
    print(json.dumps(told))
"""


@dataclass(frozen=True)
class Seen:
    """What was found after a kill: the sequence under which each job is archived (0: not), and broken rules."""

    archived: list[int]
    problems: list[str]


def killed(url: str, points: int, twin: str = "") -> list[Seen]:
    """Kill a process that archives at growing depths, so many times; the last one would have come to the end."""
    told = json.loads(run(KILLED, url, JOBS, points, twin))
    return [Seen(found, problems) for found, problems in told]


def test_a_kill_leaves_each_job_whole_or_archived(url: str) -> None:
    """Wherever it comes: nothing is half done, and whoever archives next goes on."""
    seen = killed(url, POINTS)

    assert [each.problems for each in seen] == [[]] * len(seen)
    assert {sequence for each in seen for sequence in each.archived} == {0, 5}
    assert any(len(set(each.archived)) > 1 for each in seen)


def test_a_twin_that_archives_in_halves_is_noticed(tmp_path: Path) -> None:
    """The control: a process that commits between removing the events and writing what stands for them."""
    seen = killed(f"sqlite:///{tmp_path / 'jobs.db'}", 3 * POINTS, "twin")

    assert any(each.problems for each in seen)
