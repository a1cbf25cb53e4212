"""Speech, sound and pictures."""
