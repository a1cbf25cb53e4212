"""Backends whose boxes are processes of a machine, managed by a program that runs there.

The program is `executor_service.supervisor.keeper`; each backend runs it in its own way.
"""

import json
import secrets
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from executor_service.backends.base import Box, BoxSpec, WorkspacePlace, make_or_destroy
from executor_service.errors import BackendError, BackendUnavailable, BoxCreateFailed
from executor_service.supervisor.keeper import ANSWER

_SOCKET = "socket"
_MAX_SHOWN_CHARACTERS = 500


class KeeperBackend(ABC):
    """The boxes of one owner on one machine."""

    name: str
    workspaces: WorkspacePlace

    def __init__(self, owner: str) -> None:
        self._owner = owner

    @abstractmethod
    async def _keep(self, request: bytes) -> bytes:
        """Run the keeper with this input and return its output; or BackendUnavailable."""

    async def create(self, spec: BoxSpec) -> Box:
        is_here = self.workspaces is WorkspacePlace.HERE
        folder = str(spec.workspace) if is_here else spec.workspace.name
        return await make_or_destroy(self._start(spec, folder), self.destroy)

    async def _try_one(self) -> None:
        """Start a box without a workspace and end it; BackendUnavailable or BoxCreateFailed."""
        key = f"probe_{secrets.token_hex(8)}"
        await self.destroy(await self._start(BoxSpec(key, self._owner, "probe", Path("/")), ""))

    async def _start(self, spec: BoxSpec, folder: str) -> Box:
        answer = await self._ask(
            {
                "do": "start",
                "key": spec.box_key,
                "owner": self._owner,
                "pool": spec.pool,
                "workspace": str(spec.workspace),
                "folder": folder,
                "secret_sha256": spec.secret_sha256,
            }
        )
        if "error" in answer:
            raise BoxCreateFailed(f"no box could be started: {answer['error']}")
        return self._box(answer["box"])

    async def destroy(self, box: Box) -> None:
        answer = await self._ask({"do": "end", "key": box.key, "owner": self._owner})
        if "error" in answer:
            raise BackendError(str(answer["error"]))

    async def list_boxes(self) -> list[Box]:
        answer = await self._ask({"do": "list", "owner": self._owner})
        if "error" in answer:
            raise BackendError(str(answer["error"]))
        return [self._box(record) for record in answer["boxes"]]

    async def _ask(self, request: dict[str, str]) -> dict[str, Any]:
        said = (await self._keep(json.dumps(request).encode())).decode(errors="replace")
        return read_answer(said, ANSWER)

    def _box(self, record: dict[str, Any]) -> Box:
        return Box(
            key=record["key"],
            backend=self.name,
            native_id=str(record["pid"]),
            workspace=Path(record["workspace"]),
            pool=record["pool"],
            labels={_SOCKET: record["socket"], "folder": record["folder"]},
        )


def socket_of(box: Box) -> str:
    """The socket of a box's supervisor on its machine."""
    return box.labels[_SOCKET]


def read_answer(said: str, mark: str) -> dict[str, Any]:
    """Parse the answer's line; fails with BackendUnavailable if there is none."""
    for line in reversed(said.splitlines()):
        before, found, answer = line.partition(mark)
        if found and not before:
            return json.loads(answer)
    shown = said.strip()[-_MAX_SHOWN_CHARACTERS:] or "it said nothing"
    raise BackendUnavailable(f"the machine sent an unexpected answer: {shown}")
