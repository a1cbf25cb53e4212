"""The user of a box's commands.

A rootless engine maps root in its containers to the user who runs it, to whom the files of
workspaces then belong.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from executor_service.backends.docker.engine import EngineAddress
from executor_service.errors import BackendUnavailable

_UNPRIVILEGED = 1000
"""The user of commands if the executor is root, and on remote machines."""


class BoxUser(Struct, frozen=True):
    """The user of commands, in the box."""

    uid: int
    gid: int

    @property
    def named(self) -> str:
        return f"{self.uid}:{self.gid}"

    def for_folder(self, workspace: Path, *, is_bound: bool) -> "BoxUser":
        """Return the user of commands with this workspace. Blocks.

        If the executor is root, that is the owner of a bound folder. Other folders of root's are
        given to this user.
        """
        if os.geteuid() != 0 or not workspace.is_dir():
            return self
        owner = workspace.stat().st_uid
        if is_bound:
            return BoxUser(owner, workspace.stat().st_gid)
        if owner == 0:
            os.chown(workspace, self.uid, self.gid)
        return self


def ordinary_user(executor: int) -> BoxUser:
    """Return the user of commands if the engine does not map users."""
    uid = executor or _UNPRIVILEGED
    return BoxUser(uid, uid)


def find_user(info: Mapping[str, Any], address: EngineAddress, executor: int) -> BoxUser:
    """Return the user of commands on this engine. Blocks.

    Fails with BackendUnavailable if the executor could not use that user's files.
    """
    if not address.is_local:
        return ordinary_user(0)
    options = " ".join(info["SecurityOptions"] or ())
    if "name=rootless" in options:
        owner = _owner_of_socket(address)
        if owner != executor:
            raise BackendUnavailable(
                f"the Docker engine at {address.url} is user {owner}'s own (rootless), who "
                f"cannot reach workspaces of user {executor}: run Hermes as user {owner}, "
                "or use another engine"
            )
        # Without capabilities, and without a way to get any, root is a user like any other.
        return BoxUser(0, 0) if executor else ordinary_user(0)
    if "name=userns" in options:
        raise BackendUnavailable(
            "the Docker engine remaps users (userns-remap), so commands could not use their "
            "workspaces: use a rootless engine, one without userns-remap, or bubblewrap "
            "(terminal.backend: bubblewrap)"
        )
    return ordinary_user(executor)


def _owner_of_socket(address: EngineAddress) -> int:
    try:
        return Path(urlsplit(address.url).path).stat().st_uid
    except OSError as error:
        raise BackendUnavailable(
            f"no Docker engine answers at {address.url}: {error.strerror}"
        ) from error
