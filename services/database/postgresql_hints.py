"""PostgreSQL's LISTEN and NOTIFY as hints: one channel a service, the hint's own in the payload."""

import asyncio
import logging

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from services.database.hints import Hints

_log = logging.getLogger(__name__)

_AGAIN_AFTER_S = 1.0

NOTIFY = sa.text("SELECT pg_notify(:service, :channel)")


async def pass_on(url: sa.URL, connect_args: dict[str, str | int], service: str, to: Hints) -> None:
    """Give every hint of the service's replicas to our listeners, connecting again when cut off."""
    from psycopg import Error
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(
        url, connect_args=connect_args, poolclass=NullPool, isolation_level="AUTOCOMMIT"
    )
    while True:
        try:
            async with engine.connect() as connection:
                await connection.exec_driver_sql(f'LISTEN "{service}"')
                to.give_all()  # whatever changed while nobody listened
                proxied = await connection.get_raw_connection()
                driver = proxied.driver_connection
                assert driver is not None
                async for hint in driver.notifies():
                    to.give(hint.payload)
        except (SQLAlchemyError, Error, OSError) as error:
            _log.warning("hints of the %s database come late: %s", service, type(error).__name__)
        await asyncio.sleep(_AGAIN_AFTER_S)
