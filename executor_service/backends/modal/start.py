"""Becomes the supervisor: the first program of a sandbox at Modal, given to Python as text.

    python3 -I -S -c TEXT '{"user": 1000, "argv": []}'

Modal starts programs as root, with an environment that reveals much about the host. Commands get
neither: this gives the workspace to an ordinary user, becomes that user and starts the supervisor
with a clean environment.
"""

import json
import os
import sys
from typing import Any

_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/workspace",
    "USER": "hermes",
    "LOGNAME": "hermes",
    "LANG": "C.UTF-8",
}


def main(request: "dict[str, Any]") -> None:
    """Handle the request; never returns."""
    user = request["user"]
    if os.geteuid() == 0:
        _hand_over("/workspace", user)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if not os.access("/workspace", os.W_OK | os.X_OK):
        sys.exit(f"user {user} may not write to /workspace")
    os.execve(sys.executable, [sys.executable, *request["argv"]], _ENVIRONMENT)  # noqa: S606


def _hand_over(folder: str, user: int) -> None:
    try:
        os.chown(folder, user, user)
    except OSError as error:
        # The check whether the user may still write there follows.
        print(f"{folder} stays root's: {error}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
