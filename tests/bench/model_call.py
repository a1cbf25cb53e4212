"""Processor time that one model call costs the agent.

The scripted model runs in another process, so that only the client's side is counted.
"""

import json
import time
from statistics import median
from typing import Any

from pydantic import SecretStr

from agent_service.models.base import Model, ModelMessage, ModelRequest, encoded
from agent_service.models.chat_completions import ChatCompletions
from agent_service.models.endpoints import Endpoint
from agent_service.models.provider import Provider
from tests.bench.figures import Plan, Reading
from tests.bench.model_process import model_process

SIZES = (20, 1_000)
WARM_UP = 20
TOOLS = 28

_SCRIPT = {"rules": [{"steps": [{"text": "The disk is almost empty. " * 4, "chunk_chars": 12}]}]}


async def processor_time(plan: Plan) -> list[Reading]:
    """Measure a call with a conversation of each size."""
    async with model_process(_SCRIPT) as url:
        endpoint = Endpoint(url, SecretStr("key"), "scripted", "custom", "bench", "HERMES_API_KEY")
        async with Provider(endpoint, ChatCompletions()) as model:
            return [await _of_size(model, size, plan.samples) for size in SIZES]


async def _of_size(model: Model, size: int, calls: int) -> Reading:
    request = ModelRequest(
        "scripted", [encoded(message) for message in conversation(size)], encoded(tools(TOOLS))
    )
    samples = [await _cpu_ms(model, request) for _ in range(WARM_UP + calls)][WARM_UP:]
    return Reading(f"model_call_cpu_ms_{size}", round(median(samples), 3), f"{TOOLS} tools")


async def _cpu_ms(model: Model, request: ModelRequest) -> float:
    begun = time.process_time()
    async with model.stream(request) as events:
        last = [event async for event in events][-1]
    assert isinstance(last, ModelMessage)
    return (time.process_time() - begun) * 1_000


def conversation(size: int) -> list[dict[str, Any]]:
    """Return a session's messages: a system prompt, and turns with one tool call each."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are Hermes. " * 500}]
    turn = 0
    while len(messages) < size:
        arguments = json.dumps({"command": f"df -h /srv/data-{turn} | sort -k5 -n"})
        function = {"name": "terminal", "arguments": arguments}
        call = {"id": f"call_{turn}", "type": "function", "function": function}
        messages += [
            {"role": "user", "content": f"How full is disk {turn}? " * 10},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": "/dev/sda1 40G 12G 28G\n" * 30},
            {"role": "assistant", "content": "It is thirty percent full. " * 10},
        ]
        turn += 1
    return [*messages[: size - 1], {"role": "user", "content": "And the last one?"}]


def tools(number: int) -> list[dict[str, Any]]:
    """Return tool schemas of the size that real tools have."""
    properties = {
        f"option_{index}": {"type": "string", "description": "What the option changes. " * 4}
        for index in range(5)
    }
    parameters = {"type": "object", "properties": properties, "required": ["option_0"]}
    return [
        {
            "type": "function",
            "function": {
                "name": f"tool_{index}",
                "description": "What the tool does, and when to use it. " * 6,
                "parameters": parameters,
            },
        }
        for index in range(number)
    ]
