"""Files in the `MEDIA:` lines of an answer, sent to the answer's chat."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from agent_service.records.messages import (
    NO_CHATS,
    MediaFile,
    Message,
    Messenger,
    NotSent,
    SendingUnknown,
    Target,
    split_media,
)
from agent_service.records.sandbox import Files, SandboxInfo, SandboxUnavailable
from agent_service.records.turn_state import LiveTurn
from agent_service.tools.base import RetryWithHint, ToolFailed
from agent_service.tools.guards.commands import CommandPolicy
from agent_service.tools.guards.files import guarded
from agent_service.tools.send_message import FILES_AT_ONCE, read_files
from agent_service.turns.continuation import said_before

TOOLSET = "messaging"
"""The toolset that a turn needs to send files."""
_BEGINNING = b'{"role":"assistant"'


class Workplace(Struct, frozen=True):
    """The sandbox of a turn, independent of its calls."""

    files: Files
    place: Callable[[], Awaitable[SandboxInfo]]


class AnswerFiles:
    """Sends files after the answer is stored and before its turn ends.

    Nobody can be asked at that point, so files that need a person's approval are not sent.
    """

    def __init__(
        self,
        messenger: Messenger,
        workplace: Callable[[LiveTurn], Workplace],
        policy: CommandPolicy,
    ) -> None:
        self._messenger = messenger
        self._workplace = workplace
        self._policy = policy
        self._room = asyncio.Semaphore(FILES_AT_ONCE)

    def are_in(self, turn: LiveTurn, text: str) -> bool:
        is_allowed = not turn.toolsets or TOOLSET in turn.toolsets
        return is_allowed and _chat(turn) is not None and bool(split_media(text)[1])

    async def send(self, turn: LiveTurn, answer: str) -> str:
        """Send the files once per turn; return the answer without them, or with why they were not
        sent."""
        text, paths = split_media(answer)
        key, chat = f"{turn.id}:files", _chat(turn)
        assert chat is not None, "only answers to chats wait for their files"
        try:
            async with self._room:
                if not await self._messenger.has(key, turn.profile):
                    files = await self._read(turn, paths)
                    await self._messenger.send(Message(key, turn.profile, chat, "", files))
        except SendingUnknown:
            return (
                f"{text}\n\n(It is not known whether the files of this answer were sent.)".strip()
            )
        except (NotSent, SandboxUnavailable, ToolFailed, RetryWithHint) as error:
            return f"{text}\n\n(The files of this answer were not sent. {error})".strip()
        return text or ", ".join(PurePosixPath(path).name for path in paths)

    async def _read(self, turn: LiveTurn, paths: Sequence[str]) -> Sequence[MediaFile]:
        work = self._workplace(turn)
        if found := await guarded(paths, work.files, await work.place(), self._policy):
            raise ToolFailed(
                f"A person has to allow that for {', '.join(found)}: send_message asks for it."
            )
        return await read_files(paths, work.files)


def answer_in_wait(turn: LiveTurn) -> str | None:
    """Return the stored answer whose files are still to be sent; None if there is none."""
    if turn.pending or not turn.messages[-1].startswith(_BEGINNING):
        return None
    fields: dict[str, Any] = json.loads(turn.messages[-1])
    return "".join([*said_before(turn.messages[:-1]), fields.get("content") or ""])


def _chat(turn: LiveTurn) -> Target | None:
    chat = Target.of_origin(turn.origin)
    return None if chat is None or chat.platform in NO_CHATS else chat
