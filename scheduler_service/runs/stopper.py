"""Stops turns of runs that were cancelled while they started, even if a scheduler died since."""

import logging
from functools import partial

from scheduler_service.clients import AgentClient
from scheduler_service.errors import CallRefused
from scheduler_service.storage import runs
from scheduler_service.storage.runs import UnwantedTurn
from services.database import Database
from services.database.queue import RETRY_S, poll

CHANNEL = "unwanted"
"""Tells the stoppers of all replicas that there is a turn to stop."""

_log = logging.getLogger(__name__)

_SLEEP_S = 30.0


class Stopper:
    """Stops turns of cancelled runs; any number of stoppers may share a database."""

    def __init__(self, database: Database, agent: AgentClient) -> None:
        self._database = database
        self._agent = agent

    async def run(self) -> None:
        await poll("stopping cancelled runs", self._look, self._database.listen(CHANNEL))

    async def _look(self) -> float:
        """Stop each unwanted turn; return when to look again."""
        found = await self._database.read(runs.unwanted)
        done = [each.run_id for each in found if await self._is_stopped(each)]
        if done:
            await self._database.write(partial(runs.stopped, run_ids=done))
        return _SLEEP_S if len(done) == len(found) else RETRY_S

    async def _is_stopped(self, turn: UnwantedTurn) -> bool:
        """Stop a turn; False if it may still start later."""
        try:
            is_there = await self._agent.stop(turn.profile, turn.turn_id)
        except CallRefused as error:
            _log.warning("turn %s of a cancelled run may go on: %s", turn.turn_id, error)
            return False
        if is_there:
            _log.info("turn %s is stopped: its run was cancelled", turn.turn_id)
        return is_there or turn.is_over
