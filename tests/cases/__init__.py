"""Cases that more than one suite runs: data, and the loaders that read it."""
