"""Addresses as programs are given them: which lead elsewhere, and which variables lead there."""

import re

from agent_service.security.commands.marks import PORT, UNKNOWN
from agent_service.security.commands.paths import HOME

_LOCAL = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?"
    r"(?:localhost|ip6-localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\])"
    rf"(?::(?:\d{{0,5}}|{PORT}{UNKNOWN}?))?(?:[/?#].*)?|::1?"
    # Databases take a user's name before the host, and mean it so.
    r"|(?!https?|ftp|ws)[a-z]\w*://[^/@\s]*@(?:localhost|127\.0\.0\.1)(?:[:/?].*)?"
    r"|(?:unix|data|about|chrome|npipe|mem|cid|fd|jar|memory|sqlite\d?|file):.*",
    re.IGNORECASE | re.DOTALL,
)
URL = re.compile(r"(?:https?|ftp|git|ssh)://[^\s'\"<>`\\)\]}]+", re.IGNORECASE)
"""An address with its scheme, wherever it stands in a text."""
ADDRESS = re.compile(r"(?<![\w+.-])[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>`\\)\]}]+", re.IGNORECASE)
"""An address of any scheme."""
_PROXY = re.compile(r"(?!no_proxy)\w*_proxy", re.IGNORECASE)
_CONFIG = re.compile(
    r"CURL_HOME|(?:SYSTEM_)?WGET2?RC|GIT_CONFIG(?:_(?:GLOBAL|SYSTEM|PARAMETERS|VALUE_\d+))?|"
    r"GIT_PROXY_COMMAND|HTTPIE_CONFIG_DIR"
)
"""Name what a program is configured by, such as a proxy."""
_HOMES = {"HOME": HOME, "XDG_CONFIG_HOME": f"{HOME}/.config"}
"""Name where programs look for their settings, each with where that is by itself."""


def leads_away(variable: str, value: str) -> bool:
    """Whether a variable has programs ask somebody elsewhere instead of whom they are told to."""
    return bool(value) and _PROXY.fullmatch(variable) is not None and not is_local(value)


def reconfigures(variable: str, value: str) -> bool:
    """Whether a variable has a program take its settings from elsewhere than it does by itself."""
    return _CONFIG.fullmatch(variable) is not None and value not in ("", "/dev/null")


def moves_home(variable: str, value: str) -> bool:
    """Whether a variable has programs look for their settings in another home than the user's."""
    return variable in _HOMES and value not in ("", _HOMES[variable])


def is_local(address: str) -> bool:
    """Whether an address is one of this machine, or of a file on it.

    One of the web with a user's name is none: programs differ on where that ends.
    """
    return _LOCAL.fullmatch(address) is not None
