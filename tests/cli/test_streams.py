"""Processes as scripts meet them: pipes that close, absent streams, signals, and no traceback in any of it."""

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.given import Desk, process, program

FEED = ["watch", "--after", "start", "--json"]


def test_a_reader_that_goes_away_ends_the_command_quietly(desk: Desk) -> None:
    """As in `jobledger watch | head -1`."""
    desk.job()
    with desk.store() as store, _started(FEED, desk) as running:
        assert running.stdout is not None
        assert '"Created"' in running.stdout.readline()
        running.stdout.close()
        [job] = store.jobs().jobs
        store.hold(job.job_id, by="alice", reason="one more event, which nobody reads")
        assert running.stderr is not None
        complaint = running.stderr.read()

    assert (running.returncode, complaint) == (141, "")


@pytest.mark.parametrize("command", [["--help"], ["jobs"], ["create", "--help"]])
def test_a_reader_that_was_never_there_is_no_fault(desk: Desk, command: list[str]) -> None:
    """As in `jobledger --help | true`."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = process(*command, url=desk.url, stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("closed", [(1,), (0, 1, 2), (2,)])
def test_closed_streams_are_no_failure(desk: Desk, closed: tuple[int, ...]) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {" ".join(f"{number}>&-" for number in closed)}', "sh", *program("jobs")],
        env={**os.environ, "JOBLEDGER_STORE": desk.url},
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert desk("jobs").code == 0, "the store is whole"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full device")  # noqa: PTH110  # a device
@pytest.mark.parametrize("ending", [[], ["--json"]])
def test_an_output_that_cannot_be_written_exits_3(desk: Desk, ending: list[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123  # a device
        done = process("jobs", *ending, url=desk.url, stdout=full, stderr=subprocess.PIPE)

    assert done.returncode == 3
    assert "Traceback" not in done.stderr


def test_an_encoding_that_lacks_characters_shows_escapes(desk: Desk) -> None:
    job_id = desk.job(owner="Ω")

    done = process("show", job_id, url=desk.url, environment={"PYTHONIOENCODING": "ascii"}, capture_output=True)

    assert done.returncode == 0
    assert "\\u03a9" in done.stdout


@pytest.mark.parametrize("command", [FEED, ["watch", "{id}", "--json"]])
def test_ctrl_c_exits_130_without_a_word(desk: Desk, command: list[str]) -> None:
    job_id = desk.job()
    with _started([part.format(id=job_id) for part in command], desk) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.send_signal(signal.SIGINT)
        _, complaint = running.communicate(timeout=30)

    assert (running.returncode, complaint) == (130, "")


def test_colours_are_for_terminals_and_end_with_no_color(desk: Desk) -> None:
    job_id = desk.job()
    plain = process("show", job_id, url=desk.url, capture_output=True)
    forced = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    coloured = process("show", job_id, url=desk.url, environment=forced, capture_output=True)
    bare = process("show", job_id, url=desk.url, environment={**forced, "NO_COLOR": "1"}, capture_output=True)

    assert "\x1b[" not in plain.stdout
    assert "\x1b[36mqueued" in coloured.stdout
    assert "\x1b[3" not in bare.stdout


def test_a_payload_is_read_from_the_standard_input(desk: Desk) -> None:
    given = ("create", "--owner", "a", "--key", "k", "--kind", "rebuild", "--payload", "-")

    made = process(*given, url=desk.url, input='{"from": "a pipe"}', capture_output=True)
    absent = process(*given, url=desk.url, stdin=subprocess.DEVNULL, capture_output=True)

    assert (made.returncode, absent.returncode) == (0, 2)
    assert desk("jobs", "--json").document["jobs"][0]["payload"] == {"from": "a pipe"}


def _started(command: list[str], desk: Desk) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "jobledger", *command],
        env={**os.environ, "JOBLEDGER_STORE": desk.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
