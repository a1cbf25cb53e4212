"""Files that an answer names, and its pictures, sent to the answer's chat."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from agent_service.records.messages import (
    NO_CHATS,
    Media,
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
from agent_service.security.fetch.urls import Fetcher, FetchFailed, FetchLimits, FetchRefused
from agent_service.tools.base import RetryWithHint, SessionRecords, SessionState, ToolFailed
from agent_service.tools.guards.commands import CommandPolicy
from agent_service.tools.guards.files import guarded
from agent_service.tools.guards.taint import sources
from agent_service.tools.media.made_files import attached_by
from agent_service.tools.send_message import FILES_AT_ONCE, MAX_FILE_BYTES, MAX_FILES, read_file
from agent_service.tools.texts import same_file
from agent_service.turns.continuation import cut_pieces

TOOLSET = "messaging"
WEB = "web"
MOST_FETCHED_BYTES = 10_000_000
_PICTURES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
_BEGINNING = b'{"role":"assistant"'


class Workplace(Struct, frozen=True):
    """The sandbox and session of a turn, independent of its calls."""

    files: Files
    place: Callable[[], Awaitable[SandboxInfo]]
    state: SessionState
    records: SessionRecords


class AnswerFiles:
    """Sends files after the answer is stored and before its turn ends.

    Nobody can be asked at that point, so what needs a person's approval is not sent.
    """

    def __init__(
        self,
        messenger: Messenger,
        workplace: Callable[[LiveTurn], Workplace],
        policy: CommandPolicy,
        fetcher: Fetcher,
    ) -> None:
        self._messenger = messenger
        self._workplace = workplace
        self._policy = policy
        self._fetcher = fetcher
        self._room = asyncio.Semaphore(FILES_AT_ONCE)

    def are_in(self, turn: LiveTurn, text: str) -> bool:
        is_allowed = not turn.toolsets or TOOLSET in turn.toolsets
        return is_allowed and _chat(turn) is not None and bool(self._split(turn, text)[1])

    async def send(self, turn: LiveTurn, answer: str) -> str:
        """Send the files, once per turn; return the answer with the reasons for unsent files."""
        text, media = self._split(turn, answer)
        key, chat = f"{turn.id}:files", _chat(turn)
        assert chat is not None, "only answers to chats wait for their files"
        problems: Mapping[Media, str] = {}
        try:
            async with self._room:
                if not await self._messenger.has(key, turn.profile):
                    files, problems = await self._read_all(turn, media)
                    if files:
                        await self._messenger.send(Message(key, turn.profile, chat, "", files))
        except SendingUnknown:
            return (
                f"{text}\n\n(It is not known whether the files of this answer were sent.)".strip()
            )
        except (NotSent, SandboxUnavailable) as error:
            return f"{text}\n\n(The files of this answer were not sent. {error})".strip()
        missing = [_describe_problem(each, why) for each, why in problems.items()]
        return "\n\n".join(filter(None, (text, *missing))) or ", ".join(each.name for each in media)

    def _split(self, turn: LiveTurn, text: str) -> tuple[str, Sequence[Media]]:
        """The text without its files, and those files with others that the turn has made."""
        rest, media = split_media(text, urls=not turn.toolsets or WEB in turn.toolsets)
        named = {same_file(each.path) for each in media if not each.is_url}
        made = attached_by(turn.id, turn.messages)
        return rest, (*media, *(Media(path) for path in made if same_file(path) not in named))

    async def _read_all(
        self, turn: LiveTurn, media: Sequence[Media]
    ) -> tuple[Sequence[MediaFile], Mapping[Media, str]]:
        work, left = self._workplace(turn), MAX_FILE_BYTES
        files: list[MediaFile] = []
        problems = dict.fromkeys(media[MAX_FILES:], f"an answer has at most {MAX_FILES} files.")
        for each in media[:MAX_FILES]:
            read = self._fetch if each.is_url else self._read
            try:
                files.append(await read(work, each, left))
            except (ToolFailed, RetryWithHint) as error:
                problems[each] = str(error)
            else:
                left -= len(files[-1].data)
        return files, problems

    async def _read(self, work: Workplace, media: Media, left: int) -> MediaFile:
        if await guarded((media.path,), work.files, await work.place(), self._policy):
            raise ToolFailed("a person has to allow this; send_message asks for it.")
        return await read_file(media, work.files, left)

    async def _fetch(self, work: Workplace, media: Media, left: int) -> MediaFile:
        """Fetch a picture; in a tainted session its address could tell somebody what was read."""
        asks = self._policy.asks_before_sending and await sources(work.state)
        if asks and await work.records.unknown_links((media.path,)):
            raise ToolFailed("only the model has named this address.")
        limits = FetchLimits(size_bytes=min(left, MOST_FETCHED_BYTES))
        try:
            fetched = await self._fetcher.get(media.path, limits)
        except (FetchRefused, FetchFailed) as error:
            raise ToolFailed(f"{error}.") from error
        kind = fetched.content_type.partition(";")[0].strip().lower()
        suffix = _PICTURES.get(kind)
        if fetched.status != HTTPStatus.OK or suffix is None or fetched.is_cut or not fetched.data:
            raise ToolFailed("there is no picture of at most 10 MB.")
        name = f"{PurePosixPath(media.name).stem or 'picture'}{suffix}"
        return MediaFile.from_bytes(name, fetched.data, media.caption)


def _describe_problem(media: Media, why: str) -> str:
    """Return what takes the place of a file; the address of a picture can be followed."""
    named = media.path if media.is_url else media.name
    return f"({named} was not sent: {why})"


def pending_answer(turn: LiveTurn) -> str | None:
    """Return the stored answer whose files were not sent yet; None if there is none."""
    if turn.pending or not turn.messages[-1].startswith(_BEGINNING):
        return None
    fields: dict[str, Any] = json.loads(turn.messages[-1])
    return "".join([*cut_pieces(turn.messages[:-1]), fields.get("content") or ""])


def _chat(turn: LiveTurn) -> Target | None:
    chat = Target.of_origin(turn.origin)
    return None if chat is None or chat.platform in NO_CHATS else chat
