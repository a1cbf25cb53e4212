"""The scripted model that `hermes demo` and the tests use."""

from typing import Any

import pytest

from services.cli.demo_model import step_for

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
        text, calls = step_for(messages)
        assert text.startswith("(scripted demo)")
        called += [name for name, _ in calls]
        if not calls:
            break
        messages += [CALL, *({"role": "tool", "content": "output"} for _ in calls)]
    assert called == tools
