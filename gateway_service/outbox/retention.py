"""Periodic work: counting the backlog, and deleting old records."""

import logging
from datetime import timedelta

from sqlalchemy import Connection

from gateway_service.chats import pairing
from gateway_service.messages import CLI
from gateway_service.metrics import GatewayMetrics
from gateway_service.storage import attachments, inbox, outbox
from services.clock import Clock
from services.database import Database
from services.errors import DatabaseUnavailable

_log = logging.getLogger(__name__)

COUNT_EVERY_S = 10.0
FORGET_EVERY_S = 3600.0
KEEP = timedelta(days=7)
"""How long platforms may repeat events, and callers may query deliveries."""
KEEP_UNUSED = timedelta(days=1)
"""How long a file waits for its delivery."""


async def keep_house(database: Database, clock: Clock, metrics: GatewayMetrics) -> None:
    """Count and delete until cancelled."""
    forget_at = 0.0
    while True:
        try:
            await _count(database, clock, metrics)
            if clock.monotonic() >= forget_at:
                forget_at = clock.monotonic() + FORGET_EVERY_S
                await _forget(database, clock)
        except DatabaseUnavailable as error:
            _log.warning("the outbox is not looked after: %s", error)
        await clock.sleep(COUNT_EVERY_S)


async def _count(database: Database, clock: Clock, metrics: GatewayMetrics) -> None:
    # Notifications wait for a person, so their age means nothing.
    count, oldest = await database.read(lambda conn: outbox.backlog(conn, CLI))
    waited_s = (clock.now() - oldest).total_seconds() if oldest else 0.0
    metrics.outbox_pending.set(count)
    metrics.outbox_oldest.set(waited_s)


async def _forget(database: Database, clock: Clock) -> None:
    now = clock.now()
    before, unused_before = now - KEEP, now - KEEP_UNUSED

    def write(conn: Connection) -> None:
        inbox.forget(conn, before)
        outbox.forget(conn, before)
        attachments.forget(conn, unused_before)
        pairing.forget(conn, now)

    await database.write(write)
