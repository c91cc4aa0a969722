"""What a person at a terminal sees: tables, safe texts, and how a command ends."""
