"""The world of a real Matrix homeserver, with an encrypted room."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import nio
from nio.crypto.attachments import decrypt_attachment
from pydantic import SecretStr

from gateway_service.platforms.base import NOTHING, Destination, Platform, Received
from gateway_service.platforms.matrix.config import MatrixConfig
from gateway_service.platforms.matrix.platform import MatrixPlatform
from tests.contract.platform_world import Failure, World
from tests.support.requirements import require
from tests.support.synapse import Person, make_account, person, synapse


class MatrixWorld(World):
    """Somebody on a real homeserver, who has invited Hermes to an encrypted room."""

    def __init__(self, ada: Person, config: MatrixConfig, store: Path) -> None:
        self._ada = ada
        self._config = config
        self._store = store
        self.chat, self.cursor = Destination(""), ""

    async def begin(self) -> None:
        """Let Hermes accept the invitation."""
        room_id = await self._ada.invite(self._config.user_id, encrypted=True)
        self.chat = Destination(room_id)
        sink = Joining()
        async with self.connect() as platform:
            await self._ada.sync()
            listening = asyncio.create_task(platform.listen(sink))
            await self._ada.until_joined(room_id, self._config.user_id)
            await self._ada.say(room_id, "Welcome.")
            await sink.came.wait()
            listening.cancel()
            await asyncio.wait([listening])
        self.cursor = sink.cursor

    def connect(self) -> Platform:
        return MatrixPlatform(self._config, self._store)

    async def say(self, text: str) -> None:
        await self._ada.say(self.chat.chat_id, text)

    async def press(self, message_id: str, data: str) -> None:
        raise NotImplementedError

    def fail(self, how: Failure) -> None:
        require("synapse", False, f"a real homeserver gives no {how} on demand")

    async def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        read = await self._ada.read(self.chat.chat_id)
        return {message_id: (content["body"], []) for message_id, content in read.items()}

    async def files(self) -> Sequence[tuple[str, bytes]]:
        found = list[tuple[str, bytes]]()
        for content in (await self._ada.read(self.chat.chat_id)).values():
            about = content["file"]
            answer = await self._ada.client.download(about["url"])
            assert isinstance(answer, nio.DownloadResponse)
            assert isinstance(answer.body, bytes)
            keys = about["key"]["k"], about["hashes"]["sha256"], about["iv"]
            found.append((content["filename"], decrypt_attachment(answer.body, *keys)))
        return found


class Joining:
    """A sink that waits for the first event."""

    def __init__(self) -> None:
        self.cursor = ""
        self.came = asyncio.Event()

    async def store(self, received: Received = NOTHING) -> None:
        self.cursor = received.cursor or self.cursor
        if received.events:
            self.came.set()


@asynccontextmanager
async def matrix(folder: Path) -> AsyncGenerator[World]:
    async with synapse(folder) as url, person(url, "ada", folder / "ada") as ada:
        user_id, token = await make_account(url, "hermes")
        config = MatrixConfig(
            token=SecretStr(token), user_id=user_id, homeserver=url, allowed_users=(ada.id,)
        )
        world = MatrixWorld(ada, config, folder / "hermes")
        await world.begin()
        yield world
