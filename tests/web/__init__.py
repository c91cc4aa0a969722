"""The web face: the API, access, streams, the remote store, the dashboard and telemetry."""
