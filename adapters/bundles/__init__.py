"""Bundles as files: written whole or not at all, compressed by their name, read back, and imported."""
