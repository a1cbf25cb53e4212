"""Counts and money for people."""


def plural(number: int, one: str, many: str = "") -> str:
    """Format a count, such as `1 file` and `2 files`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def dollars(micro_usd: int) -> str:
    """Format an amount with cents, below a dollar with more digits."""
    usd = micro_usd / 1_000_000
    return f"${usd:,.2f}" if usd >= 1 or not micro_usd else f"${usd:.4f}"
