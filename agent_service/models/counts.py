"""Numbers of providers that are kept: what cannot be one counts as nothing, and breaks no sum."""

_MOST_TOKENS = 10**12
_MOST_USD = 10**6
"""Of one call; a database keeps sums of such in 64 bits."""
_MICRO = 1_000_000


def tokens(value: object) -> int:
    """A number of tokens."""
    # A boolean is an int, too, and no record of the wire takes one.
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 <= value <= _MOST_TOKENS else 0


def micro_usd(value: object) -> int | None:
    """A price in US dollars, in millionths of one; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(value * _MICRO) if 0 <= value <= _MOST_USD else None
