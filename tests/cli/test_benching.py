"""``jobledger bench`` measures beside the store, and leaves nothing there."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from jobledger.adapters import measuring
from jobledger.adapters.measuring import MEASURES, measure, place_beside
from jobledger.adapters.storage.postgresql_connecting import place_of
from jobledger.domain.errors import StoreUnavailableError
from tests.cli.given import Desk
from tests.postgresql.stores import fresh_url

pytestmark = pytest.mark.xdist_group("bench")  # on one server, what one of these measures is what another finds


def test_every_measure_gets_a_figure_and_the_store_stays_as_it_is(desk: Desk) -> None:
    before = desk.path.read_bytes()

    found = desk("bench", "--jobs", "20", "--json").document

    assert len(found["measures"]) == MEASURES
    assert all(each["count"] > 0 and each["rate"] > 0 for each in found["measures"])
    assert desk.path.read_bytes() == before
    assert not [each for each in desk.path.parent.iterdir() if "bench" in each.name]


def test_people_get_a_table(empty: Desk) -> None:
    """There need not be a store, and none is made."""
    shown = empty("bench", "--jobs", "20")

    assert shown.code == 0
    assert "claim, run and complete, on a host" in shown.out
    assert not list(empty.path.parent.iterdir())


def test_a_folder_that_does_not_exist_is_told(desk: Desk) -> None:
    shown = desk("--store", "sqlite:////no/such/folder/jobs.db", "bench")

    assert (shown.code, "folder_missing" in shown.err) == (3, True)


def schemas(url: str) -> list[str]:
    with psycopg.connect(place_of(url).conninfo) as connection:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'jobledger%'").fetchall()
    return sorted(name for (name,) in found)


def test_on_postgresql_a_schema_beside_the_store_is_made_and_dropped() -> None:
    url = fresh_url()
    before = schemas(url)
    with place_beside(url) as beside:
        found = list(measure(beside, 20))
        during = schemas(url)

    assert len(found) == MEASURES
    assert len(during) == len(before) + 1
    assert schemas(url) == before


def test_a_measure_that_fails_leaves_nothing_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise StoreUnavailableError("broken by the test")  # its reason

    monkeypatch.setattr(measuring, "_drain", breaks)
    served = fresh_url()
    before = schemas(served)

    for url in (f"sqlite:///{tmp_path / 'jobs.db'}", served):
        with pytest.raises(StoreUnavailableError), place_beside(url) as beside:
            list(measure(beside, 20))

    assert list(tmp_path.iterdir()) == []
    assert schemas(served) == before
