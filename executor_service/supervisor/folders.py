"""Copies, measures, lists and removes whole workspaces, wherever they are folders.

    supervisor --folders REQUEST    does what the JSON text asks, answers in one line

It is a process of its own on purpose, which may be killed at any time: a copy appears whole, by
rename, or not at all, and what was half removed is removed by the next who is told to.
"""

from __future__ import annotations

import errno
import json
import os
import signal
from contextlib import suppress
from typing import Any

from executor_service.supervisor.copies import CopyRefused, copy, fill
from executor_service.supervisor.keeper import users_of
from executor_service.supervisor.syscalls import die_with_parent
from executor_service.supervisor.trees import NAME, listed, measure, remove, remove_empty

ANSWER = "hermes-folders:"
"""Begins the line that is the answer: a login shell may have said something before."""
_PATIENCE = 10
"""Commands in sandboxes come first."""


def main(argv: list[str]) -> int:
    """Do as the last argument says; returns the exit status."""
    os.umask(0o077)
    request = json.loads(argv[-1])
    if "parent" in request and not die_with_parent(request["parent"]):
        return 1
    # The end of a process that nobody waits for any more. The first one of a container is sent no
    # signal that it does not handle.
    signal.signal(signal.SIGALRM, lambda _signal, _frame: os._exit(128 + signal.SIGALRM))
    signal.alarm(request["within_s"])
    # Nor does one that nobody listens to have anything to complain of.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    with suppress(OSError):
        os.nice(_PATIENCE)
    try:
        answer = answered(request)
    except CopyRefused as error:
        answer = {"error": str(error), "code": error.code}
    except OSError as error:
        where = ascii(error.filename)[:200] if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        answer = {
            "error": f"{error.strerror or error} {where}".strip(),
            "code": "NO_SPACE" if full else "IO_ERROR",
        }
    print(ANSWER + json.dumps(answer), flush=True)  # noqa: T201 - this is how it answers
    return 0


def answered(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request; CopyRefused or OSError says why there is none."""
    do, root = request["do"], request["root"]
    os.makedirs(root, mode=0o700, exist_ok=True)
    if do == "list":
        return {"names": listed(root)}
    if do == "remove_empty":
        return {"gone": [name for name in request["names"] if remove_empty(root, _checked(name))]}
    if do == "measure":
        wanted = {_checked(name): most_bytes for name, most_bytes in request["most_bytes"].items()}
        return {
            "sizes": {
                name: measure(os.path.join(root, name), most_bytes)
                for name, most_bytes in wanted.items()
            }
        }
    name = _checked(request["name"])
    if do == "copy":
        return copy(root, name, _checked(request["target"]), request["most_bytes"])
    if do == "fill":
        return fill(os.path.join(root, name), request["target"], request["most_bytes"])
    if do == "remove":
        # Boxes that are kept beside their workspaces may be those of other executors as well.
        if users_of(os.path.dirname(root), os.path.join(root, name)):
            raise CopyRefused("IN_USE", "a sandbox is over it")
        remove(root, name)
        return {}
    raise CopyRefused("UNKNOWN", f"the request is not known: {do}")


def _checked(name: str) -> str:
    if not NAME.fullmatch(name):
        raise CopyRefused("INVALID", f"{name!r} cannot be the name of a workspace")
    return name
