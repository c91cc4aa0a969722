"""Queues as aggregates of their own: limits and holds over all hosts, and which jobs they let start."""
