"""Event streams: they resume where they stopped, tell of every gap, and hold little however slow a reader is."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx

from jobledger import JobRequest, JobStore
from jobledger.adapters.web import Principal, WebSettings
from jobledger.adapters.web.streaming import Hub
from jobledger.adapters.wire.histories import FeedEntryOut
from tests.web.conftest import Serve, problem
from tests.web.test_api import created

STREAM = {"Accept": "text/event-stream"}


def messages(response: httpx.Response) -> Iterator[dict[str, str]]:
    """The events of a stream, as their fields; comments are left out."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if not line:
            if "data" in fields:
                yield fields
            fields = {}
        elif name:
            fields[name] = value


def test_a_stream_resumes_behind_the_last_event_that_was_seen(web: httpx.Client) -> None:
    """Nothing is lost and nothing comes twice, whenever the connection broke."""
    for number in range(3):
        created(web, f"k{number}")
    with web.stream("GET", "/feed", headers=STREAM) as first:
        stream = messages(first)
        seen = [next(stream), next(stream)]

    created(web, "k3")
    with web.stream("GET", "/feed", headers=STREAM | {"Last-Event-ID": seen[-1]["id"]}) as second:
        stream = messages(second)
        seen += [next(stream), next(stream)]
        created(web, "k4")
        seen.append(next(stream))

    keys = [json.loads(message["data"])["data"]["key"] for message in seen]
    assert keys == ["k0", "k1", "k2", "k3", "k4"]


def test_a_stream_from_now_begins_at_the_end(web: httpx.Client) -> None:
    created(web, "before")
    with web.stream("GET", "/feed", params={"start": "now"}, headers=STREAM) as response:
        lines = response.iter_lines()
        assert next(lines).startswith(":")
        created(web, "after")
        data = next(line for line in lines if line.startswith("data: "))

    assert json.loads(data.removeprefix("data: "))["data"]["key"] == "after"


def test_a_stream_shows_one_owners_events_only(serve: Serve) -> None:
    everybody = serve()
    mine = serve(principal=Principal("me", "team"))
    with mine.stream("GET", "/feed", headers=STREAM) as response:
        everybody.post("/jobs", json={"owner": "other", "kind": "k"}, headers={"Idempotency-Key": "theirs"})
        created(mine, "mine")

        assert json.loads(next(messages(response))["data"])["data"]["owner"] == "team"


def test_a_job_stream_tells_of_the_boundary(web: httpx.Client, store: JobStore) -> None:
    """A reader that was away for longer than the window holds is given the snapshot to go on from."""
    job_id = created(web, policy="narrow")
    fence = store.claim(job_id, worker="w").fence
    for number in range(60):
        store.report_progress(fence, number)

    with web.stream("GET", f"/jobs/{job_id}/events", headers=STREAM | {"Last-Event-ID": "2"}) as response:
        stream = messages(response)
        reset, following = next(stream), next(stream)

    snapshot = json.loads(reset["data"])
    assert reset["event"] == "reset"
    assert snapshot["sequence"] == int(reset["id"])
    assert json.loads(following["data"])["sequence"] == snapshot["sequence"] + 1


def test_a_job_stream_follows_its_job(web: httpx.Client) -> None:
    job_id = created(web)
    created(web, "another")
    with web.stream("GET", f"/jobs/{job_id}/events", headers=STREAM) as response:
        stream = messages(response)
        assert json.loads(next(stream)["data"])["name"] == "Created"
        web.post(f"/jobs/{job_id}/hold", json={"reason": "look"})

        assert json.loads(next(stream)["data"])["name"] == "HoldPlaced"


def test_long_polling_answers_when_something_happens(web: httpx.Client, store: JobStore) -> None:
    created(web)
    end: Any = web.get("/feed").json()["cursor"]
    later = threading.Timer(0.2, lambda: store.create(JobRequest(owner="team", kind="index", key="later")))
    later.start()
    found = web.get("/feed", params={"after": end, "wait_s": 20}).json()
    later.join()

    assert [entry["data"]["key"] for entry in found["entries"]] == ["later"]


def test_more_streams_than_allowed_are_refused(serve: Serve) -> None:
    web = serve(streams_max=1)
    with web.stream("GET", "/feed", headers=STREAM) as first:
        lines = first.iter_lines()
        next(lines)

        problem(web.get("/feed", headers=STREAM), 503, "too_many_streams")


def test_a_stream_of_a_cursor_that_no_feed_gave_is_refused(web: httpx.Client) -> None:
    problem(web.get("/feed", headers=STREAM | {"Last-Event-ID": "tampered"}), 422, "unknown_cursor")


def test_a_quiet_stream_is_kept_alive(serve: Serve) -> None:
    web = serve(keep_alive_seconds=0.05)
    with web.stream("GET", "/feed", headers=STREAM) as response:
        lines = response.iter_lines()

        assert any(line == ": keep-alive" for line in lines)


def test_a_slow_reader_is_cut_off_and_told_where_to_resume(store: JobStore) -> None:
    """No more than the bound ever waits for it, and nothing is lost to whoever resumes."""

    async def follow() -> tuple[int, bytes]:
        hub = Hub(store, WebSettings(stream_entries_max=5))
        stream = hub.stream(owner=None, job_id=None, after=None, is_from_now=False, show=FeedEntryOut.of)
        await anext(stream)
        store.create(JobRequest(owner="team", kind="index", key="k0"))
        last = await anext(stream)
        [listener] = next(iter(hub._tails.values())).listeners  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # what waits is seen nowhere else
        for number in range(1, 30):
            store.create(JobRequest(owner="team", kind="index", key=f"k{number}"))
        while not listener.is_cut_off:
            await listener.woken.wait()
            listener.woken.clear()
        waiting = listener.waiting.qsize()
        reset = await anext(stream)
        await hub.close()
        assert reset.startswith(b"event: reset")
        return waiting, last + reset

    waiting, told = asyncio.run(follow())

    resume_after = json.loads(told.rpartition(b"data: ")[2])["resume_after"]
    assert waiting <= 5
    assert f"id: {resume_after}".encode() in told
    assert len(store.feed(after=resume_after).entries) == 29
