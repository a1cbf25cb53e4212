"""Numbers of things and of money, as people read them."""


def plural(number: int, one: str, many: str = "") -> str:
    """A number of things, such as `1 file` and `2 files`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def dollars(micro_usd: int) -> str:
    """An amount with cents, and with more digits below a dollar."""
    usd = micro_usd / 1_000_000
    return f"${usd:,.2f}" if usd >= 1 or not micro_usd else f"${usd:.4f}"
