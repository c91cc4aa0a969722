"""Tests of the demonstration, as users start it."""
