"""What the commands of a random history are drawn from: few values, so that they meet each other."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from jobledger import Effect, JobRequest

index = st.integers(0, 7)
seldom = st.integers(0, 7).map(lambda drawn: drawn == 7)
flag = st.booleans()
payloads = st.sampled_from([None, None, None, {"n": 1}, {"n": 1.0}, {"big": "p" * 5_000}])
states = st.sampled_from([0, 1, {"big": "a" * 5_000}, {"big": "b" * 5_000}])
receipts = st.sampled_from([{"rows": 1}, {"rows": 1.0}, {"big": "r" * 5_000}])
requests = st.builds(
    JobRequest,
    owner=st.just("team"),
    kind=st.sampled_from(["index", "mail"]),
    key=st.sampled_from(["k0", "k1", "k2", None]),
    payload=payloads,
    policy=st.sampled_from(["default", "default", "quick", "quick", "small", "shallow", "shallow", "unheard-of"]),
    queue=st.sampled_from(["default", "slow"]),
    priority=st.sampled_from([0, 0, 5]),
    controls=st.sampled_from([("pause", "cancel", "retry")] * 3 + [("retry",)]),
    submission=st.sampled_from([None, None, "s0", "s1"]),
)
effect: SearchStrategy[Effect] = st.builds(
    Effect, resource=st.sampled_from(["r0", "r1"]), value=payloads, expected_version=st.integers(0, 2)
)
effects: SearchStrategy[list[Effect]] = st.just([]) | st.lists(
    effect, max_size=2, unique_by=lambda staged: staged.resource
)


@dataclass(frozen=True, slots=True)
class Claim:
    """Which job a worker claims, and how."""

    place: int
    group: str
    epoch: int | None
    span: float | None
    respects_hold: bool


@dataclass(frozen=True, slots=True)
class Hand:
    """Which fence a worker presents: its own, a copy from the time of the claim, or one with a wrong token."""

    place: int
    is_old: bool = False
    is_forged: bool = False


claims = st.builds(
    Claim,
    place=index,
    group=st.sampled_from(["default", "default", "blue"]),
    epoch=st.sampled_from([None] * 6 + [1, 2]),
    span=st.sampled_from([None, 1, 60]),
    respects_hold=seldom.map(lambda drawn: not drawn),
)
hands = st.builds(Hand, place=index, is_old=seldom, is_forged=seldom)
outcomes = st.sampled_from(["complete", "complete", "partial", "failed", "unavailable"])
controls = st.sampled_from(["hold", "release_hold", "resume", "request_cancel", "retry"])
