"""What clients of the HTTP API send."""

import hashlib
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from gateway_service.messages import EarlierMessage
from services.errors import InvalidArgument
from services.validation import check_id

MAX_TEXT_BYTES = 1024 * 1024
MAX_EARLIER = 50
"""How many of a conversation's earlier messages a new session begins with; the last ones."""
MAX_SYSTEM_CHARS = 100_000

_TEXTS = ("text", "input_text", "output_text")
_INSTRUCTING = ("system", "developer")


class ContentPart(Struct, frozen=True):
    """A part of a message."""

    type: str = ""
    text: str = ""


Content: TypeAlias = str | list[ContentPart] | None


class InputMessage(Struct, frozen=True):
    """A message, or another item of a Responses request."""

    role: str = ""
    content: Content = None
    type: str = "message"


class StreamOptions(Struct, frozen=True):
    """What a stream has besides the answer."""

    include_usage: bool | None = None


class ChatRequest(Struct, frozen=True):
    """The body of /v1/chat/completions; other fields are ignored."""

    messages: list[InputMessage]
    model: str = ""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    user: str | None = None


class ResponseRequest(Struct, frozen=True):
    """The body of /v1/responses, and of /v1/runs; other fields are ignored."""

    input: str | list[InputMessage]
    model: str = ""
    instructions: str | None = None
    previous_response_id: str | None = None
    session_id: str | None = None
    background: bool | None = None
    stream: bool | None = None
    user: str | None = None


class Conversation(Struct, frozen=True):
    """What a client says, and what was said before."""

    text: str
    earlier: tuple[EarlierMessage, ...] = ()
    system_message: str = ""

    def after(self, answer: str) -> "Conversation":
        """Return the conversation as the client will know it once it has this answer."""
        said = EarlierMessage("user", self.text), EarlierMessage("assistant", answer)
        return Conversation("", (*self.earlier, *said))

    def fingerprint(self, user: str) -> str:
        """Return a digest of what was said before, which a user's next request has again.

        System messages and whitespace do not count: clients change them on the way.
        """
        digest = hashlib.sha256(user.encode())
        for each in self.earlier:
            words = " ".join(each.text.split()).encode()
            digest.update(b"\0%s %d " % (each.role.encode(), len(words)) + words)
        return digest.hexdigest()


def read_messages(messages: Sequence[InputMessage], instructions: str = "") -> Conversation:
    """Read a conversation, whose last message is what the client says now."""
    told = [instructions] if instructions else []
    said: list[EarlierMessage] = []
    for number, message in enumerate(messages):
        if message.type != "message":
            continue
        text = _text(message.content, f"messages[{number}].content")
        if message.role in _INSTRUCTING:
            told.append(text)
        elif message.role in ("user", "assistant") and text.strip():
            said.append(EarlierMessage(message.role, text))
    if not said or said[-1].role != "user":
        raise InvalidArgument(
            "the last message must be the user's and have text", fields={"messages": "no question"}
        )
    *earlier, question = said
    if len(question.text.encode()) > MAX_TEXT_BYTES:
        raise InvalidArgument("the message is too long", fields={"messages": "at most 1 MiB"})
    system = "\n\n".join(filter(str.strip, told))
    if len(system) > MAX_SYSTEM_CHARS:
        raise InvalidArgument(
            "the system message is too long", fields={"messages": f"at most {MAX_SYSTEM_CHARS}"}
        )
    return Conversation(question.text, tuple(earlier), system)


def read_input(request: ResponseRequest) -> Conversation:
    """Read the input of a Responses request or a run."""
    given = request.input
    messages = [InputMessage("user", given)] if isinstance(given, str) else given
    return read_messages(messages, request.instructions or "")


def shorten(earlier: Sequence[EarlierMessage]) -> tuple[EarlierMessage, ...]:
    """Return the last of some messages, as many as a new session takes."""
    kept: list[EarlierMessage] = []
    room = MAX_TEXT_BYTES
    for each in reversed(earlier[-MAX_EARLIER:]):
        room -= len(each.text.encode())
        if room < 0:
            break
        kept.append(each)
    return tuple(reversed(kept))


def check_session(name: str, session_id: str) -> str:
    """Return a client's session id, or InvalidArgument if it is not valid."""
    if session_id:
        check_id(name, session_id)
    return session_id


def _text(content: Content, field: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for number, part in enumerate(content):
        if part.type not in _TEXTS:
            raise InvalidArgument(
                f"content of type {part.type!r} is not supported; send text",
                fields={f"{field}[{number}].type": "text"},
                metadata={"code": "unsupported_content"},
            )
    return "\n".join(part.text for part in content)
