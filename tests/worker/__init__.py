"""The worker runtime: what a handler may rely on, and what a host does when the world breaks."""
