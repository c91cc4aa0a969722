"""The stores that worker tests run over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobledger.adapters.bootstrap import JobStore
from tests.worker.hosting import POLICIES, opened
from tests.worker.outages import FragileStorage


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobStore]:
    """An empty store of each kind, on the machine's clock."""
    url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, policies=POLICIES) as store:
        yield store


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[JobStore]:
    """An empty store on disk, where one kind of store is enough and takes time."""
    with JobStore.open(f"sqlite:///{tmp_path / 'jobs.db'}", policies=POLICIES) as store:
        yield store


@pytest.fixture
def memory() -> Iterator[JobStore]:
    """An empty store in memory, where the kind of store makes no difference."""
    with opened() as store:
        yield store


@pytest.fixture
def fragile() -> FragileStorage:
    """A storage that the test may take down."""
    return FragileStorage()
