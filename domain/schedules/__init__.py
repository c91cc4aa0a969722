"""Schedules: what one is, which instants it has, and what is decided about each of them."""
