"""The rules of a job: pure functions and frozen values, without clock, chance, input or output."""
