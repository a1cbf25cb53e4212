"""The format of the chat completions API, with the model's reasoning."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from services.errors import InvalidArgument
from services.home.trajectories.trajectory import Call, Facts, Message, Role, Trajectory
from services.validation import decode


class _Function(Struct, frozen=True):
    name: str
    arguments: str


class _Call(Struct, frozen=True):
    id: str
    function: _Function


class _Part(Struct, frozen=True):
    text: str = ""


class _Logprobs(Struct, frozen=True):
    content: msgspec.Raw = msgspec.Raw(b"null")


class _Message(Struct, frozen=True):
    role: str
    content: str | Sequence[_Part] | None = None
    reasoning_content: str | None = None
    tool_calls: Sequence[_Call] | None = None
    tool_call_id: str | None = None
    logprobs: _Logprobs | None = None


class _Record(Facts, frozen=True, kw_only=True):
    messages: Sequence[_Message]
    tools: msgspec.Raw = msgspec.Raw(b"[]")
    timestamp: str = ""
    model: str = ""
    completed: bool = False


_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "tool": "tool"}


def openai_record(trajectory: Trajectory) -> dict[str, Any]:
    """Return a trajectory as a record that can be written as JSON."""
    return {
        "messages": [
            {"role": "system", "content": trajectory.system_prompt},
            *map(_written, trajectory.messages),
        ],
        "tools": read_tools(trajectory.tools),
        "timestamp": trajectory.timestamp,
        "model": trajectory.model,
        "completed": trajectory.completed,
        **msgspec.to_builtins(trajectory.facts),
    }


@lru_cache(64)
def read_tools(text: str) -> list[Any]:
    """Return tools, which are the same in most trajectories; raises InvalidArgument."""
    try:
        tools = decode((text or "[]").encode(), list[dict[str, Any]])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidArgument(f"no trajectory: its tools: {error}") from None
    return [
        tool if "function" in tool else {"type": "function", "function": tool} for tool in tools
    ]


def _written(message: Message) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.reasoning:
        written["reasoning_content"] = message.reasoning
    if message.calls:
        written["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
    if message.role == "tool":
        written["tool_call_id"] = message.call_id
    if message.logprobs:
        written["logprobs"] = {"content": msgspec.json.decode(message.logprobs)}
    return written


def parse_openai(line: bytes) -> Trajectory:
    """Read a line; raises InvalidArgument."""
    try:
        record = decode(line, _Record)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidArgument(f"no trajectory: {error}") from None
    written = bytes(record.tools)  # as text in Parquet
    tools = decode(written, str) if written.startswith(b'"') else written.decode()
    system = [_text(it) for it in record.messages if it.role in {"system", "developer"}]
    return Trajectory(
        "\n\n".join(system),
        "[]" if tools in {"", "null"} else tools,
        [_parsed(it) for it in record.messages if it.role not in {"system", "developer"}],
        record.timestamp,
        record.model,
        record.completed,
        record.facts(),
    )


def _parsed(message: _Message) -> Message:
    role = _ROLES.get(message.role)
    if role is None:
        raise InvalidArgument(f"no trajectory: unknown role {message.role!r}")
    calls = tuple(
        Call(it.id, it.function.name, it.function.arguments) for it in message.tool_calls or ()
    )
    told = b"" if message.logprobs is None else bytes(message.logprobs.content)
    logprobs = "" if told == b"null" else told.decode()
    return Message(
        *(role, _text(message), message.reasoning_content or "", calls),
        *(message.tool_call_id or "", logprobs),
    )


def _text(message: _Message) -> str:
    content = message.content or ""
    return content if isinstance(content, str) else "".join(part.text for part in content)
