"""Ends the sandboxes that sessions have left at an executor that was away, once it is back.

It takes over what it finds, its sandboxes too, and what runs in one of them would go on beside the
sandbox that its session has now.
"""

import asyncio
import logging

import grpc.aio

from agent_service.clients.executors import Executors
from agent_service.storage import bindings
from agent_service.storage.bindings import Left
from services.database import Database
from services.errors import DatabaseUnavailable, HermesError, is_passing, message_of
from services.task_groups import each_of

LOOK_EVERY_S = 5.0

_log = logging.getLogger(__name__)


class LeftSandboxes:
    """The sandboxes that this agent's sessions have left behind."""

    def __init__(self, executors: Executors, database: Database) -> None:
        self._executors = executors
        self._database = database

    async def run(self) -> None:
        """End what can be ended, again and again until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self.end_all()
            except DatabaseUnavailable as error:
                _log.warning("sandboxes that were left behind cannot be looked for: %s", error)

    async def end_all(self) -> None:
        """End those whose executor can be reached now."""
        left = await self._database.read(bindings.all_left)
        if left:
            await each_of(map(self._end, left))
            await self._database.write(bindings.forget_old_left)

    async def _end(self, left: Left) -> None:
        async def is_left() -> bool:
            return await self._database.read(lambda conn: bindings.is_left(conn, left.sandbox_id))

        try:
            await self._executors.end(
                left.profile, left.session_id, left.sandbox_id, left.endpoint, is_left
            )
        except grpc.aio.AioRpcError as error:
            if not is_passing(error):
                _log.warning("sandbox %s stays: %s", left.sandbox_id, message_of(error))
            return
        except HermesError as error:
            _log.warning("sandbox %s stays: %s", left.sandbox_id, error)
            return
        _log.info("sandbox %s, which its session had left, is ended or used again", left.sandbox_id)
        await self._database.write(lambda conn: bindings.forget_left(conn, left.sandbox_id))
