"""Everything that touches the world: stores, workers, the command line, the web and telemetry."""
