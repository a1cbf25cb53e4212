"""Becomes the supervisor: the first program of a sandbox at Modal, given to Python as text.

    python3 -I -S -c TEXT '{"place": "/opt/hermes", "digest": "…", "user": 1000, "argv": []}'

Modal starts programs as root, with an environment that reveals much about the host. Commands get
neither: this checks the supervisor's digest, gives the workspace to an ordinary user, becomes that
user and starts the supervisor with a clean environment. The executor uses the same program to
compute the digest.
"""

import hashlib
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


def digest_of(place: str) -> str:
    """Return one digest of the names and contents of all files below a folder."""
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(place):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)  # noqa: PTH118 - the box loads nothing it need not
            with open(path, "rb") as file:  # noqa: PTH123
                content = hashlib.sha256(file.read()).hexdigest()
            digest.update(f"{os.path.relpath(path, place)}\0{content}\n".encode())
    return digest.hexdigest()


def main(request: "dict[str, Any]") -> None:
    """Handle the request; never returns."""
    place, user = request["place"], request["user"]
    if digest_of(place) != request["digest"]:
        sys.exit(f"what lies in {place} is not the supervisor that was sent")
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
