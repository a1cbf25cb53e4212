"""The agent's other replicas, at the endpoints stored with the turns that they own."""

import logging
from collections.abc import AsyncGenerator

import grpc.aio

from agent_service.records.requests import TurnInfo
from hermes.agent.v1 import turn_pb2
from hermes.agent.v1.turn_pb2_grpc import TurnServiceStub
from services.clock import Clock
from services.rpc.channels import Channels
from services.rpc.streams import open_stream

MISSED_S = 2.0
"""How long the journal is read instead if a turn's owner was unreachable."""
ANSWER_S = 1.5
"""The time limit for an owner to answer at all."""

_log = logging.getLogger(__name__)


class Replicas:
    """Reaches the owners of turns that are not owned here."""

    def __init__(self, channels: Channels, endpoint: str, clock: Clock) -> None:
        self.endpoint = endpoint
        """The address of this replica for the others; empty if there is none."""
        self._channels = channels
        self._clock = clock
        self._missed_at: dict[str, float] = {}

    def owner_of(self, turn: TurnInfo) -> str:
        """Return the endpoint of another replica that owns the turn; empty if there is none."""
        there = turn.owner_endpoint if turn.owner is not None and not turn.is_finished else ""
        since = self._clock.monotonic() - self._missed_at.get(there, float("-inf"))
        return "" if there == self.endpoint or since < MISSED_S else there

    async def watch(
        self, endpoint: str, request: turn_pb2.WatchTurnRequest
    ) -> AsyncGenerator[turn_pb2.WatchTurnResponse]:
        """Yield the owner's events of a turn, for as long as it is reachable."""
        stub = self._stub(endpoint)
        look = turn_pb2.GetTurnRequest(turn_id=request.turn_id, profile=request.profile)
        try:
            # A stream to an unreachable replica would only fail after half a minute.
            await stub.GetTurn(look, timeout=ANSWER_S)
            async with open_stream(stub.WatchTurn(request)) as call:
                async for response in call:
                    yield response
        except grpc.aio.AioRpcError as error:
            _log.info("a turn cannot be watched at %s: %s", endpoint, error.details())
        # A former owner sends nothing more; the journal names the next owner.
        self._missed_at[endpoint] = self._clock.monotonic()

    async def interrupt(self, turn: TurnInfo, profile: str) -> None:
        if not (endpoint := self.owner_of(turn)):
            return
        request = turn_pb2.InterruptTurnRequest(turn_id=turn.id, profile=profile)
        try:
            await self._stub(endpoint).InterruptTurn(request, timeout=ANSWER_S)
        except grpc.aio.AioRpcError as error:
            _log.info("a turn cannot be interrupted at %s: %s", endpoint, error.details())

    def _stub(self, endpoint: str) -> TurnServiceStub:
        return TurnServiceStub(self._channels.at(endpoint))
