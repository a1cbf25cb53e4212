"""Logins at model providers, and their renewal."""
