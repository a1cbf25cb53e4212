"""E-mail: a mailbox is read over IMAP, and answers are sent over SMTP."""

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from typing import TYPE_CHECKING, Self

from gateway_service.errors import (
    AccountRefused,
    OutcomeUnknown,
    RateLimited,
    Refused,
    Unreachable,
    no_answer,
)
from gateway_service.messages import Content, MessageEvent, RemoteFile
from gateway_service.platforms.base import (
    UNREADABLE,
    Destination,
    Platform,
    Received,
    Recent,
    Sink,
    Traits,
    passing_over,
)
from gateway_service.platforms.email.config import EmailConfig
from gateway_service.platforms.email.letters import (
    NAME,
    STRANGER,
    Sender,
    answer,
    message_of,
    parsed,
    part_of,
    thread_of,
)
from gateway_service.platforms.email.mailbox import MAX_BYTES, Mailbox, open_mailbox
from gateway_service.platforms.email.senders import is_automatic, is_confirmed, sender_of
from gateway_service.platforms.rate_limits import Rate

if TYPE_CHECKING:
    from aiosmtplib import SMTP

CALL_S = 30.0
WAIT_S = 30.0
"""How long to wait for mail before the server is asked for a sign of life."""
UNREAD_FOR = timedelta(days=1)
"""At the first start, older mails are not read."""
DEFAULT_WAIT_S = 60.0
CHUNK_BYTES = 256 * 1024
MOST_THREADS = 500
HEADERS = "BODY.PEEK[HEADER]<0.200000>"

_log = logging.getLogger(__name__)


class EmailPlatform(Platform):
    """A mailbox; its chats are people's addresses, and their threads are those of the mails."""

    name = NAME
    traits = Traits(
        message_units=100_000,
        rate=Rate(per_second=0.5, burst=10),
        can_edit=False,
        buttons=0,
        caption_units=100_000,
        file_bytes=20 * 1024 * 1024,
        album_pictures=10,
        deaf_after_s=180.0,
        markup="Answers are mails, with Markdown shown as HTML. Sign nothing.",
    )

    def __init__(self, config: EmailConfig) -> None:
        self.account_id = self.identity = config.address.lower()
        self._config = config
        self._stack = AsyncExitStack()
        self._mailbox: Mailbox | None = None
        self._latest = Recent[str, EmailMessage](MOST_THREADS)
        """The headers of the last mail of each thread."""

    async def __aenter__(self) -> Self:
        self._mailbox = await self._stack.enter_async_context(open_mailbox(self._config))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._mailbox = None
        await self._stack.aclose()

    async def check(self) -> str:
        """Log in to both servers."""
        async with self, open_smtp(self._config):
            return self.identity

    async def listen(self, sink: Sink) -> None:
        async with open_mailbox(self._config) as mailbox:
            while True:
                validity, _, last = sink.cursor.partition(":")
                is_known = validity == str(mailbox.validity)
                after = int(last) if is_known else await _first(mailbox) - 1
                # A range with a star has the last mail in any case.
                uids = [uid for uid in await mailbox.find(f"UID {after + 1}:*") if uid > after]
                for uid in uids:
                    events = await self._read(mailbox, uid)
                    await sink.store(Received(events, f"{mailbox.validity}:{uid}"))
                    if events:
                        await mailbox.mark_read(uid)
                if not uids:
                    await sink.store(Received(cursor=f"{mailbox.validity}:{after}"))
                    await mailbox.wait(WAIT_S)

    async def _read(self, mailbox: Mailbox, uid: int) -> Sequence[MessageEvent]:
        """Return a mail as a message; nothing if no person wrote it, or it cannot be read."""
        place = f"{mailbox.validity}:{uid}"
        with passing_over(f"the mail {place}"):
            head = await asyncio.to_thread(parsed, await mailbox.fetch(uid, HEADERS))
            if head is None or not (sender := await asyncio.to_thread(self._sender, head)):
                # No answer, not even a refusal, may go to an address that was forged.
                _log.info("the mail %s is from no person that the server confirms", place)
                return ()
            mail = await asyncio.to_thread(parsed, await mailbox.fetch(uid))
            if mail is None:
                return ()
            event = await asyncio.to_thread(message_of, mail, place, sender)
            self._latest[thread_of(head)] = head
            return (event,)
        return ()

    def _sender(self, head: EmailMessage) -> Sender | None:
        """Return who wrote a mail; None if no person did, or nobody confirms it."""
        config = self._config
        name, address = sender_of(head)
        if not address or is_automatic(head, config.address):
            return None
        if is_confirmed(head, address, config.auth_server):
            return Sender(name, address, address)
        return Sender(name, address, f"{STRANGER}{address}") if config.allow_all_users else None

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        if "@" not in destination.chat_id:
            raise Refused(f"email: {destination.chat_id!r} is no address")
        before = await self._before(destination.thread_id) if destination.thread_id else None
        addresses = (self._config.address, destination.chat_id)
        try:
            mail = await asyncio.to_thread(answer, content, before, addresses, key)
        except UNREADABLE as error:
            raise Refused(f"email: {destination.chat_id!r} cannot be written to: {error}") from None
        await self._submit(mail)
        return str(mail["Message-ID"]).strip("<>")

    async def _before(self, thread_id: str) -> EmailMessage | None:
        """Return the headers of the last mail of a thread, looked up after a restart."""
        if found := self._latest.get(thread_id):
            return found
        if self._mailbox is None:
            raise Unreachable("email is not connected")
        named = thread_id.replace("\\", "").replace('"', "")
        criteria = f'OR HEADER Message-ID "{named}" HEADER References "{named}"'
        for uid in reversed(await self._mailbox.find(criteria)):
            mail = parsed(await self._mailbox.fetch(uid, HEADERS))
            if mail is not None and thread_of(mail) == thread_id:
                self._latest[thread_id] = mail
                return mail
        return None

    async def _submit(self, mail: EmailMessage) -> None:
        from aiosmtplib import SMTPException

        if self._mailbox is None:
            raise Unreachable("email is not connected")
        async with open_smtp(self._config) as client:
            try:
                await client.send_message(mail)
            except (SMTPException, OSError) as error:
                raise _failed(error) from None

    async def download(self, file: RemoteFile) -> AsyncGenerator[bytes]:
        validity, uid, number = file.id.split(":")
        async with open_mailbox(self._config) as mailbox:
            is_there = validity == str(mailbox.validity)
            data = await mailbox.fetch(int(uid)) if is_there else b""
        if len(data) == MAX_BYTES:
            raise Refused(f"the mail is larger than {MAX_BYTES >> 20} MB")
        mail = await asyncio.to_thread(parsed, data)
        if mail is None:
            raise Refused("email: the mail is gone")
        data = await asyncio.to_thread(part_of, mail, int(number))
        for at in range(0, len(data), CHUNK_BYTES):
            yield data[at : at + CHUNK_BYTES]


@asynccontextmanager
async def open_smtp(config: EmailConfig) -> AsyncGenerator["SMTP"]:
    """Connect and log in; raises AccountRefused or Unreachable."""
    from aiosmtplib import SMTP, SMTPAuthenticationError, SMTPException

    has_tls = config.tls == "on"
    client = SMTP(
        hostname=config.smtp_host,
        port=config.smtp_port,
        timeout=CALL_S,
        use_tls=has_tls and config.smtp_port == 465,
        start_tls=has_tls and config.smtp_port != 465,
        tls_context=ssl.create_default_context() if has_tls else None,
    )
    try:
        try:
            await client.connect()
            if client.supports_extension("auth"):
                await client.login(*config.login)
        except SMTPAuthenticationError:
            raise AccountRefused(
                "the SMTP server refuses the login; check EMAIL_ADDRESS and EMAIL_PASSWORD"
            ) from None
        except (SMTPException, OSError) as error:
            raise Unreachable(f"email: the SMTP server cannot be reached ({error})") from None
        yield client
    finally:
        client.close()


async def _first(mailbox: Mailbox) -> int:
    """Return the uid of the mail to begin with: the first that is new and unread."""
    since = datetime.now(UTC) - UNREAD_FOR
    unread = await mailbox.find(f"UNSEEN SINCE {since:%d-%b-%Y}")
    return unread[0] if unread else mailbox.next_uid


def _failed(error: Exception) -> RateLimited | Refused | OutcomeUnknown:
    from aiosmtplib import SMTPRecipientsRefused, SMTPResponseException

    if isinstance(error, SMTPRecipientsRefused):
        error = error.recipients[0]
    if not isinstance(error, SMTPResponseException):
        return no_answer("email: the SMTP server", error)
    told = f"email: the SMTP server says {error.code} {error.message}"
    if error.code >= 500:
        return Refused(told)
    return RateLimited(told, DEFAULT_WAIT_S)
