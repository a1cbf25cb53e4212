"""Fetches what others named, within bounds."""
