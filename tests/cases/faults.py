"""Kinds of faults that engines for durable jobs are known for, and the tests that keep each of them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RECOVERY, CONTROLS, CREATING = "cases/test_faults_recovery", "cases/test_faults_controls", "cases/test_faults_creating"
SIZES, WAITING, NEIGHBOURS = "cases/test_faults_sizes", "cases/test_faults_waiting", "cases/test_faults_neighbours"
LEASES, OPERATING, RECORDS = "contracts/test_leases", "contracts/test_operating", "contracts/test_records"
RENEWAL, HOSTS, HANDLERS = "worker/test_renewal", "worker/test_hosts", "worker/test_handlers"

GUARDED: Final[Mapping[str, tuple[str, ...]]] = {
    # Double execution, stale ends, recovery
    "a finished job is flipped back by a recovery that looked before": (
        f"{RECOVERY}::test_a_recovery_that_looked_before_its_worker_came_back_changes_nothing",
        f"{LEASES}::test_recovery_and_completion_at_once_end_in_one_of_the_two",
    ),
    "a worker that was presumed dead ends a job that another one runs": (
        f"{LEASES}::test_a_stale_worker_can_write_nothing",
    ),
    "a renewal as rare as the lease is long": (
        "domain/test_policies::test_a_renewal_that_comes_too_late_for_its_lease_is_refused_with_both_numbers",
    ),
    "a checkpoint is accepted after the lease ran out": (f"{LEASES}::test_an_expired_lease_can_write_nothing",),
    "a job that runs for longer than a rescue period is run twice": (
        f"{RECOVERY}::test_a_job_that_runs_ten_times_its_lease_is_never_recovered",
        f"{RENEWAL}::test_a_handler_that_waits_longer_than_its_lease_keeps_its_generation",
    ),
    "a node that is replaced under its old name keeps its jobs for ever": (
        f"{RECOVERY}::test_a_worker_that_comes_back_under_its_old_name_is_another_one",
        f"{HOSTS}::test_a_job_of_a_killed_worker_is_taken_over",
    ),
    "a job is recorded as failed and as finished": (
        f"{LEASES}::test_recovery_and_completion_at_once_end_in_one_of_the_two",
    ),
    "two recoverers act on one list": (f"{RECOVERY}::test_of_two_recoverers_with_one_list_one_parks_the_job",),
    "an outcome is kept in memory, and lost or published late": (
        f"{RECOVERY}::test_a_success_that_was_never_committed_is_no_success",
        f"{RENEWAL}::test_a_completion_whose_reply_was_lost_is_completed_once",
    ),
    "recovery takes work that is alive in the same process": (
        f"{LEASES}::test_a_live_lease_refuses_recovery_and_claims",
    ),
    "what remains of a lease is inconsistent, and its job is locked for good": (
        f"{NEIGHBOURS}::test_an_attempt_whose_lease_row_is_gone_is_recovered",
        f"{NEIGHBOURS}::test_an_attempt_whose_lease_row_is_gone_can_be_recovered_by_its_id",
    ),
    "recovery fails the jobs of kinds that it does not know": (
        f"{RECOVERY}::test_a_sweep_that_knows_no_handler_parks_and_discards_nothing",
    ),
    "a first page of jobs that may not be touched starves the rest": (
        f"{RECOVERY}::test_what_may_not_be_taken_keeps_nobody_from_what_may",
        f"{RECOVERY}::test_a_sweep_takes_as_many_as_it_may_until_none_is_left",
        f"{NEIGHBOURS}::test_a_job_that_cannot_be_recovered_keeps_no_other_from_it",
    ),
    "one row that cannot be read blocks everybody": (
        f"{NEIGHBOURS}::test_a_damaged_job_costs_no_other_its_renewal",
        f"{NEIGHBOURS}::test_a_damaged_job_costs_no_other_its_outcome",
        f"{NEIGHBOURS}::test_a_damaged_job_costs_no_other_its_recovery",
        f"{NEIGHBOURS}::test_a_damaged_job_costs_no_other_its_claim",
        f"{NEIGHBOURS}::test_a_damaged_job_is_one_line_of_an_audit",
    ),
    # Crash loops
    "a crash before the handler begins is not counted": (f"{RECOVERY}::test_an_attempt_counts_from_its_claim",),
    "a payload that cannot be read is tried at full speed": (
        "worker/test_payloads::test_a_misfit_fails_attempts_with_back_off_until_the_budget_is_used_up",
        "worker/test_payloads::test_a_misfit_is_no_hot_loop",
    ),
    # Cancel and pause
    "a cancel is accepted, then a success is stored, and nobody is told": (
        f"{CONTROLS}::test_a_completion_that_loses_to_a_cancel_request_still_says_so",
        f"{CONTROLS}::test_a_cancel_request_that_loses_to_a_completion_is_told_that_it_is_too_late",
    ),
    "a running job never hears of its cancel without a notice": (
        "worker/test_boundaries::test_a_cancel_is_recorded_at_a_boundary_after_cleanup",
        f"{OPERATING}::test_a_running_job_records_its_safe_boundary_when_it_is_cancelled",
    ),
    "a cancel between two reads of the worker is lost": (
        f"{OPERATING}::test_a_job_may_complete_after_a_cancel_request",
    ),
    "a cancel is kept by workers and not by the store": (
        f"{CONTROLS}::test_a_cancel_without_any_worker_is_never_undone_by_one",
    ),
    "an end comes after another end": (
        "domain/test_fence::test_the_generation_that_ended_the_job_learns_that_it_ended",
        "domain/test_fence::test_the_last_generation_of_a_cancelled_job_learns_that_it_ended",
    ),
    "a paused job times out": (f"{RECOVERY}::test_a_hold_costs_no_budget_however_long_it_stands",),
    "an attempt after a pause never times out": (f"{RECOVERY}::test_an_attempt_after_a_hold_expires_as_any_other",),
    "a job that is too large cannot be cancelled": (f"{CONTROLS}::test_a_job_at_every_cap_can_still_be_controlled",),
    "a wake-up is lost between two writes": (
        f"{CONTROLS}::test_a_hold_that_is_released_as_its_job_parks_leaves_the_job_claimable",
    ),
    "a control is shown that the job refuses": (
        f"{OPERATING}::test_the_controls_that_are_advertised_are_those_that_are_accepted",
    ),
    # Sizes
    "a run is ended for the length of its history": (
        f"{SIZES}::test_a_history_of_thousands_of_events_ends_as_any_other",
    ),
    "a limit holds on one path and not on another": (f"{RECORDS}::test_one_size_rule_holds_on_every_path",),
    "stored state is a multiple of the user's": (f"{SIZES}::test_a_checkpoint_costs_what_it_holds",),
    "a row grows with each attempt": (f"{SIZES}::test_a_job_of_many_attempts_has_a_row_of_the_same_size",),
    "numbers beyond 31 or 53 bits break readers": (f"{SIZES}::test_positions_beyond_any_common_size_are_positions",),
    # Values
    "one error text blocks a whole batch": (f"{SIZES}::test_an_error_text_that_no_store_can_hold_stops_no_other",),
    "a value is refused by one store and taken by another": (
        f"{RECORDS}::test_each_value_is_stored_exactly_or_refused_by_name",
        f"{RECORDS}::test_an_unstorable_value_is_refused_alike_on_every_path",
    ),
    "a result that cannot be stored is found after its effects": (
        "worker/test_endings::test_a_refused_result_commits_no_effects",
    ),
    # Renewal
    "one failed call ends the renewals": (
        f"{RENEWAL}::test_a_failed_renewal_is_no_lost_lease",
        f"{RENEWAL}::test_a_refused_renewal_loses_the_lease_at_once",
    ),
    "a blocked loop starves the renewals": (
        f"{RENEWAL}::test_an_async_handler_that_blocks_its_loop_keeps_its_generation",
        f"{RENEWAL}::test_a_handler_that_holds_the_interpreter_for_long_stretches_keeps_its_generation",
    ),
    "work is claimed that waits for a thread": (f"{HOSTS}::test_never_more_is_claimed_than_there_are_free_slots",),
    "a task is collected while it runs": (f"{HANDLERS}::test_no_task_is_lost_to_the_garbage_collector",),
    "a blocking call stops the event loop of a client": (
        f"{WAITING}::test_an_event_loop_turns_while_a_store_makes_its_caller_wait",
    ),
    "a failed attempt's slot is taken by one that never ended": (
        f"{HOSTS}::test_an_attempt_that_never_ends_is_failed_by_its_host_and_keeps_its_slot",
    ),
    # Outages
    "a worker does not survive an outage of its store": (
        f"{RENEWAL}::test_a_checkpoint_during_an_outage_is_repeated_until_it_is_saved",
        f"{RENEWAL}::test_an_outage_longer_than_a_lease_is_waited_out_at_the_next_call",
    ),
    "one call that hangs stops a worker for ever": (f"{WAITING}::test_a_call_gives_up_when_its_patience_ends",),
    "times of two clocks are mixed": (
        "storage/test_preconditions::test_a_clock_that_was_set_back_revives_no_lease",
        "worker/test_endings::test_a_deferral_waits_by_the_stores_clock",
    ),
    # Idempotency
    "a key is answered for a job that was rolled back": (
        f"{CREATING}::test_a_create_that_was_rolled_back_reserves_nothing",
    ),
    "creators at once get an error and no job": (
        "contracts/test_creating::test_fifty_threads_creating_one_key_make_one_job",
        f"{CREATING}::test_of_two_creates_that_met_nobody_one_makes_the_job",
    ),
    "different payloads count as the same": (f"{CREATING}::test_payloads_that_are_nearly_equal_are_not_the_same",),
    "a job meets the uniqueness of its own key": (
        f"{CONTROLS}::test_a_key_may_be_asked_for_while_its_job_is_made_due",
    ),
    "one duplicate fails its batch": ("contracts/test_creating::test_a_batch_answers_each_item_for_itself",),
    "a key stays reserved after a crash": (
        f"{CREATING}::test_a_create_that_breaks_down_anywhere_leaves_nothing_and_can_be_repeated",
    ),
    # Stopping, events, SQLite
    "a transaction that cannot be undone keeps its lock for ever": (
        f"{CREATING}::test_a_transaction_that_cannot_be_rolled_back_holds_nobody_up",
    ),
    "a stop hangs on a handler that swallows everything": (
        f"{HOSTS}::test_a_handler_that_swallows_everything_does_not_hang_a_drain",
    ),
    "a signal strands jobs, or calls them cancelled": (
        f"{HOSTS}::test_a_drain_says_what_became_of_each_attempt",
        f"{HOSTS}::test_a_signal_drains_a_process_and_it_exits_in_peace",
    ),
    "renewals stop before the work does": (f"{HOSTS}::test_a_drain_longer_than_a_lease_keeps_every_lease",),
    "numbers that were rolled back stop all readers": (
        f"{CREATING}::test_creates_that_were_rolled_back_stop_no_reader",
    ),
    "a busy file reaches the caller": ("contracts/test_processes::test_eight_processes_on_one_store_never_see_a_lock",),
    "a reading transaction becomes a writing one": (
        "storage/test_sqlite_transactions::test_every_write_begins_with_the_lock_in_hand",
    ),
    "parents wait in the pool that their children need": (
        "worker/test_endings::test_parents_that_park_themselves_leave_their_slots_to_their_children",
    ),
    "connections are cut, poolers mix sessions, notices are lost": (
        "postgresql/test_faults::test_a_command_whose_connection_is_cut_takes_effect_once",
        "postgresql/test_pooler::test_a_pooler_changes_no_answer_in_any_history",
        "postgresql/test_wakeups::test_a_broken_ear_is_mended",
    ),
    "a schedule fires twice, never, or at the wrong hour": (
        "contracts/test_schedule_firing::test_eight_schedulers_make_one_job_an_instant",
        "contracts/test_schedule_firing::test_after_ten_thousand_minutes_all_within_the_window_are_caught_up",
        "contracts/test_schedule_instants::test_half_past_two_comes_once_in_spring_and_once_in_autumn",
    ),
    "an instant is missed while its scheduler dies": (
        "contracts/test_schedule_processes::test_a_scheduler_that_is_killed_within_ten_milliseconds_of_a_tick_loses_and_doubles_nothing",
        "contracts/test_schedule_processes::test_eight_schedulers_with_twenty_restarts_in_one_period_make_one_job_an_instant",
    ),
    "a clock that steps back fires a tick again": (
        "contracts/test_schedule_firing::test_a_clock_that_is_set_back_around_a_tick_fires_it_once",
        "contracts/test_schedule_firing::test_a_clock_that_leaps_six_hours_and_back_fires_nothing_twice",
    ),
    "hosts whose clocks differ name one tick differently": (
        "contracts/test_schedule_processes::test_hosts_whose_clocks_differ_by_five_seconds_make_one_job_an_instant",
    ),
    "the clock of a program decides what is due": (
        "contracts/test_schedule_firing::test_the_stores_clock_alone_says_what_is_due",
        "postgresql/test_schema::test_a_clock_is_the_servers",
    ),
    "processes that put one schedule at once fail": (
        "contracts/test_schedule_firing::test_eight_who_put_one_schedule_at_once_make_one",
        "contracts/test_processes::test_processes_that_put_one_schedule_at_once_make_one",
    ),
    "one schedule that cannot be settled stops all others": (
        "contracts/test_schedule_firing::test_one_schedule_that_cannot_be_settled_stops_no_other",
    ),
    "a repeated command on a schedule is told of another time": (
        "contracts/test_schedules::test_a_repeated_command_is_told_of_its_own_time_whatever_came_after",
    ),
    "a worker does not survive a restart of its server": (
        "postgresql/test_faults::test_a_server_that_was_restarted_is_met_by_no_error",
        "postgresql/test_faults::test_jobs_are_done_once_while_sessions_are_killed",
    ),
    "commands that lock in another order wait for each other for ever": (
        "postgresql/test_faults::test_commands_in_opposite_orders_never_deadlock",
        "postgresql/test_faults::test_a_deadlock_with_somebody_elses_locks_is_got_over",
    ),
    "a session hands its settings or locks to the next client of a pooler": (
        "postgresql/test_pooler::test_nothing_of_a_transaction_is_left_in_its_session",
        "postgresql/test_pooler::test_connections_through_a_pooler_prepare_nothing",
    ),
    "commits queue for their notices": (
        "postgresql/test_wakeups::test_many_commits_are_few_notifications",
        "postgresql/test_wakeups::test_renewals_tell_nobody",
    ),
    "a renewal rewrites indexes": ("postgresql/test_plans::test_reports_and_renewals_touch_no_index",),
    "a hot statement reads a whole table": (
        "postgresql/test_plans::test_jobs_are_worked_on_by_index",
        "postgresql/test_plans::test_jobs_are_listed_by_index",
    ),
    "a follower passes over what was committed late": (
        "postgresql/test_feed::test_followers_miss_nothing_and_see_nothing_twice",
        "postgresql/test_feed::test_a_writer_that_dies_holds_nothing_back",
    ),
    "an answer of another version breaks its client": (
        "proof/test_fuzz_documents::test_a_hurt_answer_of_a_server_is_an_answer_or_a_typed_error",
    ),
    "a migration waits for a lock, or is left in halves": (
        "postgresql/test_schema::test_sixteen_processes_that_start_at_once_make_one_schema",
        "storage/test_sqlite_schema::test_sixteen_processes_may_start_at_once_on_an_empty_file",
    ),
    "a process is healthy and does nothing": (
        "worker/test_health::test_a_host_is_not_well_when_no_look_succeeded_for_three_intervals",
    ),
}
"""What goes wrong elsewhere, and the tests of its right value here."""

NOT_YET: Final[Mapping[str, str]] = {
    "settings reach every place in which they work": "there is no configuration file yet",
    "a worker is removed while it claims": "there is no register of workers that a claim could depend on",
    "an interrupted attempt occupies a place that is limited": "there are no limits of concurrency across hosts",
    "a crash while old jobs are pruned leaves half of one": "nothing is pruned yet",
    "one tenant's backlog slows another's claim": "plans of statements are tested, times at a million rows are not",
    "counts make a dashboard time out": "the pages were not timed with a million jobs yet",
}
"""Kinds that the kernel cannot show yet, each with the reason."""
