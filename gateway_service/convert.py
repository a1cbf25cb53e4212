"""Messages of the wire as the gateway's own types, and back."""

from collections.abc import Sequence

from google.protobuf.timestamp_pb2 import Timestamp

from gateway_service.attachments import MAX_BYTES
from gateway_service.deliveries import DeliveryInfo, DeliveryOrder
from gateway_service.errors import UnknownPlatform
from gateway_service.events import (
    Answered,
    Asked,
    Decided,
    Decision,
    Ended,
    Noted,
    Questioned,
    TextChanged,
    ToolBegan,
    TurnEvent,
)
from gateway_service.messages import CLI, Attachment, Quote
from gateway_service.platforms.base import Destination
from gateway_service.storage.attachments import FileKey
from gateway_service.storage.outbox import Part, State
from hermes.agent.v1 import turn_event_pb2
from hermes.common.v1 import content_pb2
from hermes.gateway.v1 import delivery_pb2
from hermes.gateway.v1.conversation_pb2 import ConverseRequest, ConverseResponse
from services.errors import InvalidArgument
from services.home import DEFAULT_PROFILE
from services.project_notes import NotesAbove
from services.validation import check_id

MAX_TEXT_BYTES = 1024 * 1024
MAX_MESSAGE_ID_CHARS = 64
MAX_SESSION_NAME_CHARS = 200
"""Of an id or a title."""
MAX_CHAT_ID_CHARS = 128
MAX_THREAD_ID_CHARS = 64
MAX_MORE_TURNS = 100
MAX_FILES = 10
MAX_NAME_BYTES = 255
SHA256_BYTES = 32

_DECISIONS = {
    turn_event_pb2.APPROVAL_DECISION_ONCE: Decision.ONCE,
    turn_event_pb2.APPROVAL_DECISION_SESSION: Decision.SESSION,
    turn_event_pb2.APPROVAL_DECISION_ALWAYS: Decision.ALWAYS,
    turn_event_pb2.APPROVAL_DECISION_DENY: Decision.DENY,
}


_STATES = {
    State.PENDING: delivery_pb2.DELIVERY_STATE_PENDING,
    State.SENDING: delivery_pb2.DELIVERY_STATE_PENDING,
    State.SENT: delivery_pb2.DELIVERY_STATE_SENT,
    State.MARKED_DUPLICATE: delivery_pb2.DELIVERY_STATE_MARKED_DUPLICATE,
    State.ABANDONED: delivery_pb2.DELIVERY_STATE_ABANDONED,
}
_SHOWN_DECISIONS = {
    **_DECISIONS,
    turn_event_pb2.APPROVAL_DECISION_EXPIRED: Decision.EXPIRED,
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
    named = opening.session_id
    if len(named) > MAX_SESSION_NAME_CHARS or not named.isprintable():
        raise InvalidArgument(
            "no session is called like this",
            fields={"open.session_id": f"an id or a title, at most {MAX_SESSION_NAME_CHARS} chars"},
        )
    if opening.turn_id:
        _check_watched("open", opening.turn_id, opening.after_sequence)
    if len(opening.more_turns) > MAX_MORE_TURNS:
        raise InvalidArgument(
            "too many turns", fields={"open.more_turns": f"at most {MAX_MORE_TURNS}"}
        )
    for number, turn in enumerate(opening.more_turns):
        _check_watched(f"open.more_turns[{number}]", turn.turn_id, turn.after_sequence)


def watched(opening: ConverseRequest.Open) -> dict[str, int]:
    """The turns that the client wants to hear of, each with the last sequence that it has."""
    first = {opening.turn_id: opening.after_sequence} if opening.turn_id else {}
    return {**first, **{each.turn_id: each.after_sequence for each in opening.more_turns}}


def _check_watched(field: str, turn_id: str, after_sequence: int) -> None:
    check_id(f"{field}.turn_id", turn_id)
    if after_sequence < 0:
        raise InvalidArgument("negative", fields={f"{field}.after_sequence": "0 or more"})


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
        raise InvalidArgument(
            "not a decision", fields={"decision": "ONCE, SESSION, ALWAYS or DENY"}
        )
    return _DECISIONS[number]


def opened(session_id: str, *, resumed: bool) -> ConverseResponse:
    """The conversation is open."""
    return ConverseResponse(opened=ConverseResponse.Opened(session_id=session_id, resumed=resumed))


def accepted(message_id: str, turn_id: str) -> ConverseResponse:
    """A message has a turn."""
    return ConverseResponse(
        accepted=ConverseResponse.Accepted(message_id=message_id, turn_id=turn_id)
    )


def events(turn_id: str, happened: Sequence[turn_event_pb2.TurnEvent]) -> ConverseResponse:
    """Something happened in a turn."""
    return ConverseResponse(event=ConverseResponse.Event(turn_id=turn_id, events=happened))


def reply(
    message_id: str, text: str, session_id: str = "", *, is_error: bool = False
) -> ConverseResponse:
    """The answer to a command, or news where there is no message."""
    return ConverseResponse(
        reply=ConverseResponse.Reply(
            message_id=message_id, text=text, session_id=session_id, is_error=is_error
        )
    )


def news(part: Part) -> ConverseResponse:
    """News for a terminal, which may be a file."""
    told, file = reply("", part.shown.text), part.content.attachment
    if file is not None:
        told.reply.attachment.CopyFrom(_attachment(file))
        told.reply.delivery_id = part.delivery_id
    return told


def _attachment(file: Attachment) -> delivery_pb2.Attachment:
    return delivery_pb2.Attachment(
        name=file.name, length_bytes=file.length_bytes, sha256=bytes.fromhex(file.sha256)
    )


def message_parts(text: str, quotes: Sequence[Quote]) -> list[content_pb2.MessagePart]:
    """What a message says, and the words of others that come with it."""
    said = [content_pb2.MessagePart(text=text)] if text else []
    return [*said, *(content_pb2.MessagePart(quotation=_quotation(quote)) for quote in quotes)]


def notes_above(given: content_pb2.ContextFile) -> NotesAbove | None:
    """What a folder above a session's says; None where nothing."""
    return NotesAbove(given.path, given.text) if given.text else None


def context_file(notes: NotesAbove | None) -> content_pb2.ContextFile | None:
    """The same on the wire."""
    return None if notes is None else content_pb2.ContextFile(path=notes.path, text=notes.text)


def _quotation(quote: Quote) -> content_pb2.Quotation:
    kind = (
        content_pb2.QUOTATION_KIND_FORWARDED
        if quote.is_forwarded
        else content_pb2.QUOTATION_KIND_ANSWERED
    )
    return content_pb2.Quotation(kind=kind, text=quote.text, author=quote.author)


def turn_event(happened: turn_event_pb2.TurnEvent) -> TurnEvent | None:
    """What a chat shows of an event; None where that is nothing."""
    match happened.WhichOneof("kind"):
        case "text_delta" | "text_snapshot" | "text_finished":
            return _changed(happened)
        case "tool_started":
            return ToolBegan(happened.tool_started.name)
        case "notice" if happened.notice.lasts:
            return Noted(happened.notice.text)
        case "turn_finished":
            return _ended(happened.turn_finished)
        case _:
            return _waiting(happened)


def _waiting(happened: turn_event_pb2.TurnEvent) -> TurnEvent | None:
    """What a turn waits for a person for, or does no more."""
    match happened.WhichOneof("kind"):
        case "approval_requested":
            asked = happened.approval_requested
            return Asked(asked.approval_id, asked.tool, asked.subject, asked.can_be_always)
        case "approval_resolved":
            resolved = happened.approval_resolved
            decision = _SHOWN_DECISIONS.get(resolved.decision, Decision.EXPIRED)
            return Decided(resolved.approval_id, decision, resolved.decided_by)
        case "clarification_requested":
            question = happened.clarification_requested
            choices = tuple(question.choices)
            return Questioned(question.clarification_id, question.question, choices)
        case "clarification_answered":
            answered = happened.clarification_answered
            return Answered(
                answered.clarification_id,
                answered.answer,
                answered.answered_by,
                answered.expired,
            )
        case _:
            return None


def _changed(happened: turn_event_pb2.TurnEvent) -> TextChanged:
    if happened.HasField("text_delta"):
        delta = happened.text_delta
        return TextChanged(delta.step, delta.offset, delta.text)
    whole = happened.text_snapshot if happened.HasField("text_snapshot") else happened.text_finished
    return TextChanged(whole.step, 0, whole.text)


def _ended(finished: turn_event_pb2.TurnFinished) -> Ended:
    match finished.WhichOneof("outcome"):
        case "completed":
            return Ended(finished.completed.answer)
        case "failed":
            return Ended("", finished.failed.failure.message or "The turn failed.")
        case "cancelled":
            stopped = f"Stopped. {finished.cancelled.message}".rstrip()
            return Ended(finished.cancelled.partial_answer, stopped)
        case "limit_reached":
            limit = finished.limit_reached
            return Ended(limit.partial_answer, limit.message or "A limit was reached.")
        case "needs_review":
            return Ended("", finished.needs_review.message or "A person has to look at this.")
        case _:
            return Ended("", "The turn ended in a way that this version does not know.")


def delivery_order(request: delivery_pb2.DeliverRequest) -> DeliveryOrder:
    """A checked Deliver; InvalidArgument names what is wrong."""
    check_id("delivery_id", request.delivery_id)
    chat = request.destination
    wrong: dict[str, str] = {}
    if not chat.platform:
        wrong["destination.platform"] = "must not be empty"
    if not chat.chat_id or len(chat.chat_id) > MAX_CHAT_ID_CHARS:
        wrong["destination.chat_id"] = f"1 to {MAX_CHAT_ID_CHARS} characters"
    if len(chat.thread_id) > MAX_THREAD_ID_CHARS:
        wrong["destination.thread_id"] = f"at most {MAX_THREAD_ID_CHARS} characters"
    has_some = request.text.strip() or request.attachments
    if not has_some or len(request.text.encode()) > MAX_TEXT_BYTES:
        wrong["text"] = "some text, at most 1 MiB"
    wrong |= _wrong_files(request.attachments)
    _refuse("this cannot be delivered", wrong)
    return DeliveryOrder(
        id=request.delivery_id,
        profile=profile_of(request.profile),
        platform=chat.platform,
        to=Destination(chat.chat_id, chat.thread_id),
        text=request.text,
        attachments=tuple(
            Attachment(each.name, each.length_bytes, each.sha256.hex())
            for each in request.attachments
        ),
    )


def _wrong_files(files: Sequence[delivery_pb2.Attachment]) -> dict[str, str]:
    wrong: dict[str, str] = {}
    if len(files) > MAX_FILES or sum(each.length_bytes for each in files) > MAX_BYTES:
        wrong["attachments"] = f"at most {MAX_FILES}, and {MAX_BYTES:,} bytes together"
    for number, each in enumerate(files):
        name = each.name
        if not (1 <= len(name.encode()) <= MAX_NAME_BYTES and name.isprintable()) or "/" in name:
            wanted = f"1 to {MAX_NAME_BYTES} bytes that can be printed, without a slash"
            wrong[f"attachments[{number}].name"] = wanted
        for field, problem in _wrong_contents(each.length_bytes, each.sha256).items():
            wrong[f"attachments[{number}].{field}"] = problem
    return wrong


def _wrong_contents(length_bytes: int, sha256: bytes) -> dict[str, str]:
    wrong: dict[str, str] = {}
    if not 1 <= length_bytes <= MAX_BYTES:
        wrong["length_bytes"] = f"1 to {MAX_BYTES:,}"
    if len(sha256) != SHA256_BYTES:
        wrong["sha256"] = f"{SHA256_BYTES} bytes"
    return wrong


def _refuse(what: str, wrong: dict[str, str]) -> None:
    if wrong:
        problems = "; ".join(f"{field}: {problem}" for field, problem in wrong.items())
        raise InvalidArgument(f"{what}: {problems}", fields=wrong)


def upload(header: delivery_pb2.UploadAttachmentRequest.Header) -> FileKey:
    """The file that a checked header announces; InvalidArgument names what is wrong."""
    check_id("header.delivery_id", header.delivery_id)
    found = _wrong_contents(header.length_bytes, header.sha256)
    wrong = {f"header.{field}": problem for field, problem in found.items()}
    _refuse("this cannot be stored", wrong)
    return FileKey(header.delivery_id, profile_of(header.profile), header.sha256.hex())


def download(request: delivery_pb2.DownloadAttachmentRequest) -> FileKey:
    """The file that is asked for."""
    return FileKey(request.delivery_id, profile_of(request.profile), request.sha256.hex())


def delivery(info: DeliveryInfo) -> delivery_pb2.Delivery:
    """A delivery on the wire."""
    created = Timestamp()
    created.FromDatetime(info.created_at)
    return delivery_pb2.Delivery(
        delivery_id=info.id,
        state=_STATES[info.state],
        part_count=info.part_count,
        sent_part_count=info.sent_part_count,
        last_error=info.last_error,
        create_time=created,
    )
