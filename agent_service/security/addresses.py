"""Addresses as programs are given them: which one leads to this machine itself."""

import re

_HOST = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?"
    r"(?:localhost|ip6-localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\])(?::\d{0,5})?(?:[/?#].*)?",
    re.IGNORECASE | re.DOTALL,
)
URL = re.compile(r"(?:https?|ftp|git|ssh)://[^\s'\"<>`\\)\]}]+", re.IGNORECASE)
"""An address with its scheme, wherever it stands in a text."""
_PROXY = re.compile(r"\w*_proxy", re.IGNORECASE)


def leads_away(variable: str, value: str) -> bool:
    """Whether a variable has programs ask somebody elsewhere instead of whom they are told to."""
    if _PROXY.fullmatch(variable) is None or variable.lower() == "no_proxy":
        return False
    return bool(value) and not is_local(value)


def is_local(address: str) -> bool:
    """Whether an address is one of this machine, or of a file on it.

    One with a user's name is none: programs differ on where that ends and the host begins.
    """
    return (
        address in ("::1", "::")
        or address.startswith("file:///")
        or _HOST.fullmatch(address) is not None
    )
