"""Deliveries: messages to chats that answer nothing, such as a job's output."""

import hashlib
from collections.abc import Mapping, Sequence

from msgspec import Struct, json
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.accounts import OUTBOX
from gateway_service.errors import NotUploaded, UnknownPlatform
from gateway_service.messages import CLI, Attachment, Content
from gateway_service.news import CHANNEL
from gateway_service.platforms.base import Destination, Platform, Traits
from gateway_service.render import split, units
from gateway_service.storage import attachments, outbox
from gateway_service.storage.attachments import FileKey
from gateway_service.storage.outbox import REPEAT_UNITS, Address, Delivery, Stored
from services.clock import Clock
from services.database import Database
from services.errors import AlreadyExists, NotFound
from services.redact import Redactor
from services.tracing import traceparent


class DeliveryOrder(Struct, frozen=True):
    """What is to be delivered; the same for a delivery's id, however often it is asked for."""

    id: str
    profile: str
    platform: str
    to: Destination
    text: str
    attachments: tuple[Attachment, ...] = ()

    @property
    def digest(self) -> str:
        """The same for the same order."""
        return hashlib.sha256(json.encode(self)).hexdigest()


class Deliveries:
    """Stores deliveries for those who send them."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        platforms: Mapping[str, Platform],
        redactor: Redactor,
    ) -> None:
        self._database = database
        self._clock = clock
        self._platforms = platforms
        self._redactor = redactor

    async def deliver(self, order: DeliveryOrder) -> tuple[Sequence[Stored], Sequence[str]]:
        """Store a delivery once; AlreadyExists when the id was used for another one.

        Returns its parts, and the names of files that the platform cannot take.
        """
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
        clean = replace(order, text=self._redactor.redact(order.text))
        contents, left_out = _told(clean) if platform is None else _shown(clean, platform.traits)
        delivery = Delivery(
            order.id, address, contents, digest=order.digest, traceparent=traceparent()
        )
        now = self._clock.now()

        def write(conn: Connection) -> Sequence[Stored]:
            stored = outbox.find(conn, order.id)
            if not stored:
                _check_uploaded(conn, order)
                outbox.add(conn, delivery, now)
                stored = outbox.find(conn, order.id)
            if stored[0].digest != order.digest:
                raise AlreadyExists(f"delivery {order.id} was made with another message")
            return stored

        hinted = CHANNEL if platform is None else OUTBOX
        return await self._database.write(write, notify=hinted), left_out

    async def get(self, delivery_id: str, profile: str) -> Sequence[Stored]:
        """A delivery's parts; NotFound when there is none, or not in this profile."""
        stored = await self._database.read(lambda conn: outbox.find(conn, delivery_id))
        if not stored or stored[0].profile != profile:
            raise NotFound(f"there is no delivery {delivery_id}")
        return stored


def _told(order: DeliveryOrder) -> tuple[list[Content], tuple[str, ...]]:
    """What a terminal is told, which fetches the files itself."""
    texts = [Content(order.text)] if order.text.strip() else []
    return [*texts, *(Content("", attachment=each) for each in order.attachments)], ()


def _shown(order: DeliveryOrder, traits: Traits) -> tuple[list[Content], tuple[str, ...]]:
    """What a chat is shown, and the names of the files that its platform cannot take."""
    files = [each for each in order.attachments if each.length_bytes <= traits.file_bytes]
    left_out = [each for each in order.attachments if each not in files]
    text = "\n\n".join(filter(str.strip, (order.text, *map(_missing, left_out))))
    names = tuple(each.name for each in left_out)
    if len(files) == 1 and units(text) <= traits.caption_units - REPEAT_UNITS:
        return [Content(text, attachment=files[0])], names
    texts = split(text, traits.message_units - REPEAT_UNITS) if text else []
    shown = [Content("", attachment=each) for each in files]
    return [*(Content(each) for each in texts), *shown], names


def _missing(file: Attachment) -> str:
    name = file.name.replace("`", "'")
    return (
        f"(A file belongs here that this chat cannot take: `{name}`, {file.length_bytes:,} bytes.)"
    )


def _check_uploaded(conn: Connection, order: DeliveryOrder) -> None:
    for each in order.attachments:
        key = FileKey(order.id, order.profile, each.sha256)
        if attachments.length_of(conn, key) != each.length_bytes:
            raise NotUploaded(f"{each.name} was not uploaded for delivery {order.id}")
