"""Telegram, using only python-telegram-bot's `Bot`: polling and storage are ours."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar

from gateway_service.errors import (
    AccountRefused,
    ChatMoved,
    MessageGone,
    OutcomeUnknown,
    PlatformError,
    RateLimited,
    Refused,
    Unreachable,
    no_answer,
)
from gateway_service.messages import ButtonPress, Content, RemoteFile, Source
from gateway_service.platforms.base import (
    Destination,
    MenuItems,
    Platform,
    Received,
    Sink,
    Traits,
    in_place,
)
from gateway_service.platforms.http_api import HttpApi
from gateway_service.platforms.markup import to_html
from gateway_service.platforms.rate_limits import Rate
from gateway_service.platforms.telegram.events import (
    MESSAGE_UNITS,
    drop_unreadable,
    find_moves,
    read_updates,
)
from gateway_service.platforms.telegram.events import Bot as Me
from gateway_service.platforms.telegram.files import (
    ALBUM_PICTURES,
    CAPTION_UNITS,
    DOCUMENT,
    MAX_BYTES,
    choose_kind,
    place_of_files,
    send_files,
)

if TYPE_CHECKING:
    import httpx
    from telegram import Bot, InlineKeyboardMarkup, Message, Update

_T = TypeVar("_T")

NAME = "telegram"
API = "https://api.telegram.org/bot"

POLL_S = 25
CALL_S = 10.0
CONNECT_S = 5.0
CALLS_AT_ONCE = 32
DEFAULT_WAIT_S = 5.0

_UPDATES = ("message", "edited_message", "callback_query", "message_reaction")
_NOT_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"}
_UNCHANGED = "message is not modified"
_UNREADABLE = "can't parse entities"
_THREAD_GONE = ("message thread not found", "topic_deleted", "topic_closed", "topic_id_invalid")
_GONE = ("message to edit not found", "message can't be edited", "message_id_invalid")


class TelegramPlatform(Platform):
    """A bot's account."""

    name = NAME
    traits = Traits(
        message_units=MESSAGE_UNITS,
        rate=Rate(per_second=1.0, burst=5),
        caption_units=CAPTION_UNITS,
        file_bytes=MAX_BYTES,
        album_pictures=ALBUM_PICTURES,
    )

    def __init__(self, token: str, base_url: str = API) -> None:
        """`token` is appended to `base_url`."""
        self.account_id = token.partition(":")[0]
        self._token = token
        self._base_url = base_url
        self._stack = AsyncExitStack()
        self._connected: Bot | None = None
        self._unfinished = dict[Source, datetime]()

    async def __aenter__(self) -> Self:
        # The library takes half a second to load.
        bot = await asyncio.to_thread(_bot, self._token, self._base_url)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(bot.shutdown)
            with _translated():
                await bot.initialize()
            self._stack = stack.pop_all()
        self._connected, self.identity = bot, f"@{bot.username}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connected = None
        await self._stack.aclose()

    async def listen(self, sink: Sink) -> None:
        bot = self._bot
        await self._set_webhook("", "")
        # Telegram keeps the position itself: asking for the next update confirms those before it.
        position = poll_s = 0  # the first poll returns at once, which shows that Telegram answers
        while True:
            with _translated():
                updates = await bot.get_updates(
                    offset=position or None, timeout=poll_s, allowed_updates=_UPDATES
                )
            poll_s = POLL_S
            await sink.store(self._received(updates))
            position = max(position, *(each.update_id + 1 for each in updates), 0)

    async def _set_webhook(self, url: str, secret: str) -> None:
        """Let Telegram call a URL; while there is none, updates can be fetched."""
        with _translated():
            if url:
                # One call at a time keeps the order.
                await self._bot.set_webhook(
                    url, max_connections=1, allowed_updates=_UPDATES, secret_token=secret
                )
            else:
                await self._bot.delete_webhook()

    async def _webhook_problem(self) -> str:
        """Return why updates wait to be called in; empty if none do."""
        with _translated():
            found = await self._bot.get_webhook_info()
        return (found.last_error_message or "") if found.pending_update_count else ""

    def _received(self, updates: Sequence["Update"]) -> Received:
        me = Me(self.account_id, self.identity.removeprefix("@"), self._unfinished)
        return Received(read_updates(updates, me), moves=find_moves(updates))

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        return await in_place(
            destination,
            lambda error: any(each in error.message.lower() for each in _THREAD_GONE),
            lambda place: self._create(place, content),
        )

    async def _create(self, destination: Destination, content: Content) -> str:
        bot = self._bot
        if content.attachment is not None:
            message = await self._send_files(destination, content)
            return str(message.message_id)
        message = await _formatted(
            content,
            lambda text, mode: bot.send_message(
                chat_id=destination.chat_id,
                message_thread_id=_thread(destination),
                text=text,
                parse_mode=mode,
                reply_markup=_keyboard(content),
                disable_web_page_preview=True,
            ),
        )
        return str(message.message_id)

    async def _send_files(self, destination: Destination, content: Content) -> "Message":
        """Send files as their kind; if Telegram refuses, as plain documents."""
        kind = choose_kind(content.attachments)
        try:
            return await self._send_as(kind, destination, content)
        except Refused:
            if kind == DOCUMENT:
                raise
        return await self._send_as(DOCUMENT, destination, content)

    async def _send_as(self, kind: str, destination: Destination, content: Content) -> "Message":
        bot = self._bot
        return await _formatted(
            content,
            lambda text, mode: send_files(
                *(bot, kind, content.attachments),
                chat_id=destination.chat_id,
                message_thread_id=_thread(destination),
                caption=text or None,
                parse_mode=mode,
                reply_markup=_keyboard(content),
            ),
        )

    async def edit(self, destination: Destination, message_id: str, content: Content) -> None:
        bot = self._bot
        try:
            await _formatted(
                content,
                lambda text, mode: bot.edit_message_text(
                    chat_id=destination.chat_id,
                    message_id=int(message_id),
                    text=text,
                    parse_mode=mode,
                    reply_markup=_keyboard(content),
                    disable_web_page_preview=True,
                ),
            )
        except Refused as error:
            if _UNCHANGED not in error.message.lower():
                raise

    async def typing(self, destination: Destination) -> None:
        bot = self._bot
        with _translated():
            await bot.send_chat_action(
                chat_id=destination.chat_id, action="typing", message_thread_id=_thread(destination)
            )

    async def acknowledge(self, press: ButtonPress, text: str) -> None:
        bot = self._bot
        with _translated():
            await bot.answer_callback_query(press.press_id, text=text)

    async def download(self, file: RemoteFile) -> AsyncGenerator[bytes]:
        bot = self._bot
        try:
            with _translated():
                found = await bot.get_file(file.id)
        except (AttributeError, KeyError, TypeError) as error:
            raise Refused("telegram does not say where the file is") from error
        url = found.file_path or ""
        if not url.startswith(("http://", "https://")):
            raise Refused("the Bot API server keeps its files on its own disk (--local)")
        # Its errors do not show the URL, which has the token in it.
        async with HttpApi(NAME, url) as api, aclosing(api.download("")) as chunks:
            async for chunk in chunks:
                yield chunk

    async def menu(self) -> MenuItems:
        from telegram import BotCommandScopeAllPrivateChats

        bot = self._bot
        with _translated():
            found = await bot.get_my_commands(scope=BotCommandScopeAllPrivateChats())
        return tuple((each.command, each.description) for each in found)

    async def offer(self, items: MenuItems) -> None:
        from telegram import BotCommandScopeAllPrivateChats

        bot = self._bot
        with _translated():
            await bot.set_my_commands(items, scope=BotCommandScopeAllPrivateChats())

    @property
    def _bot(self) -> "Bot":
        if self._connected is None:
            raise Unreachable("telegram is not connected")
        return self._connected


def _bot(token: str, base_url: str) -> "Bot":
    from telegram import Bot
    from telegram.request import HTTPXRequest

    class Polling(HTTPXRequest):
        """Passes on what the library can read: of one bad update it would drop the whole batch."""

        @staticmethod
        def parse_json_payload(payload: bytes) -> dict[str, Any]:
            return drop_unreadable(HTTPXRequest.parse_json_payload(payload))

    options: dict[str, Any] = {
        "read_timeout": CALL_S,
        "write_timeout": CALL_S,
        "connect_timeout": CONNECT_S,
        "pool_timeout": CALL_S,
        "httpx_kwargs": {"event_hooks": {"response": [_heed_limits]}},
    }
    try:
        return Bot(
            token,
            base_url=base_url,
            base_file_url=place_of_files(base_url),
            request=HTTPXRequest(connection_pool_size=CALLS_AT_ONCE, **options),
            get_updates_request=Polling(connection_pool_size=1, **options),
        )
    except (ImportError, RuntimeError, ValueError) as error:
        # The library for HTTP refuses proxies that it cannot use, such as SOCKS without a package.
        raise AccountRefused(
            f"telegram cannot use the proxy that ALL_PROXY or HTTPS_PROXY names: {error}"
        ) from error


async def _formatted(content: Content, call: Callable[[str, str | None], Awaitable[_T]]) -> _T:
    """Show the text formatted, or plain if Telegram rejects the formatting."""
    try:
        with _translated():
            return await call(to_html(content.text), "HTML")
    except Refused as error:
        if _UNREADABLE not in error.message.lower():
            raise
    with _translated():
        return await call(content.text, None)


def _thread(destination: Destination) -> int | None:
    if not destination.thread_id:
        return None
    try:
        return int(destination.thread_id)
    except ValueError:
        raise Refused(
            f"telegram: {destination.thread_id!r} is no thread, which are numbers"
        ) from None


def _keyboard(content: Content) -> "InlineKeyboardMarkup | None":
    from telegram import InlineKeyboardButton, InlineKeyboardMarkup

    if not content.buttons:
        return None
    row = [InlineKeyboardButton(each.label, callback_data=each.data) for each in content.buttons]
    return InlineKeyboardMarkup([row])


async def _heed_limits(response: "httpx.Response") -> None:
    """Raise RateLimited ourselves: the library's own error logs a warning each time."""
    if response.status_code != 429:
        return
    await response.aread()
    try:
        wait_s = float(response.json()["parameters"]["retry_after"])
    except (ValueError, KeyError, TypeError):
        wait_s = DEFAULT_WAIT_S
    raise RateLimited(f"telegram wants us to wait for {wait_s:g} s", wait_s)


@contextmanager
def _translated() -> Generator[None]:
    """Turn the library's errors into ours; none of them may show the token."""
    from telegram import error as errors

    try:
        yield
    except errors.InvalidToken:
        raise AccountRefused(
            "telegram does not know this bot; check TELEGRAM_BOT_TOKEN with @BotFather"
        ) from None
    except errors.Conflict:
        raise AccountRefused(
            "another program receives this bot's messages; stop it, or give it another bot"
        ) from None
    except errors.BadRequest as error:
        if error.message.lower().startswith(_GONE):
            raise MessageGone(f"telegram: {error.message}") from error
        raise Refused(f"telegram: {error.message}") from error
    except errors.ChatMigrated as error:
        raise ChatMoved(f"telegram: {error.message}", str(error.new_chat_id)) from error
    except errors.Forbidden as error:
        raise Refused(f"telegram: {error.message}") from error
    except errors.NetworkError as error:
        raise _failed(error) from error.__cause__
    except errors.TelegramError as error:
        raise OutcomeUnknown(f"telegram: {error.message}") from error


def _failed(error: Exception) -> PlatformError:
    cause = error.__cause__
    if isinstance(cause, PlatformError):
        return cause
    kind = type(cause).__name__
    if kind in _NOT_SENT:
        return Unreachable("telegram cannot be reached; check the network")
    return no_answer("telegram", cause or error)
