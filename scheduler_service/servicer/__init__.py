"""What the scheduler serves."""
