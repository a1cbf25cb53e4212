"""Fetches the files of a message for the agent, before the message's turn is started."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.clients import AgentClient
from gateway_service.config import MediaConfig
from gateway_service.errors import OutcomeUnknown, PlatformError, RateLimited, Refused, Unreachable
from gateway_service.messages import Content, FileKind, RemoteFile, TurnRequest, UploadedFile
from gateway_service.platforms.base import Platform
from gateway_service.storage import inbox, outbox
from gateway_service.storage.accounts import OUTBOX, AccountLease
from gateway_service.storage.outbox import Delivery
from gateway_service.storage.received_files import receive, too_large
from gateway_service.turns.turn_starter import TurnStarter
from services.clock import Clock
from services.database.retries import until_answered

ATTEMPTS = 3
RETRY_S = 1.0
LONGEST_WAIT_S = 30.0
AT_ONCE = 4
MAX_FILES = 20
FETCH_S = 120.0

_NAMES = {
    FileKind.IMAGE: "the picture",
    FileKind.VOICE: "the voice message",
    FileKind.AUDIO: "the sound",
    FileKind.VIDEO: "the video",
    FileKind.DOCUMENT: "the file",
}

_log = logging.getLogger(__name__)


class Enrichment(Struct, frozen=True):
    """Starts the turns of an account's messages, with their files."""

    account: AccountLease
    platform: Platform
    agent: AgentClient
    turns: TurnStarter
    folder: Path
    """Where files are while the agent does not have them."""
    config: MediaConfig
    clock: Clock
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def start(self, turn: TurnRequest) -> str:
        """Start a turn as TurnStarter does; Refused if nothing of its message can be read."""
        if turn.files and turn.uploads is None:
            turn = await self._fetch(turn)
        return await self.turns.start(turn)

    async def _fetch(self, turn: TurnRequest) -> TurnRequest:
        uploads: list[UploadedFile] = []
        lost: list[str] = []
        for number, file in enumerate(turn.files):
            try:
                if number >= MAX_FILES:
                    raise Refused(f"a message has at most {MAX_FILES} files")
                async with self.room:
                    uploads.append(await self._pass_on(file))
            except (PlatformError, OSError) as error:
                _log.warning("a file of a message is not read: %s", error)
                is_ours = isinstance(error, PlatformError)
                why = error.message if is_ours else "it could not be stored"
                lost.append(f"I could not read {_NAMES[file.kind]}{_named(file)}: {why}.")
        lost = list(dict.fromkeys(lost))  # all of an album may be lost
        if not (uploads or turn.text.strip() or turn.quotes):
            raise Refused("\n".join(lost))
        turn = replace(turn, uploads=tuple(uploads))
        await self._store(turn, lost)
        return turn

    async def _store(self, turn: TurnRequest, lost: Sequence[str]) -> None:
        """Store what was uploaded, so that a repeated start is the same, and tell what was not."""
        now = self.clock.now()

        def write(conn: Connection) -> None:
            inbox.update(conn, turn)
            if lost:
                address = self.account.address(turn.source)
                contents = [Content("\n".join(lost))]
                outbox.add(conn, Delivery(f"unread_{turn.turn_id}", address, contents), now)

        await self.account.write(write, notify=OUTBOX if lost else "")

    async def _pass_on(self, file: RemoteFile) -> UploadedFile:
        """Fetch a file and give it to the agent."""
        max_bytes = self.config.max_bytes(file.kind)
        if file.length_bytes > max_bytes:
            raise too_large(max_bytes)
        for number in range(1, ATTEMPTS + 1):
            async with AsyncExitStack() as stack:
                try:
                    async with (
                        asyncio.timeout(FETCH_S),
                        aclosing(self.platform.download(file)) as chunks,
                    ):
                        received = receive(self.folder, chunks, max_bytes)
                        found = await stack.enter_async_context(received)
                except TimeoutError:
                    raise Unreachable(f"it did not come within {FETCH_S:g} s") from None
                except (Unreachable, OutcomeUnknown, RateLimited) as error:
                    if number == ATTEMPTS:
                        raise
                    wait_s = error.wait_s if isinstance(error, RateLimited) else RETRY_S
                    await self.clock.sleep(min(wait_s, LONGEST_WAIT_S))
                else:
                    upload = partial(self.agent.upload, found)
                    await until_answered(self.clock, "a file of a message", upload)
                    return UploadedFile(file, found.length_bytes, found.sha256)
        raise AssertionError("the last attempt raises")


def _named(file: RemoteFile) -> str:
    """Return a file's name for the chat, in which nothing misleads or formats."""
    name = "".join(c if c.isprintable() and c != "`" else "_" for c in file.name[:60])
    return f" `{name}`" if name else ""
