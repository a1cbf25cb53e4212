"""What judges a call before it runs, and its result before the model reads it."""
