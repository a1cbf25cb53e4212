"""Talking to a running deployment without the command: every event as it comes."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager

from hermes.agent.v1.turn_event_pb2 import TurnEvent
from hermes.gateway.v1.conversation_pb2 import ConverseRequest
from services.cli.chat.dialogue import Dialogue
from services.cli.connection import connected
from services.config.settings import load_settings
from services.rpc.channels import Channels
from tests.e2e.home import Home


@asynccontextmanager
async def channels_of(
    home: Home, services: Sequence[str] = ("gateway", "agent")
) -> AsyncGenerator[Channels]:
    """Channels to services that run, as an operator."""
    settings = await asyncio.to_thread(load_settings, {}, home.environ)
    async with connected(settings, services) as channels:
        yield channels


def ask(home: Home, question: str) -> list[TurnEvent]:
    """Ask in a new session; all events of the turn."""
    return asyncio.run(_ask(home, question))


async def _ask(home: Home, question: str) -> list[TurnEvent]:
    events: list[TurnEvent] = []
    async with channels_of(home) as channels:
        dialogue = Dialogue(channels.to("gateway"), ConverseRequest.Open())
        dialogue.say(question)
        async with aclosing(dialogue.responses()) as responses:
            while not events or not events[-1].HasField("turn_finished"):
                response = await anext(responses)
                assert response.WhichOneof("kind") != "reply", response.reply.text
                events += response.event.events
    return events
