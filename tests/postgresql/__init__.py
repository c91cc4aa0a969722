"""The PostgreSQL store: a private server for the tests, and what only this store promises."""
