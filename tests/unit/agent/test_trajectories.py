"""A turn as a line of a trajectory file."""

import json
from datetime import UTC, datetime
from typing import Any

from agent_service.sessions.trajectory_format import Sample, TrajectoryMessage, line

CALLS: list[dict[str, Any]] = [
    {"id": "1", "type": "function", "function": {"name": "a", "arguments": '{"x": "½"}'}},
    {"id": "2", "type": "function", "function": {"name": "b", "arguments": '{"x": '}},
]


def _said(role: str, text: str | None, reasoning: str = "", **more: Any) -> TrajectoryMessage:
    return TrajectoryMessage({"role": role, "content": text, **more}, reasoning)


def test_each_message_is_where_it_belongs() -> None:
    sample = Sample(
        system_prompt="Prompt.",
        tools='[{"name":"a"}]',
        messages=[
            _said("user", "question with hunter2"),
            _said("assistant", None, "Hm. ", tool_calls=CALLS),
            _said("tool", "one", tool_call_id="1"),
            _said("tool", "two", tool_call_id="2"),
            _said("assistant", "answer"),
        ],
        model="m",
        is_completed=True,
        ended_at=datetime(2026, 1, 2, 3, tzinfo=UTC),
    )
    text = line(sample, lambda value: value.replace("hunter2", "***"))
    assert text.count("\n") == 1
    written = json.loads(text)
    turns = written.pop("conversations")
    assert written == {"timestamp": "2026-01-02T03:00:00+00:00", "model": "m", "completed": True}
    calls = (
        '<tool_call>\n{"name": "a", "arguments": {"x": "½"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "b", "arguments": "{\\"x\\": "}\n</tool_call>'
    )
    results = (
        '<tool_response>\n{"tool_call_id": "1", "name": "a", "content": "one"}\n</tool_response>\n'
        '<tool_response>\n{"tool_call_id": "2", "name": "b", "content": "two"}\n</tool_response>'
    )
    assert [(turn["from"], turn["value"]) for turn in turns] == [
        ("system", 'Prompt.\n\n<tools>\n[{"name":"a"}]\n</tools>'),
        ("human", "question with ***"),
        ("gpt", f"<think>\nHm.\n</think>\n{calls}"),
        ("tool", results),
        ("gpt", "<think>\n\n</think>\nanswer"),
    ]
