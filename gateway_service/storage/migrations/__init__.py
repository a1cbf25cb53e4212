"""How the gateway's tables came to be as they are."""

HEAD = "0001"
"""The schema of this version."""
