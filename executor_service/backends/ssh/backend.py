"""Boxes that are ordinary processes of an account on another machine, reached by SSH.

There is no isolation: commands can do whatever the account can. So this backend must be named by
the operator. A box is a supervisor and all processes that it has started; it outlives the
connection, and its record lies on the machine itself.
"""

import asyncio
import json
import shlex
from hashlib import sha256
from importlib import resources
from typing import Any, Self

from msgspec import Struct

from executor_service.backends.base import Box, Capabilities, WorkspacePlace
from executor_service.backends.bridge import PYTHON, wait_greeting
from executor_service.backends.folder_store import FolderStore
from executor_service.backends.keeper import KeeperBackend, read_answer, socket_of
from executor_service.backends.ssh.connection import Answer
from executor_service.backends.ssh.machine import CALL_DEADLINE_S, Machine
from executor_service.config import SshConfig
from executor_service.errors import BackendError, BackendUnavailable
from executor_service.link.byte_streams import ByteStream
from executor_service.records.sandboxes import Isolation
from executor_service.supervisor.install import ANSWER, OLDEST
from executor_service.supervisor.keeper import WORKSPACES

NAME = "ssh"
_PYTHON = shlex.join(("exec", *PYTHON))
_RUN_TEXT = "import sys; i = sys.stdin.buffer; exec(i.read(int(i.readline())))"
"""Runs a program that comes first on standard input; plain enough for every shell."""
_COMMAND_NOT_FOUND = 127
_MAX_SHOWN_CHARACTERS = 500


class SshBackend(KeeperBackend):
    """Makes boxes of processes on another machine."""

    name = NAME
    workspaces = WorkspacePlace.THERE

    def __init__(self, owner: str, supervisor: bytes, options: SshConfig) -> None:
        super().__init__(owner)
        self._supervisor = supervisor
        self._options = options
        self._machine = Machine(options)
        user = f"{options.user}@" if options.user else ""
        place = f"ssh {user}{options.name} {options.folder}"
        self._store = FolderStore(place, self._work_on_folders)
        self._installing = asyncio.Lock()
        self._place: _Place | None = None

    async def probe(self) -> Capabilities:
        if not self._options.host:
            return self._capabilities("no machine is configured: set executor.ssh.host", False)
        try:
            place = await self._installed()
            await self._try_one()
        except BackendError as error:
            return self._capabilities(str(error), False)
        options = self._options
        user = f"{options.user}@" if options.user else ""
        return self._capabilities(
            f"processes of {user}{options.name} ({place.host}, Python {place.python}), which "
            "nothing keeps apart from that account's files, network and other processes",
            True,
        )

    async def connect(self, box: Box) -> ByteStream:
        place = await self._installed()
        bridge = shlex.join([place.supervisor, "--bridge", socket_of(box), "--once"])
        stream = await self._machine.stream(f"{_PYTHON} {bridge} 2>&1")
        return await wait_greeting(stream, CALL_DEADLINE_S)

    async def close(self) -> None:
        await self._machine.close()

    @property
    def workspace_store(self) -> FolderStore:
        return self._store

    async def _work_on_folders(self, wanted: dict[str, Any]) -> bytes:
        place = await self._installed()
        request = json.dumps({**wanted, "root": f"{place.folder}/{WORKSPACES}"})
        return await self._run(place, "--folders", request, deadline_s=wanted["within_s"])

    async def _keep(self, request: bytes) -> bytes:
        place = await self._installed()
        return await self._run(place, "--keep", place.folder, sent=request)

    async def _run(
        self,
        place: "_Place",
        *arguments: str,
        sent: bytes = b"",
        deadline_s: float = CALL_DEADLINE_S,
    ) -> bytes:
        program = shlex.join((place.supervisor, *arguments))
        answer = await self._machine.run(f"{_PYTHON} {program}", sent, deadline_s)
        if answer.status != 0:
            # Somebody may have removed it.
            self._place = None
            raise BackendUnavailable(_complaint(self._options, answer))
        return answer.stdout

    async def _installed(self) -> "_Place":
        """Return the supervisor's place, and install it if missing; done once."""
        async with self._installing:
            if self._place is None:
                place = await self._install(b"")
                if not place.supervisor:
                    place = await self._install(self._supervisor)
                self._place = place
            return self._place

    async def _install(self, archive: bytes) -> "_Place":
        program = resources.files("executor_service.supervisor").joinpath("install.py")
        text = await asyncio.to_thread(program.read_bytes)
        arguments = ["-c", _RUN_TEXT, self._options.folder, sha256(self._supervisor).hexdigest()]
        answer = await self._machine.run(
            f"{_PYTHON} {shlex.join(arguments)}", b"%d\n%s%s" % (len(text), text, archive)
        )
        if answer.status != 0:
            raise BackendUnavailable(_complaint(self._options, answer))
        return _Place.read(answer.stdout.decode(errors="replace"), self._options)

    def _capabilities(self, reason: str, available: bool) -> Capabilities:
        return Capabilities(
            name=NAME,
            available=available,
            reason=reason,
            isolation=Isolation.NONE,
            # Commands have whatever network the machine has.
            network_policies=(),
            account=f"{self._options.user}@{self._options.host}".removeprefix("@"),
            workspaces=WorkspacePlace.THERE,
            measures_workspaces=True,
        )


class _Place(Struct, frozen=True):
    host: str
    """Its own name."""
    python: str
    folder: str
    supervisor: str
    """Empty until it is installed."""

    @classmethod
    def read(cls, said: str, options: SshConfig) -> Self:
        """Parse the installation's answer; BackendUnavailable if the machine cannot be used."""
        answer = read_answer(said, ANSWER)
        python = ".".join(map(str, answer["python"]))
        if answer["system"] != "Linux":
            raise BackendUnavailable(f"{options.name} runs {answer['system']}; it must be Linux")
        if tuple(answer["python"]) < OLDEST:
            raise BackendUnavailable(
                f"python3 of {options.name} is {python}: install Python "
                f"{'.'.join(map(str, OLDEST))} or newer there"
            )
        if "error" in answer:
            raise BackendUnavailable(
                f"{options.name} cannot keep the supervisor: {answer['error']}; set "
                "executor.ssh.folder to a folder that only this account may write to"
            )
        return cls(answer["host"], python, answer["folder"], answer["supervisor"] or "")


def _complaint(options: SshConfig, answer: Answer) -> str:
    if answer.status == _COMMAND_NOT_FOUND:
        return f"{options.name} has no python3: install Python 3.8 or newer there"
    said = answer.stderr.decode(errors="replace").strip()[-_MAX_SHOWN_CHARACTERS:]
    status = "without a status" if answer.status < 0 else f"with status {answer.status}"
    return f"python3 of {options.name} ended {status}: {said or 'it said nothing'}"
