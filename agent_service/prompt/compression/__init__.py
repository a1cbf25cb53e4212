"""Keeps a conversation within what its model can read at once."""
