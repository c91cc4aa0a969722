"""Whoever looks at many jobs: totals, workers and operators as of a place in the feed, and how projections stand."""

from tests.cli.given import HOSTILE, Desk, characters_that_act, tamper


def test_totals_say_how_old_they_are(desk: Desk) -> None:
    """Before anything ran them, and when they are behind; then there is nothing to say."""
    desk.job()

    new, run = desk("totals"), desk("projections", "run")
    whole = desk("totals")
    desk.job(key="k2")
    behind = desk("totals")

    assert "nothing is counted" in new.out
    assert "jobledger projections run totals" in new.out
    assert run.code == 0
    assert "rebuild" in whole.out
    assert "behind" not in whole.out
    assert "1 event (" in behind.out
    assert desk("totals", "--json").document["totals"][0]["created"] == 1


def test_totals_are_told_by_minute_and_day(desk: Desk) -> None:
    desk.job()
    desk("projections", "run", "totals")

    [pace] = desk("totals", "--per", "day", "--last", "2", "--json").document["paces"]

    assert pace["created"] == 1
    assert "created" in desk("totals", "--per", "minute").out
    assert desk("totals", "--per", "week").code == 2


def test_workers_and_operators_are_told(desk: Desk) -> None:
    """Other people's names are shown harmless."""
    job_id = desk.job()
    with desk.store() as store:
        store.claim(job_id, worker=HOSTILE)
    desk("hold", job_id, "--by", "ann", "--reason", HOSTILE.replace("\r\n", " "))
    desk("projections", "run")

    workers, asked = desk("workers", "--holding"), desk("operators", "--by", "ann")

    assert (workers.code, asked.code) == (0, 0)
    assert job_id in workers.out
    assert "hold" in asked.out
    assert characters_that_act(workers.out + asked.out) == []
    assert desk("workers", "--holding", "--json").document["workers"][0]["holding"] == 1
    assert desk("workers", "--idle", "--json").document["workers"] == []


def test_a_parked_projection_says_what_to_do(desk: Desk) -> None:
    """Which event, why, and the command that lets it read on once the event is mended."""
    job_id = desk.job()
    tamper(desk.path, "UPDATE stored_events SET state = replace(state, 'rebuild', 'rebuilt' || char(10))")

    parked = desk("projections", "run", "totals")
    listed = desk("projections", "list", "--json").document["projections"]

    assert parked.code == 0
    assert f"totals is parked at {job_id} at sequence 1 (job.created)" in parked.out.replace("\n", " ")
    assert "jobledger projections release totals" in parked.out.replace("\n", " ")
    assert {each["name"]: each["state"] for each in listed}["totals"] == "parked"
    tamper(desk.path, "UPDATE stored_events SET state = replace(state, 'rebuilt' || char(10), 'rebuild')")
    assert desk("projections", "release", "totals").code == 0
    desk("projections", "run", "totals")
    assert desk("totals", "--json").document["totals"][0]["created"] == 1


def test_a_projection_is_rebuilt_by_name(desk: Desk) -> None:
    desk.job()

    shown = desk("rebuild", "totals")

    assert shown.code == 0
    assert "rebuilt totals" in shown.out
    assert desk("totals", "--json").document["totals"][0]["queued"] == 1
    assert desk("projections", "release", "nonsense").code == 2
