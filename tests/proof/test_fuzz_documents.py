"""Whatever comes from elsewhere as a document: a bundle, a schedule file, tokens, anchors, an answer of a server.

It is read whole, or refused with a typed error: never another exception, never an import, never a hang.
``JOBLEDGER_EXAMPLES=20000`` looks for longer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from typing import Any, Final

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as for_all
from hypothesis import strategies as st

from jobledger import JobledgerError, JobRequest, JobStore, ManualClock, Schedule
from jobledger.adapters.bundles.importing import import_bundle
from jobledger.adapters.calendars import ZoneCalendar
from jobledger.adapters.cli.schedule_files import schedules_of
from jobledger.adapters.remote import RemoteStore
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.web import create_app
from jobledger.adapters.web.tokens import PREFIX, TokenFile
from jobledger.domain.errors import InvalidError, StoreUnavailableError
from jobledger.domain.schedules.definition import define
from jobledger.projections import anchors
from jobledger.projections.audit import streams, verify_stream
from tests.auditing import stories
from tests.proof.hostile import BYTES, FRAGMENTS, hurt, hurt_value
from tests.proof.test_fuzz_decoders import importing_nothing
from tests.web.serving import serving

PATIENCE: Final = timedelta(seconds=5)
NOON: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
TOLD: Final = ("completed", "bodies", "groups", "derived", "scheduled", "cancelled", "shared", "taken_over")
SLOW: Final = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


# Bundles --------------------------------------------------------------------------------------------------------------


@cache
def bundle(story: str) -> list[bytes]:
    """The lines of a story's bundle."""
    return stories.told(stories.STORIES[story]).splitlines(keepends=True)


@st.composite
def hurt_bundles(draw: st.DrawFn) -> list[bytes]:
    """A bundle with one line hurt, dropped, doubled, or moved."""
    lines = list(bundle(draw(st.sampled_from(TOLD))))
    place = draw(st.integers(0, len(lines) - 1))
    what = draw(st.sampled_from(("hurt", "value", "value", "dropped", "doubled", "moved", "cut")))
    if what == "hurt":
        lines[place] = draw(hurt(lines[place]))
    elif what == "value":
        lines[place] = draw(hurt_value(lines[place]))
    elif what == "moved":
        lines.insert(draw(st.integers(0, len(lines))), lines.pop(place))
    else:
        lines[place : place + 1] = {"dropped": [], "doubled": [lines[place]] * 2, "cut": [lines[place][:-9]]}[what]
    return lines


@SLOW
@for_all(lines=hurt_bundles())
def test_a_hurt_bundle_is_imported_whole_or_refused(lines: list[bytes]) -> None:
    """What was imported can be verified; what is wrong with it is found there, and nowhere else."""
    storage = MemoryStorage(clock=ManualClock(NOON))
    with importing_nothing(), suppress(JobledgerError):
        import_bundle(storage, lines, patience=PATIENCE)
    for stream in streams(storage, "default"):
        with suppress(JobledgerError):
            verify_stream(storage, stream)


@pytest.mark.parametrize("story", TOLD)
def test_each_bundle_itself_is_imported_whole(story: str) -> None:
    """The control: what is hurt above is sound, and says something."""
    storage = MemoryStorage(clock=ManualClock(NOON))

    report = import_bundle(storage, bundle(story), patience=PATIENCE)

    assert report.events > 2
    assert all(verify_stream(storage, stream).ok for stream in streams(storage, "default"))


# Anchors and proofs ---------------------------------------------------------------------------------------------------

ANCHOR: Final = anchors.encode_anchor(anchors.Anchor(3, 5, "ab" * 32, NOON))


@for_all(encoded=BYTES | hurt(ANCHOR) | hurt_value(ANCHOR))
def test_a_hurt_anchor_is_an_anchor_or_is_refused(encoded: bytes) -> None:
    with importing_nothing(), suppress(InvalidError):
        read = anchors.decode_anchors(encoded)
        assert anchors.decode_anchors(b"".join(anchors.encode_anchor(each) for each in read)) == read


@for_all(encoded=BYTES | st.sampled_from(FRAGMENTS))
def test_any_bytes_as_a_proof_are_refused(encoded: bytes) -> None:
    with importing_nothing(), pytest.raises(InvalidError):
        anchors.decode_proof(encoded)


# Schedule files -------------------------------------------------------------------------------------------------------

SCHEDULES: Final = b"""\
[nightly]
kind = "index"
cron = "30 2 * * 1-5"
zone = "Europe/Berlin"
payload = { part = "${date}", rows = [1, 2.5, true] }
start = 2026-01-01T00:00:00Z
window = "2h"
overlap = "queue"
labels = { team = "search" }

[often]
kind = "sweep"
every = "90s"
anchor = 2026-01-01T00:00:00
jitter = 5
priority = -3
"""
TOML: Final = (*FRAGMENTS, b"[x]", b"= 1\n", b'"""', b"2026-13-01", b"07:32:00", b"1979-05-27", b"inf", b"nan", b"0x7f")


@SLOW
@for_all(
    text=hurt(SCHEDULES) | st.sampled_from(TOML) | st.sampled_from(TOML).map(lambda piece: b"[a]\nkind = " + piece)
)
def test_a_hurt_schedule_file_is_read_or_refused(text: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each of its schedules is then one that can be put, or is refused by its name."""
    path = tmp_path_factory.getbasetemp() / "schedules.toml"
    path.write_bytes(text)
    with suppress(InvalidError):
        for schedule in schedules_of(str(path)):
            assert isinstance(schedule, Schedule)
            with suppress(JobledgerError):
                define(schedule, ZoneCalendar())


CRON_PARTS: Final = st.sampled_from(
    (
        "*",
        "0",
        "59",
        "60",
        "*/5",
        "1-5",
        "5-1",
        "L",
        "LW",
        "W",
        "#",
        "5#2",
        "MON",
        "mon-fri",
        "31",
        "2",
        "/",
        ",",
        "-",
        "",
    )
)
CRONS: Final = st.lists(CRON_PARTS, max_size=7).map(" ".join) | st.text(max_size=20)


@SLOW
@for_all(cron=CRONS, zone=st.sampled_from(("UTC", "Europe/Berlin", "Australia/Lord_Howe", "nowhere", "../etc", "")))
def test_any_text_as_a_cron_expression_fires_in_order_or_is_refused(cron: str, zone: str) -> None:
    calendar = ZoneCalendar()
    with suppress(InvalidError):
        calendar.require(cron, zone)
        found = list(islice(calendar.instants(cron, zone, NOON), 5))
        assert found == sorted(set(found))
        assert all(instant > NOON for instant in found)


# Tokens ---------------------------------------------------------------------------------------------------------------


@SLOW
@for_all(data=st.data())
def test_a_hurt_token_file_is_read_or_named_and_makes_nobody_known(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A hurt file never lets a secret in that it did not hold."""
    folder = tmp_path_factory.mktemp("tokens")
    file = TokenFile(folder / "tokens.json")
    made = file.create("ci", ["read"], "team", NOON)
    whole = file.path.read_bytes()
    file.path.write_bytes(data.draw(hurt(whole) | hurt_value(whole) | BYTES))

    with importing_nothing(), suppress(StoreUnavailableError):
        assert all(token.digest for token in file.all())
        assert file.principal(PREFIX + "made-up") is None
        known = file.principal(made.secret)
        assert known is None or known.scopes


@for_all(secret=st.text(max_size=80) | st.text(max_size=40).map(PREFIX.__add__))
def test_any_text_as_a_secret_is_nobodys(secret: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = TokenFile(tmp_path_factory.getbasetemp() / "no-tokens.json")

    assert file.principal(secret) is None


# Answers of a server --------------------------------------------------------------------------------------------------


@dataclass
class Heard:
    """What a server answered to a client's calls, in their order."""

    answers: list[httpx.Response] = field(default_factory=list)

    def hear(self, request: httpx.Request) -> httpx.Response:
        """Pass a request on, and note its answer."""
        with httpx.Client(timeout=30) as client:
            answer = client.send(request)
        self.answers.append(answer)
        return answer


def _lease(store: Any) -> Any:
    return store.claim(store.create(JobRequest(owner="team", kind="index", key="k")).job_id, worker="w1")


def _calls() -> dict[str, Callable[[Any], object]]:
    """What a client asks, each over a store of its own."""
    return {
        "create": lambda store: store.create(JobRequest(owner="team", kind="index", key="k", labels={"a": "b"})),
        "claim": _lease,
        "claim_next": lambda store: (store.create(JobRequest(owner="t", kind="k")), store.claim_next(worker="w")),
        "checkpoint": lambda store: store.checkpoint(_lease(store).fence, {"next": 1}),
        "unit": lambda store: store.record_unit(_lease(store).fence, "u1", {"rows": 1}),
        "complete": lambda store: store.complete(_lease(store).fence, result=[1]),
        "hold": lambda store: store.hold(_lease(store).job_id, by="ann", reason="look"),
        "status": lambda store: store.status(_lease(store).job_id),
        "events": lambda store: store.events(_lease(store).job_id),
        "jobs": lambda store: (_lease(store), store.jobs()),
        "feed": lambda store: (_lease(store), store.feed()),
        "timeline": lambda store: store.timeline(_lease(store).job_id),
        "verify": lambda store: store.verify(_lease(store).job_id),
        "create_many": lambda store: store.create_many([JobRequest(owner="t", kind="k", key="k")] * 2),
        "schedule": lambda store: store.schedules.put(Schedule("s", "index", every=60), by="ann"),
        "schedules": lambda store: (store.schedules.put(Schedule("s", "i", every=60), by="a"), store.schedules.list()),
        "unknown job": lambda store: store.status("nothing"),
        "live lease": lambda store: store.claim(_lease(store).job_id, worker="w2"),
        "mistaken request": lambda store: store.create(JobRequest(owner="t", kind="k", policy="nothing")),
    }


CALLS: Final = _calls()


@pytest.fixture(scope="module")
def heard() -> dict[str, list[httpx.Response]]:
    """By call: the answers of a real server to all that was sent."""
    found: dict[str, list[httpx.Response]] = {}
    for name, ask in CALLS.items():
        with JobStore.open("memory:") as opened, serving(create_app(opened)) as address:
            ear = Heard()
            with RemoteStore(address, transport=httpx.MockTransport(ear.hear)) as remote, suppress(JobledgerError):
                ask(remote)
            found[name] = ear.answers
    return found


@pytest.mark.parametrize("name", CALLS)
@SLOW
@for_all(data=st.data())
def test_a_hurt_answer_of_a_server_is_an_answer_or_a_typed_error(
    name: str, data: st.DataObject, heard: dict[str, list[httpx.Response]]
) -> None:
    """The last answer of a call is hurt, or all of it is somebody else's."""
    answers = heard[name]
    *first, last = answers
    content = data.draw(hurt(last.content) | hurt_value(last.content) | hurt_value(last.content) | BYTES)
    waiting = iter([(each.status_code, each.content) for each in first] + [(last.status_code, content)])

    def answer(_: httpx.Request) -> httpx.Response:
        status, body = next(waiting, (last.status_code, content))
        return httpx.Response(status, content=body, headers={"content-type": "application/json"})

    elsewhere = RemoteStore("http://elsewhere", patience=0.001, transport=httpx.MockTransport(answer))
    told: JobledgerError | None = None
    with elsewhere as remote, importing_nothing():
        try:
            CALLS[name](remote)
        except JobledgerError as error:
            told = error
    assert told is None or str(told)


def test_what_is_hurt_are_answers_and_refusals(heard: dict[str, list[httpx.Response]]) -> None:
    """The control: the server answered, and refused what was to be refused."""
    refused = {name for name, answers in heard.items() if answers[-1].is_error}

    assert refused == {"unknown job", "live lease", "mistaken request"}
    assert all(json.loads(answers[-1].content) for answers in heard.values())
