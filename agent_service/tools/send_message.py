"""The `send_message` tool."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from pydantic import Field

from agent_service.messaging import NO_CHATS, ORIGIN, Messenger, NotSent, SendingUnknown, Target
from agent_service.tools.base import (
    Effect,
    RetryWithHint,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
)

MAX_CHARACTERS = 100_000

KnownChats = Callable[[str], Awaitable[Sequence[Target]]]
"""The chats that a profile's messages came from, the latest first."""

_UNKNOWN = (
    "The gateway could not be reached, so it is not known whether the message is sent. "
    "Do not send it again before somebody has looked."
)


class SendMessageArguments(ToolArguments):
    """Sends a message to a chat, besides the answer that you give.

    Your answer goes to where the user's message came from by itself: use this only to reach another
    chat, or to send something ahead. `list` shows the chats that are known.
    """

    action: Literal["send", "list"] = Field(default="send", description="What to do.")
    target: str = Field(
        default=ORIGIN,
        description="origin, where the user's message came from, or platform:chat[:thread].",
    )
    message: str = Field(
        default="", max_length=MAX_CHARACTERS, description="The message, in Markdown; for send."
    )


class SendMessage:
    """Sends messages."""

    name = "send_message"
    toolset = "messaging"
    arguments = SendMessageArguments

    def __init__(self, messenger: Messenger, chats: KnownChats) -> None:
        self._messenger = messenger
        self._chats = chats

    def effect(self, arguments: SendMessageArguments) -> Effect:
        """The call's key is the delivery's, and each delivery is sent once."""
        return Effect.PURE if arguments.action == "list" else Effect.KEYED

    def writes(self, arguments: SendMessageArguments) -> frozenset[str]:
        """Messages go out in the order in which the model has written them."""
        return frozenset() if arguments.action == "list" else frozenset({"chats"})

    async def run(self, arguments: SendMessageArguments, context: ToolContext) -> ToolResult:
        """Send, or list."""
        origin = Target.of_origin(context.caller.origin)
        if arguments.action == "list":
            return ToolResult(_listed(origin, await self._chats(context.caller.profile)))
        if not arguments.message.strip():
            raise RetryWithHint("There is no message to send.")
        target = _target(arguments, context)
        try:
            await self._messenger.send(
                context.key, context.caller.profile, target, arguments.message
            )
        except NotSent as error:
            raise ToolFailed(f"The message was not sent: {error}") from error
        except SendingUnknown as error:
            raise ToolFailed(_UNKNOWN) from error
        return ToolResult(f"The message to {target} is on its way.")


def goes_elsewhere(arguments: SendMessageArguments, context: ToolContext) -> bool:
    """Whether a call tells something to another chat than the one that it came from."""
    origin = Target.of_origin(context.caller.origin)
    is_origin = arguments.target == ORIGIN or Target.parse(arguments.target) == origin
    return arguments.action == "send" and not is_origin


def shown(arguments: SendMessageArguments) -> str:
    """What a person is asked about."""
    return f"to {arguments.target}: {arguments.message}"


def _target(arguments: SendMessageArguments, context: ToolContext) -> Target:
    if arguments.target == ORIGIN:
        origin = Target.of_origin(context.caller.origin)
        if origin is None or origin.platform in NO_CHATS:
            raise RetryWithHint("This message came from no chat: say it in your answer.")
        return origin
    target = Target.parse(arguments.target)
    if target is None:
        raise RetryWithHint(
            f"{arguments.target!r} is no target: say origin or platform:chat[:thread], such as "
            "telegram:123456. `list` shows those that are known."
        )
    return target


def _listed(origin: Target | None, chats: Sequence[Target]) -> str:
    lines = [f"{chat}{' (origin)' if chat == origin else ''}" for chat in chats]
    return "\n".join(lines) or "No chat is known yet; platform:chat[:thread] reaches any."
