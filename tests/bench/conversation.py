"""The client of the bench: an open conversation with the gateway, and its turns' times."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, cast

from hermes.agent.v1.turn_event_pb2 import TurnEvent
from hermes.gateway.v1.conversation_pb2 import ConverseRequest, ConverseResponse
from hermes.gateway.v1.conversation_pb2_grpc import ConversationServiceStub
from services.ids import new_id
from services.rpc.channels import Channels
from services.rpc.streams import open_stream
from tests.bench.figures import BenchError
from tests.bench.model_process import PLAIN

if TYPE_CHECKING:
    import grpc.aio

    Call = grpc.aio.StreamStreamCall[ConverseRequest, ConverseResponse]

_TEXT = frozenset({"text_delta", "text_snapshot", "text_finished"})


@dataclass(frozen=True, slots=True)
class Timing:
    """When something was first and last heard of, in milliseconds from its request."""

    first_ms: float
    last_ms: float


class Conversation:
    """One session, one turn at a time."""

    def __init__(self, call: "Call") -> None:
        self._call = call

    async def ask(self, text: str) -> Timing:
        """Send a message; returns when its first text and its last event came."""
        message = ConverseRequest.UserMessage(message_id=new_id("msg"), text=text)
        begun, first_ms = perf_counter(), 0.0
        await self._call.write(ConverseRequest(user_message=message))
        while True:
            response = await self.read()
            if response.HasField("reply"):
                raise BenchError(f"the gateway says: {response.reply.text}")
            if not response.HasField("event"):
                continue
            now_ms = (perf_counter() - begun) * 1_000
            for event in response.event.events:
                if not first_ms and event.WhichOneof("kind") in _TEXT:
                    first_ms = now_ms
                _check(event)
                if event.HasField("turn_finished"):
                    return Timing(first_ms, now_ms)

    async def chat(self, turns: int) -> None:
        """Have some turns that nobody measures."""
        for _ in range(turns):
            await self.ask(PLAIN)

    async def read(self) -> ConverseResponse:
        """Return what the gateway says next."""
        response = await self._call.read()
        if not isinstance(response, ConverseResponse):
            raise BenchError("the conversation was cut")
        return response


@asynccontextmanager
async def conversation(
    channels: Channels, plain_turns: int = 0, *, session_id: str = ""
) -> AsyncGenerator[Conversation]:
    """Open a conversation, by default in a new session, in which some turns have been had."""
    stub = ConversationServiceStub(channels.to("gateway"))
    # Without an iterator of requests, which the stubs ask for, the call is written to.
    converse = cast("Callable[[], Call]", stub.Converse)
    async with open_stream(converse()) as call:
        await call.write(ConverseRequest(open=ConverseRequest.Open(session_id=session_id)))
        opened = Conversation(call)
        await opened.read()
        await opened.chat(plain_turns)
        yield opened


def _check(event: TurnEvent) -> None:
    """What failed is not worth measuring."""
    if event.HasField("tool_finished") and event.tool_finished.is_error:
        raise BenchError(f"a tool failed: {event.tool_finished.preview}")
    if event.HasField("turn_finished") and not event.turn_finished.HasField("completed"):
        raise BenchError(f"a turn did not complete: {event.turn_finished}")
