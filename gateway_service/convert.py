"""Messages of the wire as the gateway's own types, and back."""

from gateway_service.clients import Decision
from gateway_service.errors import UnknownPlatform
from gateway_service.messages import CLI
from hermes.agent.v1 import turn_event_pb2
from hermes.gateway.v1.conversation_pb2 import ConverseRequest, ConverseResponse
from services.errors import InvalidArgument
from services.home import DEFAULT_PROFILE
from services.validation import check_id

MAX_TEXT_BYTES = 1024 * 1024
MAX_MESSAGE_ID_CHARS = 64

_DECISIONS = {
    turn_event_pb2.APPROVAL_DECISION_ONCE: Decision.ONCE,
    turn_event_pb2.APPROVAL_DECISION_SESSION: Decision.SESSION,
    turn_event_pb2.APPROVAL_DECISION_DENY: Decision.DENY,
}


def profile_of(name: str) -> str:
    """The profile that a request means."""
    return name or DEFAULT_PROFILE


def check_open(opening: ConverseRequest.Open) -> None:
    """InvalidArgument unless a conversation can be opened like this."""
    if opening.platform not in ("", CLI):
        raise UnknownPlatform(
            f"{opening.platform} is not a client of the gateway",
            fields={"open.platform": f"must be {CLI}, or empty"},
        )
    if opening.session_id:
        check_id("open.session_id", opening.session_id)
    if opening.turn_id:
        check_id("open.turn_id", opening.turn_id)
    if opening.after_sequence < 0:
        raise InvalidArgument("negative", fields={"open.after_sequence": "0 or more"})


def check_message(message: ConverseRequest.UserMessage) -> None:
    """InvalidArgument unless this is a message."""
    check_id("user_message.message_id", message.message_id, MAX_MESSAGE_ID_CHARS)
    if not message.text.strip():
        raise InvalidArgument("the message is empty", fields={"user_message.text": "some text"})
    if len(message.text.encode()) > MAX_TEXT_BYTES:
        raise InvalidArgument(
            "the message is too long", fields={"user_message.text": "at most 1 MiB"}
        )


def decision(number: "turn_event_pb2.ApprovalDecision.ValueType") -> Decision:
    """What a person decided."""
    if number not in _DECISIONS:
        raise InvalidArgument("not a decision", fields={"decision": "ONCE, SESSION or DENY"})
    return _DECISIONS[number]


def opened(session_id: str, *, resumed: bool) -> ConverseResponse:
    """The conversation is open."""
    return ConverseResponse(opened=ConverseResponse.Opened(session_id=session_id, resumed=resumed))


def accepted(message_id: str, turn_id: str) -> ConverseResponse:
    """A message has a turn."""
    return ConverseResponse(
        accepted=ConverseResponse.Accepted(message_id=message_id, turn_id=turn_id)
    )


def event(turn_id: str, happened: turn_event_pb2.TurnEvent) -> ConverseResponse:
    """Something happened in a turn."""
    return ConverseResponse(event=ConverseResponse.Event(turn_id=turn_id, event=happened))


def reply(
    message_id: str, text: str, session_id: str = "", *, is_error: bool = False
) -> ConverseResponse:
    """The answer to a command, or news where there is no message."""
    return ConverseResponse(
        reply=ConverseResponse.Reply(
            message_id=message_id, text=text, session_id=session_id, is_error=is_error
        )
    )
