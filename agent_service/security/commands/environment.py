"""Variables of the environment: what a shell has set before its command says anything."""

import re
from collections.abc import Mapping

from agent_service.security.commands.marks import PORT, UNKNOWN
from agent_service.security.commands.paths import HOME

GIVEN: Mapping[str, str] = {
    "HOME": HOME,
    "PWD": ".",
    "IFS": " ",
    "SHELL": "/bin/bash",
    "BASH": "/bin/bash",
    "USER": "user",
    "LOGNAME": "user",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "TMPDIR": "/tmp",
    "TMP": "/tmp",
    "TEMP": "/tmp",
    "HOSTTYPE": "x86_64",
    "OSTYPE": "linux-gnu",
    "RANDOM": "1",
    "$": "4242",
    "?": "0",
    "#": "0",
    "!": "4242",
    "-": "himBHs",
    "0": "bash",
    "@": "",
    "*": "",
    "UID": "1000",
    "EUID": "1000",
    "HERMES_HOME": f"{HOME}/.hermes",
    "XDG_CONFIG_HOME": f"{HOME}/.config",
    "XDG_DATA_HOME": f"{HOME}/.local/share",
    "XDG_CACHE_HOME": f"{HOME}/.cache",
    "LINENO": "1",
    "PPID": "4242",
    "EDITOR": "vi",
    "PAGER": "less",
    **{str(number): "" for number in range(1, 10)},
}
"""What they hold, or the like of it."""
_PORT = re.compile(r"(?:\w*_)?PORT\d*", re.IGNORECASE)


def untold(name: str) -> str:
    """What stands for a variable of which nothing else is known than its name."""
    return PORT if _PORT.fullmatch(name) else UNKNOWN
