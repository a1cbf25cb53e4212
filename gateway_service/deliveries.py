"""Deliveries: messages to chats that answer nothing, such as a job's output."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import Connection

from gateway_service.accounts import OUTBOX
from gateway_service.errors import UnknownPlatform
from gateway_service.messages import CLI, Content
from gateway_service.news import CHANNEL
from gateway_service.platforms.base import Destination, Platform
from gateway_service.render import split
from gateway_service.storage import outbox
from gateway_service.storage.outbox import REPEAT_UNITS, Address, Delivery, State, Stored
from services.clock import Clock
from services.database import Database
from services.errors import AlreadyExists, NotFound


@dataclass(frozen=True, slots=True)
class DeliveryOrder:
    """What is to be delivered; the same for a delivery's id, however often it is asked for."""

    id: str
    profile: str
    platform: str
    to: Destination
    text: str

    @property
    def digest(self) -> str:
        """The same for the same order."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class DeliveryInfo:
    """A delivery as it is."""

    id: str
    state: State
    part_count: int
    sent_part_count: int
    last_error: str
    created_at: datetime


class Deliveries:
    """Stores deliveries for those who send them."""

    def __init__(self, database: Database, clock: Clock, platforms: Mapping[str, Platform]) -> None:
        self._database = database
        self._clock = clock
        self._platforms = platforms

    async def deliver(self, order: DeliveryOrder) -> DeliveryInfo:
        """Store a delivery once; AlreadyExists when the id was used for another one."""
        platform = self._platforms.get(order.platform)
        if platform is None and order.platform != CLI:
            names = ", ".join(sorted((*self._platforms, CLI)))
            raise UnknownPlatform(
                f"{order.platform} is not connected here; there is {names}",
                fields={"destination.platform": f"one of {names}"},
            )
        address = Address(
            profile=order.profile,
            platform=order.platform,
            account_id="" if platform is None else platform.account_id,
            chat_id=order.to.chat_id,
            thread_id=order.to.thread_id,
        )
        texts = [order.text]
        if platform is not None:
            texts = split(order.text, platform.traits.message_units - REPEAT_UNITS)
        contents = [Content(text) for text in texts]
        delivery = Delivery(order.id, address, contents, digest=order.digest)
        now = self._clock.now()

        def write(conn: Connection) -> Sequence[Stored]:
            stored = outbox.find(conn, order.id)
            if not stored:
                outbox.add(conn, delivery, now)
                stored = outbox.find(conn, order.id)
            if stored[0].digest != order.digest:
                raise AlreadyExists(f"delivery {order.id} was made with another message")
            return stored

        hinted = CHANNEL if platform is None else OUTBOX
        return _info(order.id, await self._database.write(write, notify=hinted))

    async def get(self, delivery_id: str, profile: str) -> DeliveryInfo:
        """A delivery; NotFound when there is none, or not in this profile."""
        stored = await self._database.read(lambda conn: outbox.find(conn, delivery_id))
        if not stored or stored[0].profile != profile:
            raise NotFound(f"there is no delivery {delivery_id}")
        return _info(delivery_id, stored)


def _info(delivery_id: str, parts: Sequence[Stored]) -> DeliveryInfo:
    states = [part.state for part in parts]
    if State.ABANDONED in states:
        state = State.ABANDONED
    elif State.PENDING in states or State.SENDING in states:
        state = State.PENDING
    elif State.MARKED_DUPLICATE in states:
        state = State.MARKED_DUPLICATE
    else:
        state = State.SENT
    return DeliveryInfo(
        id=delivery_id,
        state=state,
        part_count=len(parts),
        sent_part_count=sum(each in (State.SENT, State.MARKED_DUPLICATE) for each in states),
        last_error=next((part.last_error for part in reversed(parts) if part.last_error), ""),
        created_at=parts[0].created_at,
    )
