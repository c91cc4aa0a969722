"""The stores themselves: what their port promises, what SQLite adds to it, and what the library may count on."""
