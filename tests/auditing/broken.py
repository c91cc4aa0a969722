"""Histories that somebody broke by hand, one rule at a time, and sealed again as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.auditing.resealing import Draft

Edit = Callable[[Draft], object]

EARLY: Final = "2026-06-01T11:00:00Z"
NOON: Final = "2026-06-01T12:00:00Z"
LATE: Final = "2026-06-09T12:00:00Z"
BODY: Final = {"size": 1, "value": 1}


@dataclass(frozen=True, slots=True)
class Broken:
    """A story, what was done to it, and the rule by which both checks have to find it."""

    name: str
    story: str
    edit: Edit
    rule: str


def _set(topic: str, nth: int = 0, **fields: Any) -> Edit:
    """Change fields of the nth event of a kind; ``None`` takes one out."""

    def edit(draft: Draft) -> None:
        event = draft.one(topic, nth)
        for name, value in fields.items():
            if value is None:
                event.pop(name, None)
            else:
                event[name] = value

    return edit


def _behind(topic: str, nth: int, inserted: str, *, same: Any = False, **fields: Any) -> Edit:
    """Put an event behind the nth of a kind, at its time; ``same``: by the same command."""

    def edit(draft: Draft) -> None:
        line = draft.all(topic)[nth]
        draft.insert(line, inserted, {"at": line["state"]["event"]["at"]} | fields, same=bool(same))

    return edit


def _drop(topic: str, nth: int = 0) -> Edit:
    return lambda draft: draft.drop(draft.all(topic)[nth])


GRANT: Final[dict[str, Any]] = {"generation": 1, "expires_at": LATE}
SAMPLES: Final[dict[str, dict[str, Any]]] = {
    "job.claimed": {
        "generation": 2,
        "worker": "spy",
        "group": "default",
        "epoch": 1,
        "lease": "PT30S",
        "expires_at": LATE,
        "token_digest": "f" * 64,
    },
    "job.lease_renewed_late": GRANT | {"late_by": "PT1S"},
    "job.checkpointed": GRANT | {"state": BODY},
    "job.unit_recorded": GRANT | {"unit": "new", "receipt": BODY},
    "job.progress_reported": GRANT | {"done": 1},
    "job.interrupted": {"generation": 1, "expires_at": EARLY, "cause": "lease_expired"},
    "job.attempt_failed": {"generation": 1, "error": "broke", "retry_at": LATE},
    "job.paused": {"generation": 1, "cause": "deferred", "ready_at": LATE},
    "job.hold_placed": {"by": "spy", "reason": "r"},
    "job.hold_released": {"by": "spy", "reason": "r"},
    "job.resumed": {"by": "spy", "reason": "r"},
    "job.retry_requested": {"by": "spy", "reason": "r"},
    "job.cancel_requested": {"by": "spy", "reason": "r"},
    "job.cancelled": {"by": "spy", "reason": "r"},
    "job.completed": {"generation": 1, "outcome": "failed", "error": "broke"},
}
"""An event of each kind that could be added."""

FENCED: Final = tuple(topic for topic, fields in SAMPLES.items() if "generation" in fields and topic != "job.claimed")
WRITES: Final = ("job.checkpointed", "job.unit_recorded", "job.progress_reported")


def _after_the_end() -> list[Broken]:
    """Nothing but upkeep follows the end of a job."""
    return [
        Broken(f"{topic} follows the end", "completed", _behind("job.completed", 0, topic, **fields), "terminal")
        for topic, fields in SAMPLES.items()
    ]


def _by_another_generation() -> list[Broken]:
    """Only the open generation writes, whatever it writes."""
    return [
        Broken(
            f"{topic} of generation {generation}",
            "taken_over",
            _behind("job.claimed", 1, topic, **(SAMPLES[topic] | {"generation": generation})),
            "fence",
        )
        for topic in FENCED
        for generation in (1, 3)
    ]


def _when_nothing_runs() -> list[Broken]:
    """No generation writes before it was claimed, or after it gave its lease back."""
    fenced = [(topic, SAMPLES[topic]) for topic in FENCED]
    return [
        *(
            Broken(f"{topic} before any claim", "completed", _behind("job.created", 0, topic, **fields), "fence")
            for topic, fields in fenced
        ),
        *(
            Broken(f"{topic} after the pause", "held", _behind("job.paused", 0, topic, **fields), "fence")
            for topic, fields in fenced
        ),
    ]


def _in_another_order() -> list[Broken]:
    """Times never decrease, whatever happens."""
    topics = [topic for topic in SAMPLES if topic != "job.claimed"]
    return [
        Broken(
            f"{topic} before its time",
            "completed",
            _behind("job.claimed", 0, topic, **(SAMPLES[topic] | {"at": EARLY})),
            "time",
        )
        for topic in topics
    ]


def _leases() -> list[Broken]:
    return [
        *(
            Broken(f"{topic} shortens the lease", "completed", _set(topic, expires_at="2026-06-01T12:00:05Z"), "expiry")
            for topic in WRITES
        ),
        *(Broken(f"{topic} grants the past", "completed", _set(topic, expires_at=EARLY), "expiry") for topic in WRITES),
        Broken(
            "a claim grants too little", "completed", _set("job.claimed", expires_at="2026-06-01T12:00:29Z"), "expiry"
        ),
        Broken("a claim grants the past", "completed", _set("job.claimed", expires_at=EARLY), "expiry"),
        Broken(
            "a late renewal grants nothing", "taken_over", _set("job.lease_renewed_late", expires_at=NOON), "expiry"
        ),
        Broken("a renewal that was in time", "taken_over", _set("job.lease_renewed_late", late_by="-PT1S"), "late"),
        Broken("a renewal later than that", "taken_over", _set("job.lease_renewed_late", late_by="PT1H"), "late"),
        Broken("a live lease is interrupted", "taken_over", _set("job.interrupted", expires_at=LATE), "live_lease"),
        Broken("another expiry was seen", "taken_over", _set("job.interrupted", expires_at=EARLY), "live_lease"),
        Broken("a take-over without its end", "taken_over", _drop("job.interrupted"), "generation"),
        Broken("a generation is left out", "taken_over", _set("job.claimed", 1, generation=3), "generation"),
        Broken("a generation comes again", "taken_over", _set("job.claimed", 1, generation=1), "generation"),
        Broken("the first generation is 0", "completed", _set("job.claimed", generation=0), "generation"),
        Broken(
            "a claim while one is open",
            "completed",
            _behind("job.claimed", 0, "job.claimed", **SAMPLES["job.claimed"]),
            "generation",
        ),
        Broken("a claim without a token", "completed", _set("job.claimed", token_digest=""), "claim"),
        Broken("a claim before it is due", "completed", _set("job.created", ready_at=LATE), "claim"),
        Broken("a claim of deferred work", "held", _set("job.paused", 1, ready_at=LATE), "claim"),
        Broken("a claim under a hold", "held", _drop("job.hold_released", 1), "claim"),
        Broken("a claim that respects no hold", "held", _set("job.claimed", 3, respects_hold=True), "claim"),
        Broken("a claim under the engine's hold", "crash_loop", _drop("job.hold_released"), "claim"),
        Broken(
            "a claim without a budget", "crash_loop", _set("job.created", policy_changes={"interrupts_max": 1}), "claim"
        ),
    ]


def _outcomes() -> list[Broken]:
    effects = [{"resource": "r", "version": 2, "value": BODY}]
    return [
        Broken("a completion that cancels", "completed", _set("job.completed", outcome="cancelled"), "outcome"),
        Broken(
            "a failure without an error",
            "completed",
            _set("job.completed", outcome="failed", result=None, effects=None),
            "outcome",
        ),
        Broken(
            "a failure with a result",
            "completed",
            _set("job.completed", outcome="failed", error="e", effects=None),
            "outcome",
        ),
        Broken(
            "a failure with effects",
            "completed",
            _set("job.completed", outcome="unavailable", error="e", result=None, effects=effects),
            "outcome",
        ),
        Broken("a complete one with an error", "completed", _set("job.completed", error="e"), "outcome"),
        Broken(
            "recovery completes",
            "taken_over",
            _behind("job.interrupted", 0, "job.completed", same=True, generation=1, outcome="complete"),
            "outcome",
        ),
        Broken(
            "a failure beyond the budget", "failures", _set("job.created", policy_changes={"failures_max": 1}), "stop"
        ),
        Broken(
            "a pause for a hold that is not",
            "completed",
            _behind("job.progress_reported", 0, "job.paused", generation=1, cause="hold", ready_at=NOON),
            "stop",
        ),
        Broken("a drain under a hold", "held", _set("job.paused", 0, cause="drain"), "stop"),
        Broken("a hold's pause moves the due time", "held", _set("job.paused", 0, ready_at=LATE), "stop"),
        Broken("a drain that is due later", "held", _set("job.paused", 2, ready_at=LATE), "stop"),
        Broken(
            "parked though a cancel was pending",
            "cancelled",
            _behind("job.cancel_requested", 0, "job.paused", generation=1, cause="drain", ready_at=NOON),
            "stop",
        ),
        Broken(
            "tried again though a cancel was pending",
            "cancelled",
            _behind("job.cancel_requested", 0, "job.attempt_failed", generation=1, error="e", retry_at=LATE),
            "stop",
        ),
        Broken("cancelled by its worker unasked", "cancelled", _drop("job.cancel_requested", 0), "cancel"),
        Broken("cancelled for somebody else", "cancelled", _set("job.cancelled", 1, by="spy"), "cancel"),
        Broken("cancelled for another reason", "cancelled", _set("job.cancelled", 1, reason="because"), "cancel"),
        Broken("cancelled at another boundary", "cancelled", _set("job.cancelled", 1, units=7), "cancel"),
        Broken("cancelled at no checkpoint", "cancelled", _set("job.cancelled", 3, checkpoint_sequence=None), "cancel"),
        Broken("cancelled without its fence", "cancelled", _set("job.cancelled", 1, generation=None), "cancel"),
        Broken("recovered with a cancel, not ended", "cancelled", _drop("job.cancelled", 2), "recovery"),
        Broken("a crash loop that is not parked", "crash_loop", _drop("job.hold_placed"), "recovery"),
    ]


def _operators() -> list[Broken]:
    asked: dict[str, Any] = {"by": "ops", "reason": "r"}
    return [
        Broken("a second hold", "held", _behind("job.hold_placed", 0, "job.hold_placed", **asked), "control"),
        Broken("a release of nothing", "completed", _behind("job.created", 0, "job.hold_released", **asked), "control"),
        Broken(
            "a resume of what was queued", "completed", _behind("job.created", 0, "job.resumed", **asked), "control"
        ),
        Broken("a resume under a hold", "held", _drop("job.hold_released", 0), "control"),
        Broken("a resume of what was leased", "held", _behind("job.paused", 1, "job.resumed", **asked), "control"),
        Broken(
            "a cancel request of what waits",
            "completed",
            _behind("job.created", 0, "job.cancel_requested", **asked),
            "control",
        ),
        Broken(
            "a second cancel request",
            "cancelled",
            _behind("job.cancel_requested", 0, "job.cancel_requested", **asked),
            "control",
        ),
        Broken(
            "a retry of what runs", "completed", _behind("job.claimed", 0, "job.retry_requested", **asked), "control"
        ),
        Broken(
            "a retry under a hold", "held", _behind("job.hold_placed", 0, "job.retry_requested", **asked), "control"
        ),
        Broken(
            "the engine holds for no reason",
            "completed",
            _behind("job.created", 0, "job.hold_placed", by="engine", reason="r"),
            "engine",
        ),
        Broken(
            "the engine holds too early",
            "crash_loop",
            _set("job.created", policy_changes={"lease": "PT2S", "interrupts_max": 3}),
            "engine",
        ),
        *(
            Broken(f"{topic} without its control", story, _set("job.created", nth, controls=[]), "gate")
            for topic, story, nth in (
                ("a hold", "held", 0),
                ("a retry", "failures", 0),
                ("a cancel", "cancelled", 0),
                ("a cancel request", "cancelled", 1),
            )
        ),
    ]


def _identities() -> list[Broken]:
    return [
        Broken("created under another id", "completed", _set("job.created", job_id="another"), "created"),
        Broken("created for another owner", "completed", _set("job.created", owner="spy"), "identity"),
        Broken("created for another key", "completed", _set("job.created", key="spy"), "identity"),
        Broken("created in another namespace", "completed", _set("job.created", namespace="spy"), "identity"),
        Broken("created again", "completed", _created_again, "created"),
        Broken("never created", "completed", _drop("job.created"), "created"),
        Broken(
            "a unit is recorded again",
            "completed",
            _behind("job.unit_recorded", 0, "job.unit_recorded", **(SAMPLES["job.unit_recorded"] | {"unit": "u0"})),
            "unit",
        ),
        Broken("an effect repeats its version", "completed", _effect("job.completed", 1), "effect"),
        Broken("an effect makes version 0", "completed", _effect("job.checkpointed", 0), "effect"),
        Broken("two effects on one resource", "completed", _two_effects, "effect"),
        Broken("a version is left out", "completed", _effect("job.completed", 7), "compare_and_set"),
        Broken("a version of another job's", "shared", _effect("job.completed", 1, nth=2), "compare_and_set"),
        Broken("a group passes over an epoch", "groups", _set("group.epoch_advanced", epoch=3), "epoch"),
        Broken("a group goes back", "groups", _set("group.epoch_advanced", 2, epoch=2), "epoch"),
        Broken("a job's event in a group's stream", "groups", _misplaced, "kind"),
        Broken(
            "an unknown kind of event", "completed", _behind("job.claimed", 0, "job.exploded", by="spy"), "readable"
        ),
        Broken("an event without its fields", "completed", _set("job.checkpointed", generation=None), "readable"),
        Broken("a time that is none", "completed", _set("job.checkpointed", at="yesterday"), "readable"),
        Broken("a version that nobody knows", "completed", _newer, "readable"),
        Broken("a command id beside the event", "completed", _renamed, "command"),
        Broken("a command is applied again", "held", _applied_again, "command"),
        Broken("a payload that is missing", "bodies", _without_body, "body"),
        Broken("a payload that was exchanged", "bodies", _other_body, "body"),
    ]


def _created_again(draft: Draft) -> None:
    created = draft.all("job.created")[0]
    draft.insert(draft.all("job.claimed")[0], "job.created", dict(created["state"]["event"]))


def _effect(topic: str, version: int, nth: int = 0) -> Edit:
    def edit(draft: Draft) -> None:
        draft.one(topic, nth)["effects"][0]["version"] = version

    return edit


def _two_effects(draft: Draft) -> None:
    effects = draft.one("job.completed")["effects"]
    effects.append(effects[0] | {"version": 3})


def _misplaced(draft: Draft) -> None:
    group = draft.all("group.epoch_advanced")[0]
    draft.insert(group, "job.hold_placed", {"at": group["state"]["event"]["at"], "by": "spy", "reason": "r"})


def _newer(draft: Draft) -> None:
    draft.all("job.checkpointed")[0]["state"]["version"] = 2


def _applied_again(draft: Draft) -> None:
    first, last = draft.events[0], draft.events[-1]
    last["state"]["cause"] = dict(first["state"]["cause"])
    last["command_id"] = first["command_id"]


def _renamed(draft: Draft) -> None:
    draft.all("job.checkpointed")[0]["command_id"] = "mine"


def _without_body(draft: Draft) -> None:
    draft.lines.remove(next(line for line in draft.lines if line["line"] == "body"))


def _other_body(draft: Draft) -> None:
    next(line for line in draft.lines if line["line"] == "body")["bytes"] = "spy"


BROKEN: Final = (
    *_after_the_end(),
    *_by_another_generation(),
    *_when_nothing_runs(),
    *_in_another_order(),
    *_leases(),
    *_outcomes(),
    *_operators(),
    *_identities(),
)
"""Every broken history."""
