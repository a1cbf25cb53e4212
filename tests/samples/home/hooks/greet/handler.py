"""A hook of an older home."""


def handle(event_type: str, context: object) -> None:
    """Do nothing."""
