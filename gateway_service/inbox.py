"""The inbox: what came in is stored before anybody is told that it has been received."""

from gateway_service.messages import TurnOrder
from gateway_service.metrics import GatewayMetrics
from gateway_service.storage import inbox
from services.clock import Clock
from services.database import Database


class Inbox:
    """Stores each event once, whoever sends it how often."""

    def __init__(self, database: Database, clock: Clock, metrics: GatewayMetrics) -> None:
        self._database = database
        self._clock = clock
        self._metrics = metrics

    async def accept(self, order: TurnOrder, event_id: str) -> tuple[TurnOrder, bool]:
        """Store a client's message; returns its turn, known or new, and whether it is open."""
        now = self._clock.now()
        known, is_open = await self._database.write(
            lambda conn: inbox.accept(conn, order, event_id, now)
        )
        if known is not order:
            self._metrics.duplicates.inc()
        return known, is_open
