"""The HTTP API, version 1: every route is one call of the store."""
