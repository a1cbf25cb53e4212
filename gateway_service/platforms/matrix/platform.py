"""Matrix, also in encrypted rooms, by matrix-nio."""

import asyncio
import json
import logging
import math
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from gateway_service.errors import (
    AccountRefused,
    MessageGone,
    OutcomeUnknown,
    PlatformError,
    RateLimited,
    Refused,
    Unreachable,
    no_answer,
)
from gateway_service.messages import Attachment, Content, Event, RemoteFile
from gateway_service.platforms.base import (
    Destination,
    Json,
    Platform,
    Received,
    Recent,
    Sink,
    Traits,
    passing_over,
)
from gateway_service.platforms.matrix.config import MatrixConfig
from gateway_service.platforms.matrix.events import (
    STICKER,
    Account,
    ContentWriter,
    answered_id,
    read_message,
    read_reaction,
)
from gateway_service.platforms.matrix.files import Decryption, read_file
from gateway_service.platforms.rate_limits import Rate

if TYPE_CHECKING:
    from nio import AsyncClient, MatrixRoom, RoomInfo, SyncResponse

_log = logging.getLogger(__name__)

NAME = "matrix"
MESSAGE, REACTION = "m.room.message", "m.reaction"
_READ = (MESSAGE, REACTION, STICKER)
SYNC_S = 25
CALL_S = 20.0
EVENTS_PER_SYNC = 100
MOST_KNOWN = 1000
TYPING_MS = 8000
OUTLINE_CHARS = 200
VOICE = "org.matrix.msc3245.voice"
"""Marks a sound as a voice message."""
_UNNAMED = "application/octet-stream"
_FILTER = {"room": {"timeline": {"limit": EVENTS_PER_SYNC}}, "presence": {"types": list[str]()}}
_ONLY_STATE = {"room": {"timeline": {"limit": 1}}, "presence": {"types": list[str]()}}


class MatrixPlatform(Platform):
    """An account on a homeserver."""

    name = NAME
    traits = Traits(
        # An event has at most 64 KiB, with the text and its HTML in it, in base64 if encrypted.
        message_units=9600,
        length=lambda text: len(json.dumps(text)) - 2,  # with escapes, as nio encrypts it
        rate=Rate(per_second=2.0, burst=8),
        repeats_safely_s=math.inf,
        buttons=0,
        file_bytes=50 << 20,
        caption_units=2000,
        typing_interval_s=6.0,
    )

    def __init__(self, config: MatrixConfig, store: Path) -> None:
        """Keys of encrypted rooms are kept in the folder `store`."""
        self.account_id = self.identity = config.user_id
        self._config = config
        self._store = store
        self._connected: AsyncClient | None = None
        self._begun_at = ""
        self._writer = ContentWriter()
        self._sent = Recent[str, None](MOST_KNOWN)
        """Messages of ours that are known to exist."""

    async def __aenter__(self) -> Self:
        client = await asyncio.to_thread(_client, self._config, self._store)
        try:
            with _translated():
                device = await self._log_in(client)
                client.restore_login(
                    self.account_id, device.device_id, self._config.token.get_secret_value()
                )
                self._begun_at = await _enter_rooms(client)
        except BaseException:
            await client.close()
            raise
        self._connected = client
        return self

    async def check(self) -> str:
        """Ask whose token it is, and nothing more: keys go to the first connection that syncs."""
        client = await asyncio.to_thread(_client, self._config, self._store)
        try:
            with _translated():
                await self._log_in(client)
        finally:
            await client.close()
        return self.identity

    async def _log_in(self, client: "AsyncClient") -> Any:
        """Return the device of the token."""
        found = _checked(await client.whoami())
        if found.user_id != self.account_id:
            raise AccountRefused(f"the token belongs to {found.user_id}; set MATRIX_USER_ID to it")
        return found

    async def __aexit__(self, *_: object) -> None:
        client, self._connected = self._connected, None
        if client is not None:
            await client.close()

    async def listen(self, sink: Sink) -> None:
        client, since = self._client, sink.cursor or self._begun_at
        while True:
            await self._accept_invitations()
            with _translated():
                synced = _checked(await client.sync(SYNC_S * 1000, _FILTER, since))
                await _keep_keys(client)
            await sink.store(Received(await self._read(synced, since), synced.next_batch))
            since = synced.next_batch

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        if content.attachment is None:
            body = self._writer.write(content.text)
        else:
            body = await self._upload(destination.chat_id, content.text, content.attachment)
        return await self._put(destination, body, key)

    async def edit(self, destination: Destination, message_id: str, content: Content) -> None:
        await self._check_sent(destination, message_id)
        new = self._writer.write(content.text)
        relation = {"rel_type": "m.replace", "event_id": message_id}
        # What clients show that know no edits is cut, as an event has little room.
        body = {
            "msgtype": "m.text",
            "body": f"* {content.text[:OUTLINE_CHARS]}",
            "m.new_content": new,
            "m.relates_to": relation,
        }
        await self._put(Destination(destination.chat_id), body, "")

    async def typing(self, destination: Destination) -> None:
        with _translated():
            _checked(await self._client.room_typing(destination.chat_id, timeout=TYPING_MS))

    async def download(self, file: RemoteFile) -> AsyncGenerator[bytes]:
        lock = Decryption(json.loads(file.id)) if file.id.startswith("{") else None
        async with aclosing(read_file(self._config, lock.url if lock else file.id)) as chunks:
            async for chunk in chunks:
                yield lock.read(chunk) if lock else chunk
        if lock:
            lock.finish()

    @property
    def _client(self) -> "AsyncClient":
        if self._connected is None:
            raise Unreachable("matrix is not connected")
        return self._connected

    async def _read(self, synced: "SyncResponse", since: str) -> list[Event]:
        found = list[Event]()
        for room_id, info in synced.rooms.join.items():
            room = self._client.rooms[room_id]
            me = Account(self.account_id, room.user_name(self.account_id) or "")
            for raw in await self._timeline(room_id, info, since):
                if (event := await self._read_event(raw, room, me)) is not None:
                    found.append(event)
        return found

    async def _timeline(self, room_id: str, info: "RoomInfo", since: str) -> list[dict[str, Any]]:
        """Return a room's new events, also those that were too many for one answer."""
        events = cast("list[Any]", info.timeline.events)
        start = info.timeline.prev_batch
        while info.timeline.limited and start:
            with _translated():
                page = _checked(
                    await self._client.room_messages(room_id, start, since, limit=EVENTS_PER_SYNC)
                )
            events = [*reversed(page.chunk), *events]
            start = page.end if page.chunk and page.end != start else None
        return [_decrypted(self._client, event) for event in events]

    async def _read_event(self, raw: Json, room: "MatrixRoom", me: Account) -> Event | None:
        if raw.get("type") not in _READ or raw.get("sender") == me.user_id:
            return None
        with passing_over("an event of matrix"):
            if raw["type"] == REACTION:
                return read_reaction(raw, room)
            answered = None
            if replies_to := answered_id(raw):
                with _translated():
                    found = await self._client.room_get_event(room.room_id, replies_to)
                source = getattr(getattr(found, "event", None), "source", {})
                answered = source if source.get("type") == MESSAGE else None
            return read_message(raw, answered, room, me)
        return None

    async def _accept_invitations(self) -> None:
        """Join the rooms to which people invite us who may talk to Hermes."""
        client, config = self._client, self._config
        for room_id, room in list(client.invited_rooms.items()):
            del client.invited_rooms[room_id]
            if not (config.allow_all_users or room.inviter in config.allowed_users):
                continue
            try:
                with _translated():
                    _checked(await client.join(room_id))
            except Refused as error:
                _log.warning("the invitation of %s cannot be accepted: %s", room.inviter, error)

    async def _put(self, destination: Destination, body: dict[str, Any], key: str) -> str:
        if destination.thread_id:
            # Clients without threads show a reply.
            reply = {"event_id": destination.thread_id}
            body["m.relates_to"] = {
                "rel_type": "m.thread",
                "event_id": destination.thread_id,
                "is_falling_back": True,
                "m.in_reply_to": reply,
            }
        with _translated():
            sent = _checked(
                await self._client.room_send(
                    destination.chat_id, MESSAGE, body, key or None, ignore_unverified_devices=True
                )
            )
        self._sent[sent.event_id] = None
        return sent.event_id

    async def _upload(self, room_id: str, caption: str, file: Attachment) -> dict[str, Any]:
        mime = file.mime
        room = self._client.rooms.get(room_id)
        is_encrypted = room is not None and room.encrypted
        data, keys = file.data, dict[str, Any]()
        if is_encrypted:
            data, keys = await asyncio.to_thread(_lock, data)
        told = (_UNNAMED, None) if keys else (mime, file.name)
        with _translated():
            answer, _ = await self._client.upload(BytesIO(data), *told, filesize=len(data))
            uri = _checked(answer).content_uri
        where = {"file": {**keys, "url": uri}} if keys else {"url": uri}
        kind = mime.partition("/")[0]
        is_voice = file.name.endswith((".ogg", ".opus"))
        return {
            **({VOICE: {}} if is_voice else {}),
            "msgtype": f"m.{kind}" if kind in ("image", "audio", "video") else "m.file",
            "body": caption or file.name,
            "filename": file.name,
            "info": {"mimetype": mime, "size": file.length_bytes},
            **where,
        }

    async def _check_sent(self, destination: Destination, message_id: str) -> None:
        """The homeserver accepts new versions of messages that do not exist."""
        if message_id in self._sent:
            return
        with _translated():
            found = await self._client.room_get_event(destination.chat_id, message_id)
        if getattr(found, "status_code", None) in ("M_NOT_FOUND", "M_INVALID_PARAM", "M_UNKNOWN"):
            raise MessageGone("matrix has no such message")
        _checked(found)
        self._sent[message_id] = None


def _client(config: MatrixConfig, store: Path) -> "AsyncClient":
    from nio import AsyncClient, AsyncClientConfig
    from nio.store import SqliteStore

    if config.encryption:
        store.mkdir(mode=0o700, parents=True, exist_ok=True)
    options = AsyncClientConfig(
        encryption_enabled=config.encryption,
        store=SqliteStore,
        store_sync_tokens=False,
        max_limit_exceeded=0,
        max_timeouts=0,
        request_timeout=CALL_S,
    )
    client = AsyncClient(
        config.url,
        config.user_id,
        store_path=str(store) if config.encryption else "",
        config=options,
    )
    client.access_token = config.token.get_secret_value()
    return client


async def _enter_rooms(client: "AsyncClient") -> str:
    """Read which rooms there are and who is in them; return where their events go on."""
    synced = _checked(await client.sync(0, _ONLY_STATE, full_state=True))
    # A homeserver may repeat its first answer for minutes.
    synced = _checked(await client.sync(0, _ONLY_STATE, synced.next_batch))
    await _keep_keys(client)
    # What was said while Hermes was away may end where this ended, and is still to be decrypted.
    client.next_batch = ""
    return synced.next_batch


async def _keep_keys(client: "AsyncClient") -> None:
    """Exchange the keys that reading and writing encrypted rooms needs."""
    if not client.olm:
        return
    if client.should_upload_keys:
        _checked(await client.keys_upload())
    if client.should_query_keys:
        _checked(await client.keys_query())
    if client.should_claim_keys:
        users: dict[str, Any] = {**client.get_users_for_key_claiming()}
        _checked(await client.keys_claim(users))
    await client.send_to_device_messages()


def _decrypted(client: "AsyncClient", event: Any) -> dict[str, Any]:
    """Return an event's source; events that were read apart from a sync are still encrypted."""
    from nio import EncryptionError, MegolmEvent

    if not isinstance(event, MegolmEvent):
        return event.source
    try:
        return client.decrypt_event(event).source
    except EncryptionError as error:
        _log.warning("a message of %s cannot be decrypted: %s", event.sender, error)
        return event.source


def _lock(data: bytes) -> tuple[bytes, dict[str, Any]]:
    from nio.crypto.attachments import encrypt_attachment

    return encrypt_attachment(data)


def _checked(answer: Any) -> Any:
    """Return an answer, or raise what it says instead."""
    from nio import ErrorResponse

    if not isinstance(answer, ErrorResponse):
        return answer
    code, text = answer.status_code, f"matrix: {answer.message}"
    if code == "M_LIMIT_EXCEEDED":
        raise RateLimited(text, (answer.retry_after_ms or 1000) / 1000)
    if code in ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED"):
        raise AccountRefused("the homeserver refuses the token; check MATRIX_ACCESS_TOKEN")
    if code is None:  # not from the homeserver, but from a proxy before it
        raise OutcomeUnknown(text)
    raise Refused(text)


@contextmanager
def _translated() -> Generator[None]:
    import aiohttp
    from nio import EncryptionError, LocalProtocolError

    try:
        yield
    except PlatformError:
        raise
    except aiohttp.ClientConnectorError as error:
        raise Unreachable("matrix cannot be reached; check MATRIX_HOMESERVER") from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise no_answer("matrix", error) from error
    except (LocalProtocolError, EncryptionError) as error:
        raise Refused(f"matrix: {error}") from error
