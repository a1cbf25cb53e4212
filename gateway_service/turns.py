"""Turns of messages that are stored: started until the agent takes them, and seen through."""

import logging
from contextlib import suppress

from gateway_service.clients import AgentClient
from gateway_service.errors import AgentRefused
from gateway_service.messages import CLI, TurnOrder
from gateway_service.storage import inbox
from services.clock import Clock
from services.database import Database
from services.errors import Draining, Reason, Unavailable
from services.lifecycle import Workers
from services.logs import bind

_log = logging.getLogger(__name__)

FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 5.0


class Turns:
    """Starts turns, and closes the messages that they answer."""

    def __init__(
        self, database: Database, agent: AgentClient, clock: Clock, workers: Workers
    ) -> None:
        self._database = database
        self._agent = agent
        self._clock = clock
        self._workers = workers

    async def start(self, order: TurnOrder) -> None:
        """Start a turn, for as long as it takes; AgentRefused when the agent does not want it."""
        wait_s = FIRST_WAIT_S
        while True:
            try:
                await self._agent.start(order)
            except Unavailable as error:
                _log.warning("turn %s waits for the agent: %s", order.turn_id, error)
            except AgentRefused as error:
                # The id is ours, so the turn is too: an older version asked for it differently.
                if error.reason is not Reason.ALREADY_EXISTS:
                    raise
                return
            else:
                return
            await self._clock.sleep(wait_s)
            wait_s = min(LONGEST_WAIT_S, wait_s * 2)

    async def close(self, turn_id: str) -> None:
        """Note that a turn's message has been answered."""
        now = self._clock.now()
        await self._database.write(lambda conn: inbox.close(conn, turn_id, now))

    def settle(self, order: TurnOrder) -> None:
        """See a turn through whose client has gone, now or after the next start."""
        with suppress(Draining):
            self._workers.start(f"turn {order.turn_id}", self._settle(order))

    async def resume(self) -> None:
        """Take up the turns of connected clients that an earlier process has left open."""
        for _, order in await self._database.read(lambda conn: inbox.accepted(conn, CLI, "")):
            # One after another: a later message of a session interrupts an earlier one.
            with suppress(AgentRefused):
                await self.start(order)
            self.settle(order)

    async def _settle(self, order: TurnOrder) -> None:
        with bind(turn_id=order.turn_id, session_id=order.session_id):
            try:
                await self.start(order)
                await self._agent.ended(order.turn_id, order.profile)
            except AgentRefused as error:
                _log.warning("turn %s was not seen through: %s", order.turn_id, error)
            await self.close(order.turn_id)
