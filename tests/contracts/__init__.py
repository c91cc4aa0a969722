"""One behaviour suite, run in the same words over every store."""
