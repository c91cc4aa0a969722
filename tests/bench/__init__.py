"""The benchmark: jobledger beside the engines that a user would pick instead, alternating in one run on one server."""
