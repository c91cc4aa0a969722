"""Read models: what there is to know about jobs, folded from their events."""
