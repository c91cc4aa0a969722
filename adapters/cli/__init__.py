"""The command line: every command is one call of the store, shown to people as tables or to programs as JSON."""
