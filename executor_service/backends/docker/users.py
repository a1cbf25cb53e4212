"""The user of a box's commands, in the box and on the engine's machine.

An engine may map users of its containers to others on its machine: with userns-remap it adds an
offset, and a rootless one maps root to the user who runs it. The files of a workspace must belong
to the mapped user.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from executor_service.backends.docker.engine import EngineAddress
from executor_service.errors import BackendUnavailable, BoxCreateFailed

_UNPRIVILEGED = 1000
"""The user of commands if the executor is root, and on remote machines."""
_IDS_OF_A_RANGE = 65536
_RANGE = re.compile(r"/(\d+)\.(\d+)$")
"""The end of an engine's folder with userns-remap: the ids of its containers' root."""


class BoxUser(Struct, frozen=True):
    """The user of commands."""

    inside: int
    """In the box."""
    uid: int
    """On the engine's machine."""
    gid: int
    group: int | None = None
    """Their group in the box; None is the number of the user."""

    @property
    def named(self) -> str:
        return f"{self.inside}:{self.inside if self.group is None else self.group}"

    def for_folder(self, workspace: Path, *, is_bound: bool) -> "BoxUser":
        """Return the user of commands with this workspace; BoxCreateFailed without one. Blocks.

        If the executor is root, that is the owner of a bound folder. Other folders are given to
        this user.
        """
        if os.geteuid() != 0 or not workspace.is_dir():
            return self
        owner, group = workspace.stat().st_uid, workspace.stat().st_gid
        if is_bound:
            return self._owner(workspace, owner, group)
        if owner == 0:
            os.chown(workspace, self.uid, self.gid)
        elif self.uid not in (owner, self.inside):
            raise BoxCreateFailed(
                f"{workspace} belongs to user {owner}, and commands are user {self.uid} on this "
                "machine, as the Docker engine remaps users: give it to them "
                f"(`chown -R {self.uid}:{self.gid}`), or use an engine that does not"
            )
        return self

    def _owner(self, folder: Path, uid: int, gid: int) -> "BoxUser":
        inside = uid - (self.uid - self.inside)
        if not 0 <= inside < _IDS_OF_A_RANGE:
            raise BoxCreateFailed(
                f"{folder} belongs to user {uid}, whom the Docker engine cannot give commands, as "
                "it remaps users: use an engine that does not, or the backend bubblewrap "
                "(terminal.backend: bubblewrap)"
            )
        group = gid - (self.gid - self.inside)
        return BoxUser(inside, uid, gid, group if 0 <= group < _IDS_OF_A_RANGE else None)


def ordinary_user(executor: int) -> BoxUser:
    """Return the user of commands if the engine does not map users."""
    uid = executor or _UNPRIVILEGED
    return BoxUser(uid, uid, uid)


def find_user(info: Mapping[str, Any], address: EngineAddress, executor: int) -> BoxUser:
    """Return the user of commands on this engine. Blocks.

    Fails with BackendUnavailable if the executor could not use that user's files.
    """
    if not address.is_local:
        return ordinary_user(0)
    root, group = _root(info, address, executor)
    if executor == 0:
        return BoxUser(_UNPRIVILEGED, root + _UNPRIVILEGED, group + _UNPRIVILEGED)
    if executor == root:
        # Without capabilities, and without a way to get any, root is a user like any other.
        return BoxUser(0, root, group)
    if root == 0:
        return ordinary_user(executor)
    raise BackendUnavailable(
        "the Docker engine remaps users (userns-remap), and only root can give workspaces to "
        "those: run Hermes as root, or use a rootless engine, one without userns-remap, or "
        "bubblewrap"
    )


def _root(info: Mapping[str, Any], address: EngineAddress, executor: int) -> tuple[int, int]:
    """The uid and gid on the engine's machine of root in a container."""
    options = " ".join(info["SecurityOptions"] or ())
    if "name=rootless" in options:
        owner = _owner_of_socket(address)
        if owner != executor:
            raise BackendUnavailable(
                f"the Docker engine at {address.url} is user {owner}'s own (rootless), who "
                f"cannot reach workspaces of user {executor}: run Hermes as user {owner}, "
                "or use another engine"
            )
        return executor, executor
    if "name=userns" in options:
        found = _RANGE.search(info["DockerRootDir"])
        if found is None:
            raise BackendUnavailable(
                "the Docker engine remaps users, and to whom cannot be told by its folder "
                f"{info['DockerRootDir']}: use an engine without userns-remap"
            )
        return int(found[1]), int(found[2])
    return 0, 0


def _owner_of_socket(address: EngineAddress) -> int:
    try:
        return Path(urlsplit(address.url).path).stat().st_uid
    except OSError as error:
        raise BackendUnavailable(
            f"no Docker engine answers at {address.url}: {error.strerror}"
        ) from error
