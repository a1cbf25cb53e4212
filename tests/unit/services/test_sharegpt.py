"""A turn as a line of a trajectory file."""

import json

from services.home.trajectories.sharegpt import sharegpt_record
from services.home.trajectories.trajectory import Call, Message, Trajectory, redact_trajectory

CALLS = [Call("1", "a", '{"x": "½"}'), Call("2", "b", '{"x": ')]


def test_each_message_is_where_it_belongs() -> None:
    sample = Trajectory(
        system_prompt="Prompt.",
        tools='[{"name":"a"}]',
        messages=[
            Message("user", "question with hunter2"),
            Message("assistant", "", "Hm. ", CALLS),
            Message("tool", "one", call_id="1"),
            Message("tool", "two", call_id="2"),
            Message("assistant", "answer"),
        ],
        timestamp="2026-01-02T03:00:00+00:00",
        model="m",
        completed=True,
    )
    clean = redact_trajectory(sample, lambda value: value.replace("hunter2", "***"))
    written = json.loads(json.dumps(sharegpt_record(clean)))
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
