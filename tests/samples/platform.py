"""The guide's platform: messages are files that somebody moves into a folder."""

import asyncio
from pathlib import Path
from typing import Self

from gateway_service.errors import MessageGone, Unreachable
from gateway_service.messages import Content, MessageEvent, Source
from gateway_service.platforms.base import Destination, Platform, Received, Sink, Traits
from gateway_service.platforms.rate_limits import Rate

LOOK_S = 0.1


class FolderPlatform(Platform):
    """Reads `in/7-ann.txt`, the seventh message and Ann's; writes answers as `out/ann-1.md`."""

    name = "folder"
    account_id = "1"
    traits = Traits(message_units=100_000, rate=Rate(per_second=50, burst=50))

    def __init__(self, root: Path) -> None:
        self._in, self._out = root / "in", root / "out"

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._out.mkdir, exist_ok=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def listen(self, sink: Sink) -> None:
        """Look for messages; the cursor is the number of the next one."""
        while True:
            await sink.store(await asyncio.to_thread(self._read, int(sink.cursor or 0)))
            await asyncio.sleep(LOOK_S)

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        """Write a new file; its name is the message's id."""
        return await asyncio.to_thread(self._write_new, destination.chat_id, content.text)

    async def edit(self, destination: Destination, message_id: str, content: Content) -> None:
        """Write the file anew."""
        await asyncio.to_thread(_rewrite, self._out / message_id, content.text)

    def _read(self, position: int) -> Received:
        found = {int(path.stem.partition("-")[0]): path for path in self._in.glob("*-*.txt")}
        events = [
            MessageEvent(str(number), _source(path), path.read_text())
            for number, path in sorted(found.items())
            if number >= position
        ]
        return Received(events, str(max([position, *(number + 1 for number in found)])))

    def _write_new(self, chat: str, text: str) -> str:
        if not self._out.is_dir():
            raise Unreachable(f"{self._out} is not there")
        number = len(list(self._out.glob(f"{chat}-*.md"))) + 1
        path = self._out / f"{chat}-{number}.md"
        path.write_text(text)
        return path.name


def _rewrite(path: Path, text: str) -> None:
    if not path.exists():
        raise MessageGone(f"{path} is not there any more")
    path.write_text(text)


def _source(path: Path) -> Source:
    chat = path.stem.partition("-")[2]
    return Source("folder", chat_id=chat, user_id=chat)
