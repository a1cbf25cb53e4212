"""Fetches untrusted URLs within limits."""
