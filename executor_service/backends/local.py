"""Boxes that are ordinary processes of this machine itself, for development.

There is no isolation: commands can do whatever the user who runs Hermes can. So this backend must
be named and allowed, and never runs commands as root. A box is a supervisor and all processes that
it has started; it outlives the executor.
"""

import asyncio
import os
import platform
import pwd
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

from executor_service.backends.base import Box, BoxSpec, Capabilities, WorkspacePlace
from executor_service.backends.keeper import KeeperBackend, socket_of
from executor_service.backends.process_boxes import ENVIRONMENT
from executor_service.backends.process_records import connection_to
from executor_service.backends.supervisor_zipapp import PROGRAM, install_supervisor
from executor_service.errors import BackendError, BackendUnavailable, BoxLost
from executor_service.link.byte_streams import SocketStream
from executor_service.records.sandboxes import Isolation

NAME = "local"
_ENVIRONMENT = {name: ENVIRONMENT[name] for name in ("PATH", "LANG")}
"""The same for all commands, however Hermes was started."""
_KEEPER_DEADLINE_S = 30.0
_MAX_SHOWN_CHARACTERS = 500


class LocalOptions(Struct, frozen=True):
    """Whether boxes are allowed, and what runs their supervisors."""

    is_allowed: bool = False
    """Whether the owner of the home has allowed commands without a sandbox."""
    python: str = sys.executable
    """Python 3.8 or newer."""


class LocalBackend(KeeperBackend):
    """Makes boxes of processes of this machine, with records below one folder."""

    name = NAME
    workspaces = WorkspacePlace.HERE

    def __init__(self, owner: str, folder: Path, supervisor: bytes, options: LocalOptions) -> None:
        super().__init__(owner)
        self._folder = folder
        self._supervisor = supervisor
        self._options = options
        self._user = os.geteuid()

    async def probe(self) -> Capabilities:
        try:
            self._permit()
            await self._try_one()
        except BackendError as error:
            return _capabilities(str(error), available=False)
        return _capabilities(
            f"commands run on this machine itself, without isolation: as {_name_of(self._user)}, "
            "with that user's files, network and processes",
            available=True,
            account=f"{_name_of(self._user)}@{platform.node()}",
        )

    async def create(self, spec: BoxSpec) -> Box:
        self._permit()
        return await super().create(spec)

    async def connect(self, box: Box) -> SocketStream:
        try:
            return SocketStream(await asyncio.to_thread(connection_to, Path(socket_of(box))))
        except OSError as error:
            raise BoxLost(f"box {box.key} does not answer: {error}") from error

    async def close(self) -> None:
        """Does nothing; the boxes live on."""

    def _permit(self) -> None:
        if not self._options.is_allowed:
            raise BackendUnavailable(
                "it runs commands on this machine without isolation; to allow that for "
                "development, set security.allow_local_backend: true"
            )
        if self._user == 0:
            raise BackendUnavailable(
                "commands would run as root on this machine; start Hermes as an ordinary user"
            )

    async def _keep(self, request: bytes) -> bytes:
        return await asyncio.to_thread(self._run_keeper, request)

    def _run_keeper(self, request: bytes) -> bytes:
        user = _name_of(self._user)
        try:
            program = self._install()
            done = subprocess.run(
                [self._options.python, "-I", "-S", program, "--keep", self._folder],
                input=request,
                capture_output=True,
                timeout=_KEEPER_DEADLINE_S,
                check=False,
                cwd="/",
                env={**_ENVIRONMENT, "USER": user, "LOGNAME": user},
            )
        except subprocess.TimeoutExpired as error:
            raise BackendUnavailable(f"no answer within {_KEEPER_DEADLINE_S:g} s") from error
        except OSError as error:
            raise BackendUnavailable(f"no process can be started: {error}") from error
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip()[-_MAX_SHOWN_CHARACTERS:]
            raise BackendUnavailable(f"the supervisor does not run here: {said or done.returncode}")
        return done.stdout

    def _install(self) -> Path:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return install_supervisor(self._supervisor, self._folder, str(self._folder)) / PROGRAM


def _capabilities(reason: str, *, available: bool, account: str = "") -> Capabilities:
    return Capabilities(
        name=NAME,
        available=available,
        reason=reason,
        isolation=Isolation.NONE,
        # Commands have whatever network the machine has.
        network_policies=(),
        account=account,
    )


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
