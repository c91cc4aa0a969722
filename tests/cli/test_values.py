"""JSON values as they are typed: each is stored exactly, or refused by the code of its verdict."""

from pathlib import Path

import pytest

from tests.cases.values import Case, is_same, text_cases
from tests.cli.given import Desk


@pytest.mark.parametrize("case", text_cases(), ids=lambda case: case.name)
@pytest.mark.parametrize("is_file", [False, True], ids=["typed", "file"])
def test_a_payload_is_stored_exactly_or_refused(desk: Desk, tmp_path: Path, case: Case, is_file: bool) -> None:
    """What is read back is what was typed, and no refusal leaves a job behind."""
    assert case.text is not None
    payload = case.text
    if is_file:
        (tmp_path / "in.json").write_text(case.text, encoding="utf-8")
        payload = f"@{tmp_path / 'in.json'}"

    shown = desk("create", "--owner", "a", "--kind", "k", "--payload", payload, "--json")

    if not case.is_stored:
        assert (shown.document["error"]["code"], shown.code) == (case.verdict, 2), case.why
        assert desk("jobs", "--json").document["jobs"] == []
        return
    assert shown.code == 0, case.why
    found = desk("show", shown.document["job_id"], "--json").document
    assert is_same(found["payload"], case.make()), case.why
