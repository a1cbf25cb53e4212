"""The scripted model that `hermes demo` and the tests use."""

import json
from typing import Any

import httpx
import pytest

from services.cli.demo_model import MODEL, demo_model, step_for

CALL: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": []}


@pytest.mark.parametrize(
    ("said", "tools"),
    [
        ("What system are you on?", ["terminal"]),
        ("Please write a file", ["write_file", "read_file"]),
        ("run four in parallel", ["terminal"] * 4),
        ("do something slow", ["terminal"]),
        ("Guten Tag", []),
    ],
)
def test_the_demo_does_what_it_offers_and_says_what_it_is(said: str, tools: list[str]) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": said}]
    called: list[str] = []
    for _ in range(5):
        step = step_for(messages)
        assert step.text.startswith("(scripted demo)")
        called += [name for name, _ in step.calls]
        if not step.calls:
            break
        messages += [CALL, *({"role": "tool", "content": "output"} for _ in step.calls)]
    assert called == tools


async def test_the_demo_is_served_as_a_stream_of_chunks() -> None:
    asked = {"messages": [{"role": "user", "content": "write a file"}], "stream": True}
    async with demo_model() as url, httpx.AsyncClient(trust_env=False) as client:
        models = (await client.get(f"{url}/models")).json()
        answer = await client.post(f"{url}/chat/completions", json=asked)
    assert [model["id"] for model in models["data"]] == [MODEL]
    *lines, last = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    *chunks, usage = map(json.loads, lines)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    text = "".join(delta.get("content", "") for delta in deltas)
    assert text == "(scripted demo) I write a file in the workspace."
    assert deltas[-2]["tool_calls"][0]["function"]["name"] == "write_file"
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert usage["usage"]["total_tokens"] > 0
    assert last == "[DONE]"
