"""What OpenRouter's requests have beyond those of other chat completions."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_service.config import AgentConfig
from agent_service.models.openrouter import AppIdentity, OpenRouter
from agent_service.models.wires.wire import Dialect
from agent_service.records.model import ModelRequest, encoded
from services.config.settings import ConfigError, load_settings

CLAUDE = "anthropic/claude-sonnet-5.5"
MARK = {"type": "ephemeral"}
CALL = {"id": "1", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "You are Hermes."},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": [PICTURE, {"type": "text", "text": "three"}]},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "1", "content": "four"},
    {"role": "assistant", "content": "five"},
    {"role": "user", "content": "six"},
]


def body(
    wire: OpenRouter, model: str = CLAUDE, dialect: Dialect | None = None, count: int = 8
) -> dict[str, Any]:
    messages = [encoded(message) for message in CONVERSATION[:count]]
    return json.loads(wire.body(ModelRequest(model, messages), dialect or Dialect()))


def marked(sent: dict[str, Any]) -> dict[str, Any]:
    """The marks of a request, by the text that each follows."""
    parts = [p for m in sent["messages"] if isinstance(m["content"], list) for p in m["content"]]
    return {p["text"]: p["cache_control"] for p in parts if "cache_control" in p}


def unmarked(message: dict[str, Any]) -> tuple[str, list[Any]]:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    clean = [{k: v for k, v in part.items() if k != "cache_control"} for part in parts]
    return message["role"], clean


def test_the_system_prompt_and_the_last_three_texts_of_a_claude_are_marked() -> None:
    assert marked(body(OpenRouter())) == dict.fromkeys(
        ("You are Hermes.", "three", "five", "six"), MARK
    )
    hour = marked(body(OpenRouter(cache_ttl="1h")))
    assert set(map(str, hour.values())) == {str({**MARK, "ttl": "1h"})}


@pytest.mark.parametrize("count", range(2, 8))
def test_marks_change_nothing_of_what_is_said(count: int) -> None:
    shorter, longer = body(OpenRouter(), count=count), body(OpenRouter())
    said = [unmarked(message) for message in CONVERSATION]
    assert [unmarked(message) for message in shorter["messages"]] == said[:count]
    assert [unmarked(message) for message in longer["messages"]] == said


@pytest.mark.parametrize("model", ["openai/gpt-5.4", "google/gemini-3-flash", "scripted"])
def test_who_needs_no_marks_gets_the_messages_as_they_are(model: str) -> None:
    assert body(OpenRouter(), model)["messages"] == CONVERSATION


def test_how_hard_to_think_and_whom_to_ask_is_said_in_its_own_words() -> None:
    plain = body(OpenRouter())
    assert "reasoning" not in plain
    assert "provider" not in plain
    sent = body(OpenRouter(effort="low", only=("anthropic", "amazon-bedrock")))
    assert sent["reasoning"] == {"effort": "low"}
    assert sent["provider"] == {"only": ["anthropic", "amazon-bedrock"]}
    assert "reasoning" not in body(OpenRouter(effort="low"), dialect=Dialect(effort=False))


def headers(home: Path, yaml: str) -> dict[str, str]:
    """What OpenRouter is told by a deployment with these settings."""
    (home / "config.yaml").write_text(yaml)
    model = load_settings({"home": str(home)}, {"HOME": str(home)}).load(AgentConfig).model
    return dict(OpenRouter(AppIdentity(model.app_title, model.app_url)).headers())


def test_it_is_told_which_app_asks(tmp_path: Path) -> None:
    assert headers(tmp_path, "") == {
        "HTTP-Referer": "http://hermes.localhost",
        "X-OpenRouter-Title": "Hermes",
    }
    own = "model: {app_title: Mine, app_url: https://mine.example}"
    assert headers(tmp_path, own) == {
        "HTTP-Referer": "https://mine.example",
        "X-OpenRouter-Title": "Mine",
    }
    assert "HTTP-Referer" not in headers(tmp_path, "model: {app_url: none}")
    with pytest.raises(ConfigError, match="app_url"):
        headers(tmp_path, "model: {app_url: mine}")
