"""Tests of what auditors do: verify, take away, bring back, anchor; and of the checker that shares no code with us."""
