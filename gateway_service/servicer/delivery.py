"""DeliveryService: messages to chats besides answers, and their files."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

import grpc.aio
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.chats.directory import Directory
from gateway_service.messages import CLI, Address, Attachment, Content
from gateway_service.platforms.base import Platform, Traits
from gateway_service.platforms.markup import split
from gateway_service.servicer.wire import MAX_TEXT_BYTES
from gateway_service.storage import attachments, inbox, outbox, unsent
from gateway_service.storage.accounts import OUTBOX
from gateway_service.storage.attachments import FileKey
from gateway_service.storage.channels import Place
from gateway_service.storage.outbox import REPEAT_UNITS, Delivery, State, Stored
from gateway_service.turns.notifications import CHANNEL
from hermes.gateway.v1 import delivery_pb2, delivery_pb2_grpc
from services.clock import Clock
from services.database import Database
from services.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from services.home.paths import DEFAULT_PROFILE
from services.redaction.redactor import Redactor
from services.rpc.auth import Identity, allow
from services.rpc.uploads import MAX_BYTES, chunks, read_contents, wrong_contents
from services.telemetry.tracing import traceparent
from services.validation import check_id

Context = grpc.aio.ServicerContext[Any, Any]

MAX_ID_CHARS = 255
MAX_TARGET_CHARS = 255
MAX_FILES = 10
MAX_NAME_BYTES = 255
MAX_CAPTION_BYTES = 4096
PICTURES = (".jpg", ".jpeg", ".png", ".webp")
"""What the names of pictures for albums end in."""

_STATES = {
    State.ABANDONED: delivery_pb2.DELIVERY_STATE_ABANDONED,
    State.HELD: delivery_pb2.DELIVERY_STATE_PENDING,
    State.PENDING: delivery_pb2.DELIVERY_STATE_PENDING,
    State.SENDING: delivery_pb2.DELIVERY_STATE_PENDING,
    State.MARKED_DUPLICATE: delivery_pb2.DELIVERY_STATE_MARKED_DUPLICATE,
    State.SENT: delivery_pb2.DELIVERY_STATE_SENT,
}
"""A delivery's state by its parts' states; the first that any part has counts."""
_CALLERS = (Identity.SCHEDULER, Identity.AGENT, Identity.OPERATOR)
POLICY = allow(
    "hermes.gateway.v1.DeliveryService",
    {
        "Deliver": _CALLERS,
        "GetDelivery": _CALLERS,
        "UploadAttachment": (Identity.AGENT, Identity.OPERATOR),
        "DownloadAttachment": (Identity.OPERATOR,),
    },
)


class _File(Struct, frozen=True):
    file: Attachment
    caption: str

    @property
    def is_picture(self) -> bool:
        return self.file.name.lower().endswith(PICTURES)


class DeliveryServicer(delivery_pb2_grpc.DeliveryServiceServicer):
    """Serves deliveries."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        platforms: Mapping[str, Platform],
        directory: Directory,
        redactor: Redactor,
    ) -> None:
        self._database = database
        self._clock = clock
        self._platforms = platforms
        self._directory = directory
        self._redactor = redactor

    async def Deliver(
        self, request: delivery_pb2.DeliverRequest, context: Context
    ) -> delivery_pb2.DeliverResponse:
        return await self.deliver(request)

    async def deliver(self, request: delivery_pb2.DeliverRequest) -> delivery_pb2.DeliverResponse:
        """Make a delivery."""
        _check(request)
        delivery_id, profile = request.delivery_id, request.profile or DEFAULT_PROFILE
        places = await self._database.read(partial(self._places, request=request))
        if request.validate_only:
            return delivery_pb2.DeliverResponse(targets=map(str, places))
        deliveries, left_out = self._split(request, places)
        digest, now = deliveries[0].digest, self._clock.now()
        files = _files(request, self._redactor)

        def write(conn: Connection) -> Sequence[Stored]:
            stored = outbox.find(conn, delivery_id)
            if not stored:
                _check_uploaded(conn, delivery_id, profile, files)
                is_early = inbox.find_open(conn, unsent.answer_of(delivery_id)) is not None
                for each in deliveries:
                    outbox.add(conn, each, now, State.HELD if is_early else State.PENDING)
                stored = outbox.find(conn, delivery_id)
            if stored[0].digest != digest:
                raise AlreadyExists(f"delivery {delivery_id} was made with another message")
            return stored

        notified = CHANNEL if places[0].platform == CLI else OUTBOX
        parts = await self._database.write(write, notify=notified)
        return delivery_pb2.DeliverResponse(
            delivery=_delivery(delivery_id, parts),
            left_out_names=left_out,
            targets=map(str, places),
        )

    def _places(self, conn: Connection, request: delivery_pb2.DeliverRequest) -> Sequence[Place]:
        """Return the chats that a delivery goes to; the same once it is stored."""
        stored = outbox.find(conn, request.delivery_id)
        if stored and not request.validate_only:
            addresses = (each.address for each in stored)
            return [*dict.fromkeys(Place(a.platform, a.chat_id, a.thread_id) for a in addresses)]
        turn = inbox.find_open(conn, unsent.answer_of(request.delivery_id))
        if turn is not None and (to := turn.source.answers_to) is not None:
            return [Place(to.platform, to.chat_id, to.thread_id)]
        profile, said = request.profile or DEFAULT_PROFILE, request.origin
        origin = None
        if said.platform and said.chat_id:
            origin = Place(said.platform, said.chat_id, said.thread_id)
        return self._directory.resolve(conn, profile, request.target, origin)

    def _split(
        self, request: delivery_pb2.DeliverRequest, places: Sequence[Place]
    ) -> tuple[Sequence[Delivery], Sequence[str]]:
        """Return the parts for each chat, and the names of files that one cannot take."""
        text, files = self._redactor.redact(request.text), _files(request, self._redactor)
        digest = hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()
        deliveries, left_out, first_part = list[Delivery](), dict[str, None](), 1
        for place in places:
            platform = self._platforms.get(place.platform)
            contents, account_id = _split_for_terminal(text, files), ""
            if platform is not None:
                contents, names = _split_for_chat(text, files, platform.traits)
                account_id, left_out = platform.account_id, left_out | dict.fromkeys(names)
            profile = request.profile or DEFAULT_PROFILE
            address = Address(profile, place.platform, account_id, place.chat_id, place.thread_id)
            delivery = Delivery(request.delivery_id, address, contents, digest=digest)
            deliveries.append(replace(delivery, first_part=first_part, traceparent=traceparent()))
            first_part += len(contents)
        return deliveries, [*left_out]

    async def GetDelivery(
        self, request: delivery_pb2.GetDeliveryRequest, context: Context
    ) -> delivery_pb2.GetDeliveryResponse:
        delivery_id = request.delivery_id
        parts = await self._database.read(lambda conn: outbox.find(conn, delivery_id))
        if not parts or parts[0].address.profile != (request.profile or DEFAULT_PROFILE):
            raise NotFound(f"there is no delivery {delivery_id}")
        return delivery_pb2.GetDeliveryResponse(delivery=_delivery(delivery_id, parts))

    async def UploadAttachment(
        self,
        request_iterator: AsyncIterator[delivery_pb2.UploadAttachmentRequest],
        context: Context,
    ) -> delivery_pb2.UploadAttachmentResponse:
        """Store a whole file, or nothing; a file that is stored already is not read again."""
        first = await anext(request_iterator, delivery_pb2.UploadAttachmentRequest())
        if not first.HasField("header"):
            raise InvalidArgument("a file begins with its header", fields={"header": "is missing"})
        key, length_bytes = _read_header(first.header), first.header.length_bytes
        if await self._database.read(partial(attachments.find_length, key=key)) is None:
            data = await read_contents(request_iterator, length_bytes, first.header.sha256)
            now = self._clock.now()
            await self._database.write(partial(attachments.put, key=key, data=data, now=now))
        return delivery_pb2.UploadAttachmentResponse()

    async def DownloadAttachment(
        self, request: delivery_pb2.DownloadAttachmentRequest, context: Context
    ) -> AsyncGenerator[delivery_pb2.DownloadAttachmentResponse]:
        profile = request.profile or DEFAULT_PROFILE
        key = FileKey(request.delivery_id, profile, request.sha256.hex())
        data = await self._database.read(partial(attachments.read_data, key=key))
        if data is None:
            raise NotFound("there is no such file")
        for chunk in chunks(data):
            yield delivery_pb2.DownloadAttachmentResponse(chunk=chunk)


def _check(request: delivery_pb2.DeliverRequest) -> None:
    check_id("delivery_id", request.delivery_id)
    wrong: dict[str, str] = {}
    origin = request.origin
    if max(len(origin.chat_id), len(origin.thread_id)) > MAX_ID_CHARS:
        wrong["origin"] = f"ids of at most {MAX_ID_CHARS} characters"
    if len(request.target) > MAX_TARGET_CHARS or "\0" in f"{request.target}{origin.chat_id}":
        wrong["target"] = f"at most {MAX_TARGET_CHARS} characters"
    has_some = request.text.strip() or request.attachments
    if not has_some or len(request.text.encode()) > MAX_TEXT_BYTES:
        wrong["text"] = "some text, at most 1 MiB"
    wrong |= _wrong_files(request.attachments)
    _refuse("this cannot be delivered", wrong)


def _files(request: delivery_pb2.DeliverRequest, redactor: Redactor) -> Sequence[_File]:
    return [
        _File(
            Attachment(each.name, each.length_bytes, each.sha256.hex()),
            redactor.redact(each.caption),
        )
        for each in request.attachments
    ]


def _split_for_terminal(text: str, files: Sequence[_File]) -> list[Content]:
    """Return the parts for a terminal, which fetches files itself."""
    texts = [Content(text)] if text.strip() else []
    return [*texts, *(Content(each.caption, attachment=each.file) for each in files)]


def _split_for_chat(
    text: str, files: Sequence[_File], traits: Traits
) -> tuple[list[Content], list[str]]:
    """Return the parts for a chat, and the names of files that its platform cannot take."""
    taken = [each for each in files if each.file.length_bytes <= traits.file_bytes]
    left_out = [each.file for each in files if each not in taken]
    text = "\n\n".join(filter(str.strip, (text, *map(_describe_left_out, left_out))))
    messages, names = _group(taken, traits), [each.name for each in left_out]
    room = traits.caption_units - REPEAT_UNITS
    if len(messages) == 1 and not messages[0].text and traits.length(text) <= room:
        return [replace(messages[0], text=text)], names
    texts = split(text, traits.message_units - REPEAT_UNITS, traits.length) if text else []
    return [*map(Content, texts), *messages], names


def _group(files: Sequence[_File], traits: Traits) -> list[Content]:
    """Return messages with files: pictures that follow each other are one, up to the limits."""
    groups: list[list[_File]] = []
    for each in files:
        last = groups[-1] if groups else []
        is_next = bool(last) and each.is_picture and last[-1].is_picture
        length_bytes = sum(other.file.length_bytes for other in (*last, each))
        has_room = len(last) < traits.album_pictures and length_bytes <= traits.file_bytes
        if is_next and has_room:
            last.append(each)
        else:
            groups.append([each])
    return [_message(group, traits) for group in groups]


def _message(group: Sequence[_File], traits: Traits) -> Content:
    caption = "\n".join(filter(None, (each.caption for each in group)))
    if traits.length(caption) > traits.caption_units - REPEAT_UNITS:
        caption = ""
    first, *others = (each.file for each in group)
    return Content(caption, attachment=first, album=tuple(others))


def _describe_left_out(file: Attachment) -> str:
    name = file.name.replace("`", "'")
    return (
        f"(A file belongs here that this chat cannot take: `{name}`, {file.length_bytes:,} bytes.)"
    )


def _check_uploaded(
    conn: Connection, delivery_id: str, profile: str, files: Sequence[_File]
) -> None:
    for each in (named.file for named in files):
        key = FileKey(delivery_id, profile, each.sha256)
        if attachments.find_length(conn, key) != each.length_bytes:
            raise FailedPrecondition(f"{each.name} was not uploaded for delivery {delivery_id}")


def _wrong_files(files: Sequence[delivery_pb2.Attachment]) -> dict[str, str]:
    wrong: dict[str, str] = {}
    if len(files) > MAX_FILES or sum(each.length_bytes for each in files) > MAX_BYTES:
        wrong["attachments"] = f"at most {MAX_FILES}, and {MAX_BYTES:,} bytes together"
    for number, each in enumerate(files):
        name = each.name
        if not (1 <= len(name.encode()) <= MAX_NAME_BYTES and name.isprintable()) or "/" in name:
            wanted = f"1 to {MAX_NAME_BYTES} bytes that can be printed, without a slash"
            wrong[f"attachments[{number}].name"] = wanted
        if len(each.caption.encode()) > MAX_CAPTION_BYTES:
            wrong[f"attachments[{number}].caption"] = f"at most {MAX_CAPTION_BYTES:,} bytes"
        for field, problem in wrong_contents(each.length_bytes, each.sha256).items():
            wrong[f"attachments[{number}].{field}"] = problem
    return wrong


def _refuse(what: str, wrong: dict[str, str]) -> None:
    if wrong:
        problems = "; ".join(f"{field}: {problem}" for field, problem in wrong.items())
        raise InvalidArgument(f"{what}: {problems}", fields=wrong)


def _read_header(header: delivery_pb2.UploadAttachmentRequest.Header) -> FileKey:
    check_id("header.delivery_id", header.delivery_id)
    found = wrong_contents(header.length_bytes, header.sha256)
    wrong = {f"header.{field}": problem for field, problem in found.items()}
    _refuse("this cannot be stored", wrong)
    return FileKey(header.delivery_id, header.profile or DEFAULT_PROFILE, header.sha256.hex())


def _delivery(delivery_id: str, parts: Sequence[Stored]) -> delivery_pb2.Delivery:
    states = [part.state for part in parts]
    created = Timestamp()
    created.FromDatetime(parts[0].created_at)
    return delivery_pb2.Delivery(
        delivery_id=delivery_id,
        state=next(told for state, told in _STATES.items() if state in states),
        part_count=len(parts),
        sent_part_count=sum(each in (State.SENT, State.MARKED_DUPLICATE) for each in states),
        last_error=next((part.last_error for part in reversed(parts) if part.last_error), ""),
        create_time=created,
    )
