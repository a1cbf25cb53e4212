"""What compressing a long conversation takes."""

import asyncio
import json
from typing import Any

from sqlalchemy import Connection

from tests.bench.conversation import conversation
from tests.bench.figures import Plan, Reading, Spread
from tests.bench.hermes import Hermes, hermes, started
from tests.bench.model_process import PLAIN, SLOW_S, model_process
from tests.bench.past import agent_database
from tests.integration.agent_history import said, store

_MESSAGES = 2_000
_CONFIG = "models: {scripted: {window: 10000000}}\n"
"""So that nothing is compressed before it is asked for."""


async def compression(plan: Plan) -> list[Reading]:
    """Measure compressing 2,000 messages, from `/compress` to its end, less the model."""
    home = plan.folder / "compression"
    sessions = [f"long-{number}" for number in range(plan.repeats)]
    messages = [message for turn in range(_MESSAGES // 4) for message in _turn(turn)]

    def fill(conn: Connection) -> None:
        for session_id in sessions:
            store(conn, session_id, messages, is_indexed=False)

    async with model_process() as url:
        async with started(home, url):
            pass  # makes the home
        await asyncio.to_thread((home / "config.yaml").write_text, _CONFIG)
        async with agent_database(home) as database:
            await database.write(fill)
        async with hermes(home, url) as running:
            added_ms = [await _compressed_ms(running, session_id) for session_id in sessions]
    return [Reading("compression_added_ms", Spread.of(added_ms), f"{_MESSAGES} messages")]


async def _compressed_ms(running: Hermes, session_id: str) -> float:
    async with conversation(running.channels, session_id=session_id) as talk:
        await talk.ask(PLAIN)
        return (await talk.ask("/compress")).last_ms - SLOW_S * 1_000


def _turn(number: int) -> list[dict[str, Any]]:
    """The messages of a turn with one command."""
    arguments = json.dumps({"command": f"df -h /srv/data-{number} | sort -k5 -n"})
    function = {"name": "terminal", "arguments": arguments}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        said("user", f"How full is disk {number}? " * 10),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        said("tool", "/dev/sda1 40G 12G 28G\n" * 30, tool_call_id=call["id"]),
        said("assistant", "It is thirty percent full. " * 10),
    ]
