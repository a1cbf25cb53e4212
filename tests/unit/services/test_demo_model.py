"""The scripted model that `hermes demo` and the tests use."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.cli.demo_model import MODEL, demo_model, step_for
from tests.fakes.model_chunks import data_lines
from tests.fakes.model_script import Conversation, Reply, Script, ScriptError
from tests.fakes.model_server import ModelServer

USER = {"role": "user", "content": "Which disk?"}
CALL: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": []}
RESULT = {"role": "tool", "content": "  sda1\n"}


def script(*rules: dict[str, Any]) -> Script:
    return Script.parse({"rules": list(rules)})


def test_the_last_turn_is_what_counts() -> None:
    old = [{"role": "user", "content": "Old"}, CALL, {"role": "tool", "content": "old"}, CALL]
    assert Conversation.of([*old, USER]) == Conversation("Which disk?", "", 0)
    assert Conversation.of([*old, USER, CALL, RESULT]) == Conversation("Which disk?", "  sda1\n", 1)
    parts = {"role": "user", "content": [{"type": "text", "text": "In "}, {"text": "parts"}]}
    assert Conversation.of([parts]).user == "In parts"


def test_the_first_rule_that_matches_answers_step_by_step() -> None:
    found = script(
        {"user": "DISK", "steps": [{"text": "one"}, {"text": "two"}]},
        {"steps": [{"text": "else"}]},
    )
    assert found.reply_to(Conversation("which disk?", "", 0)).text == "one"
    assert found.reply_to(Conversation("which disk?", "", 1)).text == "two"
    assert found.reply_to(Conversation("what?", "", 0)).text == "else"
    with pytest.raises(ScriptError, match="no step 3"):
        found.reply_to(Conversation("which disk?", "", 2))


def test_repeated_requests_get_successive_answers_and_then_the_last() -> None:
    found = script({"steps": [[{"status": 503}, {"text": "ok"}]]})
    conversation = Conversation("x", "", 0)
    statuses = [found.reply_to(conversation).status for _ in range(4)]
    assert statuses == [503, 200, 200, 200]


@pytest.mark.parametrize(
    "document",
    [
        '{"rules": [{"steps": [{"txet": "typo"}]}]}',
        '{"rules": [{"steps": []}]}',
        '{"rules": [{"user": "x"}]}',
        '{"rules": [{"steps": [{"text": "x"}]}], "model": "x"}',
        '{"rules": [{"steps": [{"tool_calls": [{"name": "a", "args": {}}]}]}]}',
        '{"rules": []}',
        "{}",
        "[]",
    ],
)
def test_a_script_with_mistakes_is_refused(document: str) -> None:
    with pytest.raises(ScriptError):
        Script.parse(json.loads(document))


def test_placeholders_are_filled_in() -> None:
    reply = Reply(text="{user} {tool_result} {other}")
    lines = list(data_lines(reply, Conversation("Which disk?", "  sda1\n", 1), "m", 400))
    assert json.loads(lines[0])["choices"][0]["delta"] == {"content": "Which disk? sda1 {other}"}
    assert json.loads(lines[-2])["usage"]["prompt_tokens"] == 100
    assert lines[-1] == "[DONE]"


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_scripts_are_read_from_files(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"script.{suffix}"
    file.write_text('{"models": ["m"], "rules": [{"steps": [{"text": "hi"}]}]}')
    assert Script.load(file).models == ("m",)


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


async def test_the_server_keeps_a_connection_through_errors() -> None:
    found = script({"user": "hello", "steps": [{"text": "Hi", "chunk_chars": 1}]})
    async with ModelServer(found).listen() as url, httpx.AsyncClient(trust_env=False) as client:
        completions = f"{url}/chat/completions"
        models = await client.get(f"{url}/models")
        assert [model["id"] for model in models.json()["data"]] == ["scripted"]
        assert (await client.get(f"{url}/nothing")).status_code == 404
        assert (await client.post(completions, content=b"no json")).status_code == 400
        assert (await client.post(completions, json={})).status_code == 400
        unmatched = await client.post(completions, json={"messages": [USER]})
        assert "no rule matches" in unmatched.json()["error"]["message"]
        hello = {"messages": [{"role": "user", "content": "Hello"}]}
        answer = await client.post(completions, json=hello)
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.text.count("data: {") == 4
        assert answer.text.endswith("data: [DONE]\n\n")
