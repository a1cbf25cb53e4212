"""Job files of a home."""
