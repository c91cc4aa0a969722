"""`jobledger worker`: it runs a module's handlers as a process of its own, and ends in order."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from jobledger.adapters.worker import DrainedAttempt, DrainReport, JobHost
from jobledger.domain.job import State
from tests.cli.given import Desk, program

MODULE = """
from jobledger.adapters.worker import JobContext, durable_job

@durable_job("greet")
def greet(job: JobContext, name: str) -> str:
    return f"hello {name}"

@durable_job("fail")
def fail(job: JobContext) -> None:
    raise ValueError("\\x1b[31mred")

not_a_handler = 3
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a module of handlers."""
    (tmp_path / "greeting.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "broken.py").write_text("import no_such_module\n", encoding="utf-8")
    (tmp_path / "leaving.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    (tmp_path / "odd.py").write_text("class X(BaseException): ...\nraise X('odd')\n", encoding="utf-8")
    (tmp_path / "nothing.py").write_text("x = 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_runs_jobs_until_a_signal_and_exits_0(empty: Desk, project: Path, number: int) -> None:
    """It makes the store, so that workers and producers may start in any order."""
    with subprocess.Popen(
        program("worker", "greeting", "--name", "worker-a", "--queue", "default"),
        cwd=project,
        env={**os.environ, "JOBLEDGER_STORE": empty.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        said = running.stdout.readline()
        job_id = empty.job(kind="greet", payload={"name": "Ada"})
        with empty.store() as store:
            status = store.wait(job_id, 30)
        running.send_signal(number)
        _, log = running.communicate(timeout=30)

    assert said == "worker worker-a works on fail, greet; SIGTERM or Ctrl-C ends it in order\n"
    assert (status.state, status.result) == (State.COMPLETE, "hello Ada")
    assert running.returncode == 0
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        ("no_such", "'no_such' cannot be imported (ModuleNotFoundError"),
        ("broken", "'broken' cannot be imported (ModuleNotFoundError: No module named 'no_such_module')"),
        ("leaving", "'leaving' cannot be imported (SystemExit"),
        ("odd", "'odd' cannot be imported (X: odd)"),
        ("nothing", "'nothing' registers no handler"),
        ("greeting:absent", "'greeting' has no 'absent'"),
        ("greeting:not_a_handler", "register it with @durable_job"),
        ("greeting:greet,greet", "it is given twice"),
        ("", "cannot be imported"),
        (":", "cannot be imported"),
        (".greeting", "cannot be imported"),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_module_that_cannot_be_used_is_named(empty: Desk, module: str, problem: str) -> None:
    shown = empty("worker", module)

    assert shown.code == 2
    assert problem in shown.err


@pytest.mark.parametrize("option", [("--concurrency", "0"), ("--drain", "nan"), ("--queue", ""), ("--group", "")])
@pytest.mark.usefixtures("project")
def test_an_option_out_of_its_range_is_bad_input(empty: Desk, option: tuple[str, str]) -> None:
    assert empty("worker", "greeting", *option).code == 2


def test_what_a_drain_left_is_named(desk: Desk, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator sees which jobs will be taken over, and why."""
    del project
    left = DrainedAttempt("job-7", 3, "its handler had not ended\x1b[31m by the deadline")
    monkeypatch.setattr(JobHost, "run", lambda *_: 1)
    monkeypatch.setattr(JobHost, "report", DrainReport(left=(left,)))

    shown = desk("worker", "greeting")

    assert shown.code == 3
    assert "jobledger: left: job job-7, generation 3: its handler had not ended\\x1b[31m by the deadline\n" in shown.err
