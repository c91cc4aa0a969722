"""The tests: what holds for every job, on every store, through every face."""
