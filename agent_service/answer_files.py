"""Files that an answer names by `MEDIA:` lines: sent to the chat that the answer goes to."""

import asyncio
import json
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from agent_service.continuing import said_before
from agent_service.live_turn import LiveTurn
from agent_service.messaging import (
    NO_CHATS,
    Message,
    Messenger,
    NotSent,
    SendingUnknown,
    Target,
    split_media,
)
from agent_service.sandbox import Files, SandboxUnavailable
from agent_service.tools.base import RetryWithHint, ToolFailed
from agent_service.tools.send_message import FILES_AT_ONCE, read_files

TOOLSET = "messaging"
"""What a turn has to be allowed for it."""
_BEGINNING = b'{"role":"assistant"'


class AnswerFiles:
    """Sends them, after the answer is stored and before its turn ends."""

    def __init__(self, messenger: Messenger, files: Callable[[LiveTurn], Files]) -> None:
        self._messenger = messenger
        self._files = files
        self._room = asyncio.Semaphore(FILES_AT_ONCE)

    def are_in(self, turn: LiveTurn, text: str) -> bool:
        """Whether an answer has files that go to its chat."""
        is_allowed = not turn.toolsets or TOOLSET in turn.toolsets
        return is_allowed and _chat(turn) is not None and bool(split_media(text)[1])

    async def send(self, turn: LiveTurn, answer: str) -> str:
        """Send the files, once for a turn; returns the answer without them, or with why not."""
        text, paths = split_media(answer)
        key, chat = f"{turn.id}:files", _chat(turn)
        assert chat is not None, "only answers to chats wait for their files"
        try:
            async with self._room:
                if not await self._messenger.has(key, turn.profile):
                    files = await read_files(paths, self._files(turn))
                    await self._messenger.send(Message(key, turn.profile, chat, "", files))
        except SendingUnknown:
            return (
                f"{text}\n\n(It is not known whether the files of this answer were sent.)".strip()
            )
        except (NotSent, SandboxUnavailable, ToolFailed, RetryWithHint) as error:
            return f"{text}\n\n(The files of this answer were not sent. {error})".strip()
        return text or ", ".join(PurePosixPath(path).name for path in paths)


def answer_in_wait(turn: LiveTurn) -> str | None:
    """The answer that is stored, and whose files are still to be sent; None where there is none."""
    if turn.pending or not turn.messages[-1].startswith(_BEGINNING):
        return None
    fields: dict[str, Any] = json.loads(turn.messages[-1])
    return "".join([*said_before(turn.messages[:-1]), fields.get("content") or ""])


def _chat(turn: LiveTurn) -> Target | None:
    chat = Target.of_origin(turn.origin)
    return None if chat is None or chat.platform in NO_CHATS else chat
