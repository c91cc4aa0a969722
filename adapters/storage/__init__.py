"""Places where jobs are kept: in memory and in SQLite files, both over recorders of the eventsourcing library."""
