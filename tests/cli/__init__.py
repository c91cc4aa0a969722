"""Tests of the command line: what people and scripts see, and that nothing else is ever seen."""
