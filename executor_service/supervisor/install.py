"""Installs the supervisor on a machine; runs there straight from its source text.

The arguments are the folder and the SHA-256 of the supervisor's zip archive. Standard input is the
archive, or empty if the machine may have it already. The answer is one line of JSON.
Python 3.6 can read this file, so that a Python that is too old can report its version.
"""

import compileall
import hashlib
import io
import json
import os
import shutil
import sys
import tempfile
import zipfile
from typing import Dict, Optional

ANSWER = "hermes-install:"
OLDEST = (3, 8)


def main(folder: str, digest: str, archive: bytes) -> None:
    """Print what this machine has, and where the supervisor is."""
    here = os.uname()
    answer: Dict[str, object] = {"python": sys.version_info[:3], "host": here[1], "system": here[0]}
    if sys.version_info >= OLDEST:
        folder = os.path.join(os.path.expanduser("~"), os.path.expanduser(folder))
        answer["folder"] = folder
        try:
            answer["supervisor"] = install(folder, digest, archive)
        except (OSError, ValueError) as error:
            answer["error"] = str(error)
    print(ANSWER + json.dumps(answer))  # noqa: T201 - this is how it answers


def install(folder: str, digest: str, archive: bytes) -> Optional[str]:
    """Return the supervisor's program; None if it is missing and no archive was sent."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.stat(folder)
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise ValueError(f"others may write to {folder}, which must be this account's alone")
    target = os.path.join(folder, "supervisor-" + digest[:16])
    program = os.path.join(target, "__main__.py")
    if os.path.isdir(target):
        return program
    if not archive:
        return None
    if hashlib.sha256(archive).hexdigest() != digest:
        raise ValueError("the supervisor was damaged on its way")
    part = tempfile.mkdtemp(dir=folder, prefix=".supervisor-")
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            opened.extractall(part)
        compileall.compile_dir(part, quiet=2)
        os.rename(part, target)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
        # Another executor may have been faster.
        if not os.path.isdir(target):
            raise
    return program


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.stdin.buffer.read())
