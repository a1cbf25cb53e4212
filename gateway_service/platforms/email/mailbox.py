"""One IMAP connection that reads a folder."""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from gateway_service.errors import AccountRefused, Unreachable
from gateway_service.platforms.email.config import EmailConfig

CALL_S = 20.0
MAX_BYTES = 40 * 1024 * 1024
"""What is read of a mail."""
_VALIDITY = re.compile(rb"UIDVALIDITY (\d+)")
_NEXT = re.compile(rb"UIDNEXT (\d+)")
_WHOLE = f"BODY.PEEK[]<0.{MAX_BYTES}>"


class Mailbox:
    """A folder that is open."""

    def __init__(self, client: Any, validity: int, next_uid: int) -> None:
        self.validity = validity
        """Uids mean the same mails as long as this stays."""
        self.next_uid = next_uid
        """What the next mail will get."""
        self._client = client

    async def find(self, *criteria: str) -> list[int]:
        """Return the uids of mails, the oldest first."""
        with translated():
            lines = _good(await self._client.uid_search(*criteria, charset=None))
        return sorted(int(each) for each in lines[0].split() if each.isdigit())

    async def fetch(self, uid: int, part: str = _WHOLE) -> bytes:
        """Return a mail, or a part of it; empty if it is gone."""
        with translated():
            lines = _good(await self._client.uid("FETCH", str(uid), part))
        # Only what was announced with its length is the mail itself.
        return next((bytes(each) for each in lines if isinstance(each, bytearray)), b"")

    async def mark_read(self, uid: int) -> None:
        """Show in the mailbox that a mail was read."""
        with translated():
            _good(await self._client.uid("STORE", str(uid), r"+FLAGS (\Seen)"))

    async def wait(self, seconds: float) -> None:
        """Wait until something has changed, at most so long; the server answers in the end."""
        with translated():
            if not self._client.has_capability("IDLE"):
                await asyncio.sleep(seconds)
                _good(await self._client.noop())
                return
            idle = await self._client.idle_start(timeout=seconds)
            try:
                await self._client.wait_server_push(seconds + CALL_S)
                self._client.idle_done()
                async with asyncio.timeout(CALL_S):
                    await idle
            finally:
                idle.cancel()


@asynccontextmanager
async def open_mailbox(config: EmailConfig) -> AsyncGenerator[Mailbox]:
    """Log in and open the folder; raises AccountRefused or Unreachable."""
    from aioimaplib import IMAP4

    # The library's types do not fit what it does.
    client: Any
    no_tls: Any = None

    def lose(_: Exception | None) -> None:
        # It wakes whoever waits for mail.
        client.protocol.idle_queue.put_nowait([])

    with translated():
        client = IMAP4(
            config.imap_host,
            config.imap_port,
            timeout=CALL_S,
            conn_lost_cb=lose,
            ssl_context=ssl.create_default_context() if config.tls == "on" else no_tls,
        )
        await client.wait_hello_from_server()
    try:
        with translated():
            login = await client.login(*config.login)
            if login.result != "OK" and b"UNAVAILABLE" not in login.lines[-1]:
                raise AccountRefused(
                    "the IMAP server refuses the login; check EMAIL_ADDRESS and EMAIL_PASSWORD"
                )
            opened = b" ".join(_good(await client.select(config.folder)))
        yield Mailbox(client, _number(_VALIDITY, opened), _number(_NEXT, opened))
    finally:
        client.protocol.transport.close()


def _number(pattern: re.Pattern[bytes], text: bytes) -> int:
    found = pattern.search(text)
    return int(found[1]) if found else 0


def _good(answer: Any) -> list[bytes | bytearray]:
    """Return the lines of an answer; raises Unreachable if the server refuses."""
    lines: list[bytes | bytearray] = answer.lines
    if answer.result != "OK":
        told = lines[-1].decode(errors="replace") if lines else answer.result
        raise Unreachable(f"email: the IMAP server says {told}")
    return lines


@contextmanager
def translated() -> Generator[None]:
    """Turn errors of the connection into ours."""
    from aioimaplib import AioImapException

    try:
        yield
    except (AioImapException, OSError, TimeoutError) as error:
        raise Unreachable(f"email: the IMAP server cannot be reached ({error!r})") from None
