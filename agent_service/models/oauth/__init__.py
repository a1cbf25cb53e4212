"""Logins at model providers: how one logs in, and how what comes of it stays usable."""
