"""The kit as a pytest fixture, for a project's ``conftest.py``.

``pytest_plugins = ["jobledger.testing.pytest_plugin"]`` makes the fixture ``job_tester`` known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jobledger.testing.tester import JobTester


@pytest.fixture
def job_tester() -> Iterator[Callable[..., JobTester]]:
    """Makes testers, ``job_tester(Rebuild, send_mail)``, and closes their stores when the test is over."""
    made: list[JobTester] = []

    def make(*handlers: Any, **options: Any) -> JobTester:
        tester = JobTester(*handlers, **options)
        made.append(tester)
        return tester

    yield make
    for each in made:
        each.close()
