"""Keeps a library of skills small and current: what is merged, put away, backed up, restored."""
