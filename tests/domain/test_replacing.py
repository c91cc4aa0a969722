"""Quick copies of frozen values are the copies that the standard library makes."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from jobledger.domain.job import Job, State
from jobledger.domain.replacing import replace
from tests.domain.given import NOON, claimed, created, replay


def test_a_copy_is_the_one_that_the_standard_library_makes() -> None:
    job = replay([created(), claimed(generation=1)])
    changes: dict[str, Any] = {"state": State.PAUSED, "attempt": None, "ready_at": NOON + timedelta(hours=1)}

    copy = replace(job, **changes)

    assert copy == dataclasses.replace(job, **changes)
    assert type(copy) is Job


def test_what_was_copied_stays_as_it_was_and_a_copy_is_frozen_too() -> None:
    job = replay([created(), claimed(generation=1)])

    copy = replace(job, sequence=7)

    assert (job.sequence, copy.sequence) == (2, 7)
    with pytest.raises(dataclasses.FrozenInstanceError):
        copy.sequence = 8  # type: ignore[misc]  # that it may not be set is the point


def test_a_field_that_does_not_exist_is_refused_by_name() -> None:
    job = replay([created(), claimed(generation=1)])
    unknown: dict[str, Any] = {"colour": "red"}

    with pytest.raises(TypeError, match="Job has no field colour"):
        replace(job, **unknown)
