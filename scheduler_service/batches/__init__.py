"""Batches: many prompts, each worked on once in a sandbox of its own."""
