"""A turn as a line of a trajectory file.

{"conversations": [{"from": "system"|"human"|"gpt"|"tool", "value"}], "timestamp", "model",
"completed"}: the system's value ends with <tools>; each of gpt's begins with <think>, which may be
empty, and ends with its calls, a <tool_call> each; their results are one value of tool's.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import groupby
from typing import Any

from msgspec import Struct

from agent_service.search.terms import text_of


class Said(Struct, frozen=True):
    """A message in the form of the chat completions API, and what was thought before it."""

    content: Mapping[str, Any]
    reasoning: str


class Sample(Struct, frozen=True):
    """A turn that has ended."""

    system_prompt: str
    tools: str
    """Their JSON."""
    messages: Sequence[Said]
    model: str
    is_completed: bool
    ended_at: datetime


def line(sample: Sample, redact: Callable[[str], str]) -> str:
    """The line of a sample, with a newline, and without secrets."""
    turns = [{"from": speaker, "value": redact(value)} for speaker, value in _conversation(sample)]
    written = {
        "conversations": turns,
        "timestamp": sample.ended_at.isoformat(),
        "model": sample.model,
        "completed": sample.is_completed,
    }
    return f"{json.dumps(written, ensure_ascii=False)}\n"


def _conversation(sample: Sample) -> Iterator[tuple[str, str]]:
    yield "system", f"{sample.system_prompt}\n\n{_block('tools', sample.tools or '[]')}"
    names: dict[str, str] = {}
    for role, group in groupby(sample.messages, key=lambda said: said.content["role"]):
        if role == "tool":
            yield "tool", "\n".join(_response(said.content, names) for said in group)
            continue
        for said in group:
            calls = said.content.get("tool_calls") or ()
            names |= {call["id"]: call["function"]["name"] for call in calls}
            text = text_of(said.content["content"])
            yield (
                ("gpt", _answer(text, said.reasoning, calls))
                if role == "assistant"
                else (
                    "human",
                    text,
                )
            )


def _answer(text: str, reasoning: str, calls: Sequence[Mapping[str, Any]]) -> str:
    thought = _block("think", reasoning.strip())
    called = [_block("tool_call", _call(call["function"])) for call in calls]
    return "\n".join(filter(None, (thought, text, *called)))


def _call(function: Mapping[str, Any]) -> str:
    arguments: Any = function["arguments"]
    # What is malformed stays as the model wrote it.
    with suppress(ValueError, RecursionError):
        arguments = json.loads(arguments)
    return json.dumps({"name": function["name"], "arguments": arguments}, ensure_ascii=False)


def _response(content: Mapping[str, Any], names: Mapping[str, str]) -> str:
    call_id = content["tool_call_id"]
    response = {
        "tool_call_id": call_id,
        "name": names.get(call_id, ""),
        "content": text_of(content["content"]),
    }
    return _block("tool_response", json.dumps(response, ensure_ascii=False))


def _block(tag: str, text: str) -> str:
    return f"<{tag}>\n{text}\n</{tag}>"
