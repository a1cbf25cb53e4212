"""What the scheduler serves, and its messages."""
