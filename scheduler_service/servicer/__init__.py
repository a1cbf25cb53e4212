"""The RPCs of the scheduler."""
