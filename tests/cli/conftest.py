"""Fixtures of the command line's tests."""

from pathlib import Path

import pytest

from tests.cli.given import Desk


@pytest.fixture
def empty(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk whose store does not exist yet."""
    path = tmp_path / "jobs.db"
    url = f"sqlite:///{path}"
    monkeypatch.setenv("JOBLEDGER_STORE", url)
    for name in ("JOBLEDGER_NAMESPACE", "FORCE_COLOR", "JOBLEDGER_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return Desk(url, path, capsys)


@pytest.fixture
def desk(empty: Desk) -> Desk:
    """A desk whose store exists, and is empty."""
    with empty.store():
        pass
    return empty
