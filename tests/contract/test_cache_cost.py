"""What a conversation with a Claude costs with the marks that its cache goes by.

The cache is reckoned as Anthropic describes it: what stands before a mark is kept, and read again
by a request that begins in the same way up to there or to a block at most 20 before its marks.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_service.models.base import ModelRequest, encoded
from agent_service.models.catalog import Catalog, ModelInfo
from agent_service.models.messages import Messages
from agent_service.models.openrouter import OpenRouter
from agent_service.models.pricing import Price
from agent_service.models.wire import Dialect, Wire

MODEL = "anthropic/claude-sonnet-5.5"
LOOK_BACK = 20
TOOLS = encoded(
    [
        {"type": "function", "function": {"name": f"tool_{n}", "description": "d" * 800}}
        for n in range(20)
    ]
)
Block = tuple[str, bool]


async def _nothing() -> list[ModelInfo]:
    return []


def conversation() -> list[list[bytes]]:
    """The messages of each request: ten turns of a question, a command and an answer."""
    said: list[bytes] = [encoded({"role": "system", "content": "prompt " * 2_000})]
    requests: list[list[bytes]] = []
    for turn in range(10):
        call = {"id": f"c{turn}", "type": "function"}
        call |= {"function": {"name": "tool_1", "arguments": json.dumps({"command": f"do {turn}"})}}
        said = [*said, encoded({"role": "user", "content": f"question {turn} " * 20})]
        requests.append(said)
        said = [
            *said,
            encoded({"role": "assistant", "content": f"I look {turn}.", "tool_calls": [call]}),
            encoded(
                {"role": "tool", "tool_call_id": f"c{turn}", "content": f"line {turn}\n" * 150}
            ),
        ]
        requests.append(said)
        said = [*said, encoded({"role": "assistant", "content": f"answer {turn} " * 60})]
    return requests


def blocks(body: dict[str, Any]) -> list[Block]:
    """What a request says in order, and which of it bears a mark."""
    parts: list[Any] = [*body.get("tools", ()), *body.get("system", ())]
    for message in body["messages"]:
        content = message["content"]
        parts += content if isinstance(content, list) else [{"type": "text", "text": content}]
        parts += message.get("tool_calls", ())
    return [_block(part) for part in parts]


def _block(part: dict[str, Any]) -> Block:
    said = {name: value for name, value in part.items() if name != "cache_control"}
    return json.dumps(said), said != part


def cost(bodies: Sequence[dict[str, Any]], price: Price) -> tuple[int, int]:
    """What the input of all requests costs with the cache, and what it would without."""
    kept: set[tuple[str, ...]] = set()
    with_cache = without = 0
    for body in bodies:
        said = blocks(body)
        texts = [text for text, _ in said]
        sizes = [len(text) for text in texts]
        marks = [number + 1 for number, (_, is_marked) in enumerate(said) if is_marked]
        assert 1 <= len(marks) <= 4
        reach = [end for mark in marks for end in range(max(0, mark - LOOK_BACK), mark + 1)]
        read = max((end for end in reach if tuple(texts[:end]) in kept), default=0)
        kept |= {tuple(texts[:mark]) for mark in marks}
        written = max(0, marks[-1] - read)
        with_cache += sum(sizes[:read]) * price.cache_read
        with_cache += sum(sizes[read : read + written]) * price.cache_write
        with_cache += sum(sizes[read + written :]) * price.input
        without += sum(sizes) * price.input
    return with_cache, without


@pytest.mark.parametrize("wire", [Messages(), OpenRouter()], ids=["anthropic", "openrouter"])
async def test_the_marks_save_three_quarters_of_the_input(wire: Wire, tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "none.json", _nothing)
    await catalog.open()
    price = catalog.price_of(MODEL)
    assert price is not None
    bodies = [
        json.loads(wire.body(ModelRequest(MODEL, messages, TOOLS), Dialect()))
        for messages in conversation()
    ]
    with_cache, without = cost(bodies, price)
    assert with_cache < 0.25 * without
