"""The `send_message` tool."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec.structs import replace
from pydantic import Field

from agent_service.records.messages import (
    NO_CHATS,
    ORIGIN,
    TERMINAL,
    Media,
    MediaFile,
    Message,
    Messenger,
    NotSent,
    SendingUnknown,
    Target,
    split_media,
)
from agent_service.records.sandbox import Files, PathRefused
from agent_service.security.commands.families import FAMILIES
from agent_service.tools.base import (
    Effect,
    RetryWithHint,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.guards.approval import binding_of, check_allowed
from agent_service.tools.guards.commands import CommandPolicy
from agent_service.tools.guards.files import guarded
from agent_service.tools.guards.taint import must_ask
from agent_service.tools.texts import same_file

MAX_CHARACTERS = 100_000
MAX_FILES = 10
MAX_FILE_BYTES = 50_000_000
"""For all files of a message; the gateway's limit."""
FILES_AT_ONCE = 2
"""How many messages with files may be in memory at a time."""

NO_CHATS_KNOWN = "No chats are known yet. You can reach any chat as platform:chat[:thread]."

_UNKNOWN = (
    "The gateway did not answer, so it is unknown whether the message was sent. Do not send it "
    "again before somebody has checked."
)


class SendMessageArguments(ToolArguments):
    """Sends a message to a chat, in addition to your answer.

    Your answer goes by itself to the chat that the user's message came from. Use this tool to reach
    another chat, to send something before your answer, or to send files. `list` shows the known
    chats.
    """

    action: Literal["send", "list"] = Field(default="send", description="What to do.")
    target: str = Field(
        default=ORIGIN,
        description=(
            "origin, the chat that the user's message came from; platform:chat[:thread]; "
            "platform:#name; a platform alone, its home channel; home; or all, every home channel."
        ),
    )
    message: str = Field(
        default="",
        max_length=MAX_CHARACTERS,
        description=(
            "The message in Markdown; for send. A line MEDIA:/workspace/data.csv attaches a file "
            "of the sandbox, and `![caption](plot.png)` a picture; at most 10 files, 50 MB in "
            "total. In a chat, both work in your answer, too."
        ),
    )


class SendMessage(UsualTool[SendMessageArguments]):
    """Sends messages."""

    name = "send_message"
    toolset = "messaging"
    arguments = SendMessageArguments

    def __init__(self, messenger: Messenger, policy: CommandPolicy, *, asks: bool = True) -> None:
        """`asks` requires approval in tainted sessions; `policy` judges files of a machine."""
        self._messenger = messenger
        self._policy = policy
        self._asks = asks
        self._room = asyncio.Semaphore(FILES_AT_ONCE)

    def effect(self, arguments: SendMessageArguments) -> Effect:
        """The call's key is also the delivery's, and each delivery is sent once."""
        return Effect.PURE if arguments.action == "list" else Effect.KEYED

    def writes(self, arguments: SendMessageArguments) -> frozenset[str]:
        """Messages are sent in the model's order, and after changes of their files."""
        if arguments.action == "list":
            return frozenset()
        _, media = split_media(arguments.message)
        return frozenset({"chats", *(same_file(each.path) for each in media)})

    async def run(self, arguments: SendMessageArguments, context: ToolContext) -> ToolResult:
        origin = Target.of_origin(context.caller.origin)
        if arguments.action == "list":
            return ToolResult(await self._list(origin, context.caller.profile))
        text, media = split_media(arguments.message)
        _check(arguments, origin, has_files=bool(media))
        if not text.strip() and not media:
            raise RetryWithHint("There is no message to send.")
        target, profile = arguments.target.strip() or ORIGIN, context.caller.profile
        message = Message(context.key, profile, origin, text, target=target)
        try:
            if not media:
                return await self._send(message, arguments, context, {})
            async with self._room:
                # On a repeated call the files may have changed or the sandbox may be lost.
                if await self._messenger.has(message.key, message.profile):
                    return ToolResult(f"The message to {message.where} is on its way.")
                place = await context.sandbox()
                paths = [each.path for each in media]
                found = await guarded(paths, context.files, place, self._policy)
                files = await _read_files(media, context.files)
                message = replace(message, files=files)
                return await self._send(message, arguments, context, found)
        except NotSent as error:
            raise ToolFailed(f"The message was not sent: {error}") from error
        except SendingUnknown as error:
            raise ToolFailed(_UNKNOWN) from error

    async def _list(self, origin: Target | None, profile: str) -> str:
        try:
            chats = await self._messenger.chats(profile)
        except (NotSent, SendingUnknown) as error:
            raise ToolFailed("The chats are not known, as the gateway does not answer.") from error
        here = f"{origin}"
        lines = [f"{chat}{', origin' if chat.target == here else ''}" for chat in chats]
        return "\n".join(lines) or NO_CHATS_KNOWN

    async def _send(
        self,
        message: Message,
        arguments: SendMessageArguments,
        context: ToolContext,
        found: Mapping[str, str],
    ) -> ToolResult:
        goes_elsewhere = message.target not in (ORIGIN, f"{message.origin}")
        if found or (self._asks and goes_elsewhere and await must_ask(context)):
            # Whoever decides sees the chats, and a target that means none is not asked about.
            places = await self._messenger.resolve(message) if goes_elsewhere else ()
            digests = [file.sha256.hex() for file in message.files]
            binding = binding_of(arguments, *digests)
            await check_allowed(self.name, _question(message, places, found), binding, context)
        left_out = await self._messenger.send(message)
        lines = [f"The message to {message.where} is on its way{_with(message.files)}."]
        if left_out:
            named = ", ".join(left_out)
            lines.append(
                f"That chat cannot show {named}. It gets a note about what is missing instead."
            )
        return ToolResult("\n".join(lines))


async def _read_files(media: Sequence[Media], source: Files) -> Sequence[MediaFile]:
    if len(media) > MAX_FILES:
        raise RetryWithHint(f"A message can have at most {MAX_FILES} files. Send several messages.")
    files: list[MediaFile] = []
    left = MAX_FILE_BYTES
    for each in media:
        if each.is_url:
            raise RetryWithHint(
                f"{each.path} is not a file of the sandbox. Download it there first."
            )
        try:
            files.append(await read_file(each, source, left))
        except ToolFailed as error:
            raise ToolFailed(f"{each.path} cannot be sent, so nothing was sent: {error}") from error
        left -= len(files[-1].data)
    return files


async def read_file(media: Media, source: Files, max_bytes: int) -> MediaFile:
    """A file of the sandbox; ToolFailed if it cannot be sent."""
    try:
        data = await source.read(media.path, max_bytes=max_bytes)
    except PathRefused as error:
        raise ToolFailed(str(error)) from error
    if not data:
        raise ToolFailed("it is empty.")
    return MediaFile.from_bytes(media.path, data, media.caption)


def _with(files: Sequence[MediaFile]) -> str:
    return f", with {', '.join(map(str, files))}" if files else ""


def _question(message: Message, places: Sequence[str], found: Mapping[str, str]) -> str:
    """The question to a person, with the files first since long text may be cut."""
    means = f" ({', '.join(places)})" if [*places] not in ([], [message.target]) else ""
    shown = [f"to {message.where}{means}"]
    shown += [f"with the file {file}, SHA-256 {file.sha256.hex()[:16]}" for file in message.files]
    shown += [f"{path}: {FAMILIES[family].about}" for path, family in found.items()]
    where = "\n".join(shown)
    return f"{where}: {message.text}" if message.text else where


def _check(arguments: SendMessageArguments, origin: Target | None, *, has_files: bool) -> None:
    if arguments.target.strip() not in ("", ORIGIN):
        return
    takes_files = origin is not None and has_files and origin.platform == TERMINAL
    if origin is None or (origin.platform in NO_CHATS and not takes_files):
        raise RetryWithHint(
            "This conversation has no chat to send to. Put the text into your answer."
        )
