"""Tests of the pure rules: given facts, when a command, then facts or a refusal."""
