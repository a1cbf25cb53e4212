"""Checks a conversation's requests, and orders its responses."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence

from gateway_service.commands.base import Answer, Command
from gateway_service.commands.skills import skill_path
from gateway_service.messages import CLI, FileKind, RemoteFile, UploadedFile
from gateway_service.storage.outbox import Part
from hermes.agent.v1 import skill_pb2
from hermes.common.v1 import content_pb2
from hermes.common.v1.content_pb2 import MessageFile
from hermes.gateway.v1.conversation_pb2 import (
    ConverseRequest,
    ConverseResponse,
    ListCommandsResponse,
    SlashCommand,
)
from services.errors import InvalidArgument
from services.rpc.messages import enum_word
from services.validation import check_id

MAX_TEXT_BYTES = 1024 * 1024
MAX_MESSAGE_ID_CHARS = 64
MAX_SESSION_NAME_CHARS = 200
"""The limit for an id or title."""
MAX_WATCHED_TURNS = 100
MAX_FILES = 20


class Outgoing:
    """The responses of one stream: queued by tasks, written by the call's handler."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[
            tuple[ConverseResponse, asyncio.Event] | BaseException | None
        ] = asyncio.Queue()

    async def say(self, response: ConverseResponse) -> None:
        """Queue a response, and return when it was written."""
        written = asyncio.Event()
        self._waiting.put_nowait((response, written))
        await written.wait()

    def end(self, error: BaseException | None = None) -> None:
        """End the stream; an error is raised in it."""
        self._waiting.put_nowait(error)

    async def responses(self) -> AsyncGenerator[ConverseResponse]:
        while (item := await self._waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            response, written = item
            yield response
            written.set()


def check_open(opening: ConverseRequest.Open) -> None:
    """Raise InvalidArgument unless the request is valid."""
    if opening.platform not in ("", CLI):
        raise InvalidArgument(
            f"{opening.platform} is not a client of the gateway",
            fields={"open.platform": f"must be {CLI}, or empty"},
        )
    named = opening.session_id
    if len(named) > MAX_SESSION_NAME_CHARS or not named.isprintable():
        raise InvalidArgument(
            "no session is called like this",
            fields={"open.session_id": f"an id or a title, at most {MAX_SESSION_NAME_CHARS} chars"},
        )
    if len(opening.watched_turns) > MAX_WATCHED_TURNS:
        raise InvalidArgument(
            "too many turns", fields={"open.watched_turns": f"at most {MAX_WATCHED_TURNS}"}
        )
    for number, turn in enumerate(opening.watched_turns):
        field = f"open.watched_turns[{number}]"
        check_id(f"{field}.turn_id", turn.turn_id)
        if turn.after_sequence < 0:
            raise InvalidArgument("negative", fields={f"{field}.after_sequence": "0 or more"})


def check_message(message: ConverseRequest.UserMessage) -> None:
    """Raise InvalidArgument unless the message is valid."""
    check_id("user_message.message_id", message.message_id, MAX_MESSAGE_ID_CHARS)
    if not message.text.strip() and not message.files:
        raise InvalidArgument("the message is empty", fields={"user_message.text": "some text"})
    if len(message.files) > MAX_FILES:
        limit = {"user_message.files": f"at most {MAX_FILES}"}
        raise InvalidArgument("too many files", fields=limit)
    if len(message.text.encode()) > MAX_TEXT_BYTES:
        raise InvalidArgument(
            "the message is too long", fields={"user_message.text": "at most 1 MiB"}
        )


def uploads(message: ConverseRequest.UserMessage) -> tuple[UploadedFile, ...]:
    """Return a message's files, which the agent has."""
    return tuple(map(_uploaded, message.files))


def _uploaded(file: MessageFile) -> UploadedFile:
    word = enum_word(content_pb2.FileKind.DESCRIPTOR, file.kind)
    kind = FileKind(word) if word in list(FileKind) else FileKind.DOCUMENT
    remote = RemoteFile(kind, "", file.name, file.mime_type, file.length_bytes, file.is_forwarded)
    return UploadedFile(remote, file.length_bytes, file.sha256.hex())


def opened(session_id: str, *, resumed: bool) -> ConverseResponse:
    """Return the response that opens the conversation."""
    return ConverseResponse(opened=ConverseResponse.Opened(session_id=session_id, resumed=resumed))


def reply(
    message_id: str, text: str, session_id: str = "", *, is_error: bool = False
) -> ConverseResponse:
    """Return the answer to a command, or a notification, which has no message."""
    return ConverseResponse(
        reply=ConverseResponse.Reply(
            message_id=message_id, text=text, session_id=session_id, is_error=is_error
        )
    )


def answered(message_id: str, answer: Answer) -> ConverseResponse:
    """Return the answer to a command."""
    response = reply(message_id, answer.text, answer.session_id, is_error=answer.is_error)
    for label, message in answer.choices:
        response.reply.choices.add(label=label, message=message)
    return response


def notification(part: Part) -> ConverseResponse:
    """Return a notification for a terminal: a text or a file."""
    response, file = reply("", part.shown.text), part.content.attachment
    if file is not None:
        sent, sha256 = response.reply.attachment, bytes.fromhex(file.sha256)
        sent.name, sent.length_bytes, sent.sha256 = file.name, file.length_bytes, sha256
        response.reply.delivery_id = part.delivery_id
    return response


def list_commands(
    table: Sequence[Command], skills: Mapping[str, skill_pb2.Skill]
) -> ListCommandsResponse:
    """Return commands, including skills under their command names."""
    known = [
        SlashCommand(
            name=each.name, help=each.help, words=[verb.name for verb in each.verbs if verb.name]
        )
        for each in table
    ]
    named = [
        SlashCommand(name=name, help=skill.description, skill=skill_path(skill))
        for name, skill in sorted(skills.items())
    ]
    return ListCommandsResponse(commands=[*known, *named])
