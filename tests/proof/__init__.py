"""The proof of the core: invariants, an explorer, a simulator, and the broken twins that both must catch."""
