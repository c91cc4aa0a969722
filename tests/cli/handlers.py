"""A module of handlers for tests that type ``worker`` and never get to run one."""

from jobledger.adapters.worker import durable_job


@durable_job("k")
def handler() -> None:
    """Do nothing."""
