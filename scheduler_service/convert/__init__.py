"""Between the messages of the wire and the scheduler's own types."""
