"""The ShareGPT format of trajectories: speakers and values, with the tools in tags."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Struct

from services.errors import InvalidArgument
from services.home.trajectories.trajectory import Call, Facts, Message, Trajectory
from services.validation import decode

_TOOLS = re.compile(r"\n{0,2}<tools>\n([^\n]*)\n</tools>")
_THOUGHT = re.compile(r"<think>\n(.*?)\n?</think>(?:\n|\Z)", re.DOTALL)
_CALLS = re.compile(r"(?:\A|\n)((?:<tool_call>\n[^\n]*\n</tool_call>(?:\n|\Z))+)\Z")
_CALL = re.compile(r"<tool_call>\n([^\n]*)\n</tool_call>")
_RESPONSE = re.compile(r"<tool_response>\n([^\n]*)\n</tool_response>")


class Turn(Struct, frozen=True):
    """What one speaker said, and the messages that it stands for."""

    speaker: str
    value: str
    messages: Sequence[Message] = ()


class _Said(Struct, frozen=True):
    speaker: str = msgspec.field(name="from")
    value: str


class _Record(Facts, frozen=True, kw_only=True):
    conversations: Sequence[_Said]
    timestamp: str = ""
    model: str = ""
    completed: bool = False


_EMPTY = msgspec.Raw(b'""')


class _CallJson(Struct, frozen=True):
    name: str
    arguments: msgspec.Raw = _EMPTY


class _ResponseJson(Struct, frozen=True):
    tool_call_id: str = ""
    name: str = ""
    content: msgspec.Raw = _EMPTY


def sharegpt_record(trajectory: Trajectory) -> dict[str, Any]:
    """Return a trajectory as a record that can be written as JSON."""
    return {
        "conversations": [
            {"from": turn.speaker, "value": turn.value} for turn in sharegpt_turns(trajectory)
        ],
        "timestamp": trajectory.timestamp,
        "model": trajectory.model,
        "completed": trajectory.completed,
        **msgspec.to_builtins(trajectory.facts),
    }


def sharegpt_turns(trajectory: Trajectory) -> Iterator[Turn]:
    """Yield the turns; the results of one answer's calls are one turn."""
    tools = _block("tools", trajectory.tools or "[]")
    yield Turn("system", f"{trajectory.system_prompt}\n\n{tools}")
    names: dict[str, str] = {}
    for role, group in groupby(trajectory.messages, key=lambda message: message.role):
        if role == "tool":
            results = tuple(group)
            yield Turn("tool", "\n".join(_response(it, names) for it in results), results)
            continue
        for message in group:
            names |= {call.id: call.name for call in message.calls}
            if role == "assistant":
                yield Turn("gpt", _answer(message), (message,))
            else:
                yield Turn("human", message.text, (message,))


def _answer(message: Message) -> str:
    thought = _block("think", message.reasoning.strip())
    calls = [_block("tool_call", _call(call)) for call in message.calls]
    return "\n".join(filter(None, (thought, message.text, *calls)))


def _call(call: Call) -> str:
    try:
        arguments = msgspec.json.format(call.arguments, indent=0)
    except (msgspec.DecodeError, RecursionError):
        arguments = _json(call.arguments)  # malformed ones stay as the model wrote them
    return f'{{"name": {_json(call.name)}, "arguments": {arguments}}}'


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _response(message: Message, names: Mapping[str, str]) -> str:
    call_id, name = _json(message.call_id), _json(names.get(message.call_id, ""))
    content = _json(message.text)
    response = f'{{"tool_call_id": {call_id}, "name": {name}, "content": {content}}}'
    return _block("tool_response", response)


def _block(tag: str, text: str) -> str:
    return f"<{tag}>\n{text}\n</{tag}>"


# ---- reading


def parse_sharegpt(line: bytes) -> Trajectory:
    """Read a line; raises InvalidArgument."""
    try:
        return _parsed(decode(line, _Record))
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidArgument(f"no trajectory: {error}") from None


def _parsed(record: _Record) -> Trajectory:
    system, tools, messages = "", "[]", list[Message]()
    for number, turn in enumerate(record.conversations):
        match turn.speaker:
            case "system":
                system, tools = _system(turn.value)
            case "human":
                messages.append(Message("user", turn.value))
            case "gpt":
                messages.append(_assistant(turn.value, f"call_{number}"))
            case "tool":
                _add_results(messages, turn.value)
            case other:
                raise InvalidArgument(f"no trajectory: unknown speaker {other!r}")
    facts = record.facts()
    return Trajectory(
        system, tools, messages, record.timestamp, record.model, record.completed, facts
    )


def _system(value: str) -> tuple[str, str]:
    found = list(_TOOLS.finditer(value))
    if not found:
        return value, "[]"
    tools = found[-1][1]
    if tools.startswith("{"):  # one, as some programs write it
        tools = f"[{tools}]"
    if not tools.startswith("["):
        return value, "[]"
    return value[: found[-1].start()] + value[found[-1].end() :], tools


def _assistant(value: str, prefix: str) -> Message:
    thought = _THOUGHT.match(value)
    rest = value[thought.end() :] if thought else value
    calls: list[Call] = []
    if blocks := _CALLS.search(rest):
        rest = rest[: blocks.start()]
        for number, call in enumerate(_CALL.findall(blocks[1])):
            called = decode(call, _CallJson)
            calls.append(Call(f"{prefix}_{number}", called.name, _text(called.arguments)))
    return Message("assistant", rest, thought[1] if thought else "", tuple(calls))


def _text(value: msgspec.Raw) -> str:
    """Return a text, or another value as it is written."""
    written = bytes(value)
    return msgspec.json.decode(written) if written.startswith(b'"') else written.decode()


def _add_results(messages: list[Message], value: str) -> None:
    """Add the results, and give the calls before them the ids that only results have."""
    results = [decode(found, _ResponseJson) for found in _RESPONSE.findall(value)]
    if not results or not messages:
        raise InvalidArgument("no trajectory: a tool turn without calls or results")
    asking = messages[-1]
    calls = list(asking.calls)
    waiting = list(range(len(calls)))
    for result in results:
        named = (at for at in waiting if calls[at].name == result.name)
        at = next(named, waiting[0] if waiting else None)
        if at is not None:
            waiting.remove(at)
            calls[at] = msgspec.structs.replace(calls[at], id=result.tool_call_id or calls[at].id)
        call_id = result.tool_call_id or (calls[at].id if at is not None else "")
        messages.append(Message("tool", _text(result.content), call_id=call_id))
    messages[messages.index(asking)] = msgspec.structs.replace(asking, calls=tuple(calls))
