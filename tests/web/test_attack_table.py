"""The table of bad inputs and attacks: what each has to come to, and the tests that show it, also outside of HTTP."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]
ATTACKS, API, PAGES = "web/test_attacks.py", "web/test_api.py", "web/test_dashboard.py"

# What is tried, and where its outcome is shown.
TABLE: Final[dict[str, tuple[str, ...]]] = {
    "a create that is not safe to repeat": (f"{ATTACKS}::test_a_create_without_a_key_is_refused",),
    "one key by a hundred at once": (f"{ATTACKS}::test_one_key_at_once_by_many_makes_one_job",),
    "a payload that differs in form alone": (f"{ATTACKS}::test_payloads_are_compared_by_their_canonical_form",),
    "another owner's key": (f"{ATTACKS}::test_the_same_key_of_another_owner_is_another_job",),
    "a key that no header should carry": (f"{ATTACKS}::test_a_key_that_no_header_should_carry_is_refused",),
    "guessed ids": (
        f"{ATTACKS}::test_guessing_ids_is_ended",
        f"{ATTACKS}::test_another_owners_job_is_answered_like_one_that_does_not_exist",
    ),
    "fields that nobody may set": (f"{ATTACKS}::test_fields_that_nobody_may_set_are_refused",),
    "a stale or forged fence": (
        f"{ATTACKS}::test_a_worker_that_was_replaced_or_forged_its_fence_writes_nothing",
        "contracts/test_leases.py::test_a_wrong_token_can_write_nothing",
    ),
    "a renewal after the end": (f"{ATTACKS}::test_a_renewal_after_the_end_is_refused",),
    "work on what is held": (
        f"{ATTACKS}::test_held_work_cannot_be_claimed",
        "domain/test_hold_and_release.py::test_a_hold_leaves_a_running_attempt_running_until_its_boundary",
    ),
    "recovery of a live lease": (f"{ATTACKS}::test_a_live_lease_protects_its_worker",),
    "an operator's request that comes late": (
        f"{API}::test_the_tag_of_a_job_guards_controls_that_must_not_act_late",
        "web/test_schedules.py::test_a_control_that_must_not_act_late_says_which_schedule_was_seen",
        "web/test_queues.py::test_a_release_that_must_not_act_late_says_which_queue_was_seen",
    ),
    "two effects on one resource": (f"{ATTACKS}::test_two_effects_on_one_resource_in_one_step_are_refused",),
    "bodies without end, and bombs": (
        f"{ATTACKS}::test_a_body_beyond_the_limit_is_refused_before_it_is_read",
        f"{ATTACKS}::test_a_body_with_an_encoding_is_refused",
    ),
    "depth, giant integers, NaN, NUL, surrogates": (f"{ATTACKS}::test_what_no_store_may_hold_is_refused",),
    "marks and encodings of text": (f"{ATTACKS}::test_only_json_in_utf_8_is_read",),
    "numbers at their edges": (f"{API}::test_values_travel_exactly",),
    "instants that some store could not read": (
        f"{ATTACKS}::test_an_instant_that_some_store_could_not_read_back_is_refused",
    ),
    "limits and cursors out of bounds": (
        f"{ATTACKS}::test_a_question_out_of_bounds_is_refused",
        "contracts/test_following.py::test_a_cursor_is_good_for_its_own_list_of_its_own_store_alone",
        "proof/test_fuzz_decoders.py::test_a_hurt_cursor_is_no_cursor_or_that_place",
    ),
    "a cursor older than what is kept": (
        f"{API}::test_a_cursor_older_than_the_window_gets_the_boundary",
        "web/test_streams.py::test_a_job_stream_tells_of_the_boundary",
    ),
    "statements in names and filters": (f"{ATTACKS}::test_what_looks_like_a_statement_is_data",),
    "requests from other sites": (
        f"{ATTACKS}::test_a_page_of_another_site_changes_nothing",
        f"{PAGES}::test_a_form_of_another_site_changes_nothing",
        "web/test_schedules.py::test_a_form_of_another_site_changes_no_schedule",
        f"{API}::test_reading_changes_nothing",
    ),
    "scripts in other people's text": (
        f"{PAGES}::test_other_peoples_text_is_shown_as_text",
        f"{PAGES}::test_no_page_has_code_or_style_in_it",
    ),
    "frames, sniffing, and names bound anew": (
        f"{ATTACKS}::test_every_answer_protects_its_reader",
        f"{ATTACKS}::test_an_unknown_host_name_is_refused",
    ),
    "one byte a second": (
        f"{ATTACKS}::test_a_body_that_trickles_is_given_up",
        "web/test_serving.py::test_a_head_that_trickles_is_given_up",
        f"{ATTACKS}::test_headers_without_end_are_refused",
    ),
    "requests that two servers read differently": (
        f"{ATTACKS}::test_a_request_that_two_servers_could_read_differently_is_refused",
        f"{ATTACKS}::test_a_request_without_a_version_is_refused",
    ),
    "an address that the server is made to call": ("web/test_attack_table.py::test_the_server_calls_nobody",),
    "types and topics that name code": (
        f"{ATTACKS}::test_only_json_in_utf_8_is_read",
        "domain/test_history.py::test_an_unknown_topic_stops_the_job_and_imports_nothing",
        "contracts/test_audit.py::test_an_unknown_topic_stops_its_job_and_no_other",
    ),
    "handlers that answer rubbish or take their process along": (
        "worker/test_endings.py::test_a_host_outlives_every_ending",
        "worker/test_endings.py::test_a_giant_result_is_a_failed_attempt",
        "worker/test_processes.py::test_every_end_of_a_process_is_a_typed_end_of_the_attempt_and_the_host_lives",
        "worker/test_processes.py::test_a_child_that_swallows_everything_is_ended_with_all_that_it_started",
    ),
    "names that act on a terminal, a page or a log": (
        "cli/test_escaping.py::test_no_command_shows_what_acts",
        f"{PAGES}::test_other_peoples_text_is_shown_as_text",
        "web/test_serving.py::test_a_line_of_the_log_stays_one_line",
    ),
    "a role that rewrites history": (
        "postgresql/test_roles.py::test_the_app_role_cannot_rewrite_history",
        "postgresql/test_roles.py::test_each_role_may_do_what_its_task_needs_and_nothing_else",
    ),
}


@cache
def named_in(path: Path) -> frozenset[str]:
    """The names of a file's tests."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("attack", TABLE)
def test_every_row_of_the_table_has_its_tests(attack: str) -> None:
    """A row whose test was renamed or removed is no longer shown to hold."""
    for shown in TABLE[attack]:
        path, _, name = shown.partition("::")
        assert name in named_in(TESTS / path), shown


def test_the_server_calls_nobody() -> None:
    """No part of the web face opens a connection, so that no request can make it call an address."""
    face = TESTS.parent / "adapters" / "web"
    callers = {"httpx", "requests", "urllib.request", "http.client", "aiohttp", "smtplib", "ftplib", "socket"}
    found = {
        f"{path.name}: {name}"
        for path in face.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in _imported(node)
        if name in callers
    }

    assert found == set()


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
