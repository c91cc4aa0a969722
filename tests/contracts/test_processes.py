"""Several processes on one file: one job a key, results that outlive their creator, no lock that reaches a caller."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

from jobledger import JobStore, State

CREATE = """
    import json, sys
    from jobledger import JobRequest, JobStore
    from jobledger.errors import JobledgerError

    with JobStore.open(sys.argv[1]) as store:
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            receipt = store.create(JobRequest(owner="team", key="k", kind="index", payload=json.loads(sys.argv[2])))
            print(json.dumps([receipt.job_id, receipt.reused, receipt.sequence, receipt.state]))
        except JobledgerError as refusal:
            print(json.dumps(refusal.code))
"""

PUT = """
    import json, sys
    from jobledger import JobStore, Schedule

    with JobStore.open(sys.argv[1]) as store:
        print("ready", flush=True)
        sys.stdin.readline()
        receipt = store.schedules.put(Schedule("s", "index", every=60), by=sys.argv[2])
        print(json.dumps([receipt.sequence, str(receipt.next_at), receipt.reused]))
"""

WORK = """
    import sys
    from jobledger import JobRequest, JobStore

    with JobStore.open(sys.argv[1]) as store:
        job_id = store.create(JobRequest(owner="team", key="k", kind="index", payload=[1])).job_id
        store.complete(store.claim(job_id, worker="w").fence, result={"rows": 7})
        print(job_id)
"""

BUSY = """
    import sys
    from jobledger import JobRequest, JobStore

    with JobStore.open(sys.argv[1]) as store:
        for number in range(25):
            receipt = store.create(JobRequest(owner=sys.argv[2], key=str(number), kind="index"))
            lease = store.claim(receipt.job_id, worker=sys.argv[2])
            store.renew(lease.fence)
            store.record_unit(lease.fence, "u", number)
            store.complete(lease.fence, result=number)
"""


def _start(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _ended(process: subprocess.Popen[str], said: str = "") -> str:
    out, err = process.communicate(said, timeout=100)
    assert process.returncode == 0, err
    return out


def _raced(script: str, url: str, arguments: list[str]) -> list[object]:
    """Start a process for each argument, let all ask at once, and collect what each was answered."""
    processes = [_start(script, url, argument) for argument in arguments]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [json.loads(_ended(process)) for process in processes]


def test_eight_processes_creating_one_key_make_one_job(url: str) -> None:
    """All get equal receipts; exactly one is not reused."""
    answers = _raced(CREATE, url, ["[7]"] * 8)

    receipts = [answer for answer in answers if isinstance(answer, list)]
    assert len(receipts) == 8
    assert len({(job_id, sequence, state) for job_id, _, sequence, state in receipts}) == 1
    assert sorted(reused for _, reused, *_ in receipts) == [False] + [True] * 7


def test_eight_processes_with_two_payloads_make_one_job(url: str) -> None:
    """Every loser is refused as changed."""
    answers = _raced(CREATE, url, ["[1]", "[2]"] * 4)

    assert sum(isinstance(answer, list) for answer in answers) == 4
    assert answers.count("payload_changed") == 4


def test_processes_that_put_one_schedule_at_once_make_one(url: str) -> None:
    """One makes it, whoever that is; the others find that it stands."""
    answers = _raced(PUT, url, ["ann", "bob", "cem", "dee"])

    receipts = [answer for answer in answers if isinstance(answer, list)]
    assert len({(sequence, next_at) for sequence, next_at, _ in receipts}) == 1
    assert sorted(reused for *_, reused in receipts) == [False, True, True, True]
    with JobStore.open(url) as store:
        assert store.schedules.get("s").sequence == 1
        assert store.schedules.verify("s").ok


def test_a_result_is_read_after_its_creator_is_gone(url: str) -> None:
    """Another process reads state and result from the store; nothing is started anew."""
    job_id = _ended(_start(WORK, url)).strip()

    with JobStore.open(url) as store:
        status = store.status(job_id)
        again = store.find("team", "k")

    assert (status.state, status.result) == (State.COMPLETE, {"rows": 7})
    assert again == status


def test_eight_processes_on_one_store_never_see_a_lock(url: str) -> None:
    """Each waits for its turn; every job ends, and every history is whole."""
    JobStore.open(url).close()

    for process in [_start(BUSY, url, f"w{number}") for number in range(8)]:
        _ended(process)

    with JobStore.open(url) as store:
        assert store.counts()[State.COMPLETE] == 200
        assert all(verification.ok for verification in store.verify_all())
