"""The demonstration: a real index is built by real workers, one of which is really killed, and nothing is pretended."""
