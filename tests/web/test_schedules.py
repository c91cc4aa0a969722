"""Schedules over HTTP and on their pages: what is put stands, controls are guarded, and owners see their own only."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from jobledger import JobStore, ManualClock, Schedule
from jobledger.adapters.web import Principal, Scope
from tests.web.conftest import API, Serve, problem

EVERY_MINUTE: dict[str, Any] = {"owner": "team", "kind": "index", "every_s": 60, "overlap": "allow"}
NAMED: dict[str, Any] = {"name": "a/b ..?&#"}
WHY: dict[str, Any] = {"reason": "look"}
SAME_SITE = {"Sec-Fetch-Site": "same-origin"}
MINUTE = timedelta(minutes=1)


def put(web: httpx.Client, **fields: Any) -> httpx.Response:
    return web.put("/schedule", params=NAMED, json=EVERY_MINUTE | fields)


@pytest.fixture
def pages(web: httpx.Client) -> Iterator[httpx.Client]:
    """A client of the pages, as a browser on them would ask."""
    with httpx.Client(base_url=str(web.base_url).removesuffix(f"{API}/"), headers=SAME_SITE, timeout=20) as client:
        yield client


# The API --------------------------------------------------------------------------------------------------------------


def test_a_schedule_of_any_name_is_put_read_and_listed(web: httpx.Client) -> None:
    """A name may hold what an address could not; so it stands in the query."""
    first, again = put(web), put(web)

    assert (first.json()["reused"], again.json()["reused"]) == (False, True)
    read = web.get("/schedule", params=NAMED)
    assert read.json()["name"] == NAMED["name"]
    assert read.headers["etag"] == first.headers["etag"] == '"1-1"'
    assert [each["name"] for each in web.get("/schedules").json()["schedules"]] == [NAMED["name"]]
    assert web.get("/schedule/upcoming", params=NAMED | {"n": 2}).json() == {
        "instants": ["2026-06-01T12:01:00Z", "2026-06-01T12:02:00Z"]
    }


def test_what_putting_a_schedule_would_do_is_told_and_not_done(web: httpx.Client) -> None:
    put(web)

    told = web.post("/schedule/compare", params=NAMED, json=EVERY_MINUTE | {"priority": 3}).json()
    preview = web.post("/schedule/preview", params=NAMED | {"n": 1}, json=EVERY_MINUTE | {"every_s": 3600}).json()

    assert (told["what"], told["fields"]) == ("change", ["priority"])
    assert preview == {"instants": ["2026-06-01T13:00:00Z"]}
    assert web.get("/schedule", params=NAMED).json()["sequence"] == 1


@pytest.mark.parametrize("control", ["release", "remove"])
def test_a_control_that_must_not_act_late_says_which_schedule_was_seen(web: httpx.Client, control: str) -> None:
    seen = put(web).headers["etag"]
    web.post("/schedule/hold", params=NAMED, json=WHY, headers={"If-Match": seen})
    now = web.get("/schedule", params=NAMED).headers["etag"]

    problem(web.post(f"/schedule/{control}", params=NAMED, json=WHY), 428, "precondition_required")
    late = web.post(f"/schedule/{control}", params=NAMED, json=WHY, headers={"If-Match": seen})
    problem(late, 412, "sequence_moved")
    assert web.post(f"/schedule/{control}", params=NAMED, json=WHY, headers={"If-Match": now}).status_code == 200


def test_a_control_of_a_schedule_needs_a_reason(web: httpx.Client) -> None:
    put(web)

    for control in ("hold", "trigger"):
        problem(web.post(f"/schedule/{control}", params=NAMED, json={}), 422, "invalid_request")
        problem(web.post(f"/schedule/{control}", params=NAMED, json={"reason": " "}), 422, "invalid_request")


def test_a_trigger_repeated_under_its_command_id_is_one_job(web: httpx.Client, store: JobStore) -> None:
    put(web)
    repeated = {"Command-Id": "c1"}

    first, again = (web.post("/schedule/trigger", params=NAMED, json=WHY, headers=repeated) for _ in range(2))

    assert first.status_code == 201
    assert first.json() == again.json()
    assert sum(store.counts().values()) == 1


def test_a_backfill_makes_each_past_job_once(web: httpx.Client, clock: ManualClock) -> None:
    put(web)
    clock.advance(3 * MINUTE)
    asked = {"first": "2026-06-01T12:01:00Z", "last": "2026-06-01T12:02:00Z", "reason": "the source was mended"}

    first, again = (web.post("/schedule/backfill", params=NAMED, json=asked).json() for _ in range(2))

    assert (len(first["job_ids"]), first["reused"]) == (2, 0)
    assert (len(again["job_ids"]), again["reused"]) == (0, 2)


def test_schedulers_fire_what_is_due_over_http(web: httpx.Client, clock: ManualClock) -> None:
    put(web)
    assert web.get("/schedules/due").json() == {"due_at": "2026-06-01T12:01:00Z", "now": "2026-06-01T12:00:00Z"}
    clock.advance(MINUTE)

    report = web.post("/schedules/fire", json={}).json()

    assert (report["fired"], report["skipped"], report["is_done"]) == (1, 0, True)
    names = [each["name"] for each in web.get("/schedule/events", params=NAMED).json()["events"]]
    assert names == ["ScheduleCreated", "ScheduleFired"]
    assert web.get("/schedule/verification", params=NAMED).json()["ok"]


def test_secret_fields_of_a_schedule_are_shown_to_workers_only(web: httpx.Client, serve: Serve) -> None:
    put(web, payload={"user": "ann", "password": "hunter2"})
    reader = serve(principal=Principal("me", None, frozenset({Scope.READ})))

    for path in ("/schedule", "/schedules", "/schedule/events"):
        told = reader.get(path, params=NAMED if path != "/schedules" else {}).text
        assert "hunter2" not in told
        assert "ann" in told


# Owners and scopes ----------------------------------------------------------------------------------------------------


def test_another_owners_schedule_is_answered_like_one_that_does_not_exist(serve: Serve) -> None:
    """Every route by its name: the answers differ in the name alone, also of one that was removed."""
    everybody = serve()
    for name in ("theirs", "gone"):
        everybody.put("/schedule", params={"name": name}, json=EVERY_MINUTE | {"owner": "other"})
    everybody.post("/schedule/remove", params={"name": "gone"}, json=WHY, headers={"If-Match": "*"})
    mine = serve(principal=Principal("me", "team"))
    past = {"first": "2026-06-01T11:00:00Z", "last": "2026-06-01T11:30:00Z"}

    calls = [
        *[("GET", f"/schedule{each}", None) for each in ("", "/upcoming", "/events", "/history", "/verification")],
        *[("POST", f"/schedule/{each}", WHY) for each in ("hold", "release", "remove", "trigger")],
        ("POST", "/schedule/backfill", WHY | past),
    ]
    for method, path, body in calls:
        for name in ("theirs", "gone"):
            answers = [
                mine.request(method, path, params={"name": each}, json=body, headers={"If-Match": "*"})
                for each in (name, "missing")
            ]
            problem(answers[0], 404, "unknown_schedule")
            assert answers[0].text.replace(name, "missing") == answers[1].text, path
    assert mine.get("/schedules").json()["schedules"] == []
    problem(mine.get("/schedules", params={"owner": "other"}), 403, "forbidden")
    problem(mine.get("/schedules/due"), 403, "forbidden")
    problem(mine.post("/schedules/fire", json={}), 403, "forbidden")
    body = {"kind": "index", "every_s": 60}
    for call in (
        mine.put("/schedule", params={"name": "theirs"}, json=body),
        mine.post("/schedule/compare", params={"name": "theirs"}, json=body),
    ):
        assert "other" not in problem(call, 422, "invalid_request")["detail"].replace("another", "")


def test_an_owners_schedules_are_paged_past_everybody_elses(serve: Serve) -> None:
    everybody = serve()
    for number in range(6):
        owner = "team" if number % 2 else "other"
        everybody.put("/schedule", params={"name": f"s{number}"}, json=EVERY_MINUTE | {"owner": owner})
    mine = serve(principal=Principal("me", "team"))

    first = mine.get("/schedules", params={"limit": 2}).json()
    rest = mine.get("/schedules", params={"limit": 2, "after": first["next_after"]}).json()

    assert [each["name"] for each in first["schedules"] + rest["schedules"]] == ["s1", "s3", "s5"]
    assert rest["next_after"] is None


def test_each_scope_allows_its_own_on_schedules(serve: Serve) -> None:
    put(serve())
    calls = {
        Scope.READ: ("GET", "/schedule"),
        Scope.OPERATE: ("POST", "/schedule/hold"),
        Scope.AUDIT: ("GET", "/schedule/verification"),
        Scope.WORK: ("POST", "/schedules/fire"),
        Scope.ADMIN: ("POST", "/schedules/rebuild"),
    }
    for scope in (*calls, Scope.SUBMIT):
        web = serve(principal=Principal("me", None, frozenset({scope})))
        for needed, (method, path) in calls.items():
            body = None if method == "GET" else {} if path.startswith("/schedules/") else WHY
            answer = web.request(method, path, params=NAMED, json=body)
            assert (answer.status_code == 403) == (scope not in {needed, Scope.ADMIN}), (scope, path, answer.text)


def test_nobody_puts_a_schedule_in_anothers_name(serve: Serve) -> None:
    web = serve(principal=Principal("me", None, frozenset({Scope.OPERATE})))

    problem(web.put("/schedule", params=NAMED | {"by": "the boss"}, json=EVERY_MINUTE), 403, "forbidden")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"every_s": 0.5}, "Schedule.every"),
        ({"every_s": 1e300}, "Schedule.every"),
        ({"every_s": None, "cron": "61 * * * *"}, "column 1"),
        ({"every_s": None, "cron": "0 0 1-100000000 * *"}, "column 5"),
        ({"zone": "../../etc/passwd", "every_s": None, "cron": "* * * * *"}, "no time zone"),
        ({"overlap": "sometimes"}, "skip, queue, allow"),
        ({"window_s": 1}, "Schedule.window"),
        ({"labels": {"schedule": "x"}}, "the schedule's own"),
    ],
)
def test_a_mistaken_schedule_is_refused_with_its_field(web: httpx.Client, given: dict[str, Any], said: str) -> None:
    assert said in problem(put(web, **given), 422, "invalid_request")["detail"]
    problem(web.get("/schedule", params=NAMED), 404, "unknown_schedule")


# The pages ------------------------------------------------------------------------------------------------------------


def test_the_page_tells_when_a_schedule_is_due_and_what_became_of_it(
    pages: httpx.Client, store: JobStore, clock: ManualClock
) -> None:
    store.schedules.put(Schedule("nightly", "index", cron="30 2 * * mon-fri", zone="Europe/Berlin"), by="ann")
    store.schedules.put(Schedule("often", "index", every=60), by="ann")
    clock.advance(4 * MINUTE)
    store.schedules.fire_due()

    listed = pages.get("/schedules").text
    nightly = pages.get("/schedule", params={"name": "nightly"}).text
    often = pages.get("/schedule", params={"name": "often"}).text

    assert "At 02:30 on Monday through Friday" in listed
    assert nightly.count("02:30:00 CEST") == 5
    assert "Every 1m" in often
    assert "coalesced" in often
    assert 'class="state state-queued"' in often


def test_the_page_says_where_the_clock_changes(pages: httpx.Client, store: JobStore, clock: ManualClock) -> None:
    """Its times of day look the same there, and are an hour more or less apart."""
    nightly: dict[str, Any] = {"cron": "30 2 * * *", "zone": "Europe/Berlin"}
    store.schedules.put(Schedule("summer", "index", **nightly), by="ann")
    clock.advance(timedelta(days=145))  # two days before the end of summer time
    store.schedules.put(Schedule("autumn", "index", **nightly), by="ann")

    assert "changes between" not in pages.get("/schedule", params={"name": "summer"}).text
    assert "The clock of Europe/Berlin changes" in pages.get("/schedule", params={"name": "autumn"}).text


@pytest.mark.parametrize("control", ["hold", "trigger", "backfill", "remove"])
def test_a_control_of_a_schedule_is_asked_on_its_page(
    pages: httpx.Client, web: httpx.Client, store: JobStore, clock: ManualClock, control: str
) -> None:
    put(web)
    clock.advance(3 * MINUTE)
    form = {"reason": "as planned", "seen": 1, "first": "2026-06-01T12:01", "last": "2026-06-01T12:02:00"}
    address = f"/schedule/controls/{control}"

    accepted = pages.post(address, params=NAMED, data=form)

    assert accepted.status_code == 303, accepted.text
    last = list(store.schedules.history(NAMED["name"]))[-1]
    assert (last.data["by"], last.data["reason"]) == ("operator", "as planned")


def test_a_control_of_a_schedule_that_moved_is_refused_on_its_page(
    pages: httpx.Client, web: httpx.Client, store: JobStore
) -> None:
    put(web)
    store.schedules.hold(NAMED["name"], by="bob", reason="mine")

    late = pages.post("/schedule/controls/remove", params=NAMED, data={"reason": "r", "seen": 1})
    wrong = pages.post("/schedule/controls/backfill", params=NAMED, data={"reason": "r", "first": "x", "last": "y"})

    assert (late.status_code, wrong.status_code) == (412, 422)
    assert 'role="alert"' in late.text
    assert "hold_in_force" in late.text
    assert store.schedules.get(NAMED["name"]).is_removed is False


def test_a_form_of_another_site_changes_no_schedule(pages: httpx.Client, web: httpx.Client, store: JobStore) -> None:
    put(web)

    for site in ("cross-site", "same-site"):
        answer = pages.post(
            "/schedule/controls/remove", params=NAMED, data=WHY | {"seen": "1"}, headers={"Sec-Fetch-Site": site}
        )
        assert answer.status_code == 403
    problem(
        web.put("/schedule", params=NAMED, json=EVERY_MINUTE, headers={"Origin": "https://x.example"}),
        403,
        "cross_site",
    )
    assert store.schedules.get(NAMED["name"]).sequence == 1
