"""A short fuzz of the whole API at each full run; ``scripts/fuzz`` is the long one."""

from __future__ import annotations

import pytest

from tests.web.fuzz import fuzz

pytest.importorskip("schemathesis", reason="the API is fuzzed with schemathesis (extra 'test')")


@pytest.mark.slow
def test_no_request_that_the_document_allows_is_answered_out_of_its_schema() -> None:
    """Nor with a fault; and afterwards every history is whole."""
    fuzzed = fuzz(150, seed=8, patience=300)

    assert fuzzed.is_clean, fuzzed.said[-8_000:]
    assert fuzzed.cases >= 150
