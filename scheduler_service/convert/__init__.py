"""Messages of the scheduler, and of those that it calls."""
