"""The demonstration, from its beginning to its end: what it promises is seen, and nothing is left behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.demo.index import Index
from jobledger.domain.job import State

DEMO = [sys.executable, "-m", "jobledger", "demo", "--megabytes", "4"]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> "tuple[Path, subprocess.CompletedProcess[str]]":
    """One demonstration, played in a folder that it leaves."""
    folder = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [*DEMO, "--dir", str(folder), "--query", "priority queue"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return folder, done


Played = tuple[Path, "subprocess.CompletedProcess[str]"]


def test_it_shows_what_it_promises(played: Played) -> None:
    _, done = played
    out = done.stdout

    assert (done.returncode, done.stderr) == (0, "")
    assert "refused payload_changed: " in out
    assert "was killed (SIGKILL) after the effect of batch four and before its checkpoint" in out
    assert "the store's checkpoint says 4" in out
    assert "refused stale_fence: " in out
    assert "Batch four ran twice, in generation 1 by worker-a, then in generation 2 by worker-b." in out
    assert "refused hold_in_force: " in out
    assert out.count("verify: ok (") == 2
    assert "«priority»" in out
    assert "All of it was seen, in " in out


def test_what_it_tells_stands_in_the_store(played: Played) -> None:
    """The story is no text: another reader of the store and of the index finds the same."""
    folder, done = played
    url = f"sqlite:///{folder / 'jobledger.db'}"

    with JobStore.open(url, migrate=False) as store:
        job = store.find("demo", "rebuild-42")
        patrol = store.find("demo", "patrol-1")
        assert job is not None
        assert patrol is not None
        names = [event.name for event in store.history(job.job_id)]
        sound = [found.ok for found in store.verify_all()]
    index = Index(folder / "index.db")

    assert (job.state, job.generation, job.units) == (State.COMPLETE, 2, 10)
    assert (patrol.state, patrol.generation) == (State.CANCELLED, 2)
    assert names.count("Interrupted") == 1
    assert names.index("Interrupted") > [n for n, name in enumerate(names) if name == "Checkpointed"][3]
    assert sound == [True, True]
    assert [run.generation for run in index.runs(4)] == [1, 2]
    assert len({run.digest for run in index.runs(4)}) == 1
    assert index.documents() == index.planned()
    assert job.job_id in done.stdout


def test_a_kept_store_can_be_looked_at_with_the_commands_it_names(played: Played) -> None:
    _, done = played
    named = [line.strip() for line in done.stdout.splitlines() if line.strip().startswith("jobledger ")]

    answers = [
        subprocess.run(
            [sys.executable, "-m", *command.split()], capture_output=True, text=True, timeout=60, check=False
        )
        for command in named
    ]

    assert len(named) == 5
    assert [answer.returncode for answer in answers] == [0] * 5


def test_a_folder_that_holds_a_store_is_refused(played: Played) -> None:
    folder, _ = played

    done = subprocess.run([*DEMO, "--dir", str(folder)], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert "holds 'jobledger.db' already" in done.stderr


def test_with_json_it_is_one_document_of_facts(tmp_path: Path) -> None:
    """And a temporary folder is gone when it ends."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    done = subprocess.run([*DEMO, "--json"], capture_output=True, text=True, timeout=110, check=False, env=environment)
    facts = json.loads(done.stdout)

    assert (done.returncode, done.stderr) == (0, "")
    assert facts["ok"]
    assert (facts["state"], facts["generation"]) == ("complete", 2)
    assert [run["generation"] for run in facts["batch_four"]] == [1, 2]
    assert facts["stale_fence"]["code"] == "stale_fence"
    assert facts["patrol"]["hold"]["code"] == "hold_in_force"
    assert [found["ok"] for found in facts["verified"]] == [True, True]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_one_leaves_nothing_behind(tmp_path: Path, number: int) -> None:
    """Neither its folder nor a worker process."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout is not None
        while "batches are saved" not in running.stdout.readline():
            assert running.poll() is None
        while not _workers_of(str(tmp_path)):  # the first may have been killed already, and the second not be there yet
            assert running.poll() is None
        running.send_signal(number)
        _, complaint = running.communicate(timeout=60)

    assert (running.returncode, complaint) == (130, "")
    assert _workers_of(str(tmp_path)) == []
    assert not list(tmp_path.iterdir())


def test_a_step_that_is_not_seen_is_a_failure_that_says_which(tmp_path: Path) -> None:
    """The negative control: with a worker that is not killed at that place, the demonstration must not succeed."""
    sabotage = (
        "from jobledger.adapters.demo import processes; "
        "processes.Worker.kill = lambda self: (self.stop(), 0)[1]; "
        "from jobledger.adapters.cli.app import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", sabotage, "demo", "--megabytes", "1"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )

    assert done.returncode == 1
    assert "this was promised and not to be seen: worker A was killed with SIGKILL" in done.stderr
    assert not list(tmp_path.iterdir())


def _workers_of(folder: str) -> list[str]:
    """Processes on this machine whose command line names the folder."""
    listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if folder in line and "demo.working" in line]
