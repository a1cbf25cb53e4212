"""Sessions and their messages on the wire."""

from typing import Any

from agent_service.convert.common import timestamp, usage
from agent_service.search.query import excerpt, said_and_called, text_of
from agent_service.storage.search import Hit
from agent_service.storage.sessions import SessionInfo, StoredMessage
from hermes.agent.v1 import session_pb2

EXCERPT_CHARS = 300

ROLES = {
    "user": session_pb2.ROLE_USER,
    "assistant": session_pb2.ROLE_ASSISTANT,
    "tool": session_pb2.ROLE_TOOL,
}


def session(info: SessionInfo) -> session_pb2.Session:
    """A session on the wire."""
    return session_pb2.Session(
        session_id=info.id,
        title=info.title,
        platform=info.platform,
        create_time=timestamp(info.created_at),
        update_time=timestamp(info.updated_at),
        message_count=info.message_count,
        usage=usage(info.usage),
        parent_session_id=info.parent_session_id,
        is_named=info.is_named,
        model=info.model,
    )


def message(stored: StoredMessage) -> session_pb2.Message:
    """A message on the wire."""
    content = stored.content
    return session_pb2.Message(
        sequence=stored.sequence,
        role=ROLES[content["role"]],
        text=text_of(content["content"]),
        reasoning=stored.reasoning,
        tool_calls=[_tool_call(call) for call in content.get("tool_calls", ())],
        tool_call_id=content.get("tool_call_id", ""),
        turn_id=stored.turn_id,
        create_time=timestamp(stored.created_at),
    )


def hit(found: Hit, words: frozenset[str]) -> session_pb2.MessageHit:
    """A message that was found, on the wire."""
    return session_pb2.MessageHit(
        session_id=found.session_id,
        title=found.title,
        platform=found.platform,
        sequence=found.sequence,
        role=ROLES[found.content["role"]],
        excerpt=excerpt(said_and_called(found.content), words, EXCERPT_CHARS),
        create_time=timestamp(found.created_at),
    )


def _tool_call(call: dict[str, Any]) -> session_pb2.ToolCall:
    function = call["function"]
    return session_pb2.ToolCall(
        call_id=call["id"], name=function["name"], arguments_json=function["arguments"]
    )
