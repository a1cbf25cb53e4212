"""Shows a turn to whoever watches it: from here, or from the replica that owns it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from agent_service.clients.replicas import Replicas
from agent_service.events import Recorded, TextDelta
from agent_service.servicer.events import in_messages, turn_event
from agent_service.servicer.fields import profile_of
from agent_service.watching import Elsewhere, Watching
from hermes.agent.v1 import turn_pb2

LOOK_S = 1.0
"""How often it is asked who owns a turn while its owner says nothing."""


class Watcher:
    """One call of WatchTurn."""

    def __init__(
        self, watching: Watching, replicas: Replicas, request: turn_pb2.WatchTurnRequest
    ) -> None:
        self._watching = watching
        self._replicas = replicas
        self._request = request
        self._last = request.after_sequence
        self._owner = ""
        rate = request.max_deltas_per_second
        self._pause_s = 1 / rate if rate > 0 else 0.0

    async def responses(self) -> AsyncGenerator[turn_pb2.WatchTurnResponse]:
        """All of the turn up to its end, wherever it is owned meanwhile."""
        is_here = False
        while not is_here or self._owner:
            is_here = not self._owner
            async with aclosing(self._here() if is_here else self._at_owner()) as responses:
                async for response in responses:
                    yield response
                    self._last = max(self._last, *(event.sequence for event in response.events))
                    if response.events[-1].HasField("turn_finished"):
                        return

    async def _here(self) -> AsyncGenerator[turn_pb2.WatchTurnResponse]:
        profile = profile_of(self._request.profile)
        source = self._watching.watch(self._request.turn_id, profile, self._last)
        async with aclosing(source) as batches:
            async for batch in batches:
                if isinstance(batch, Elsewhere):
                    self._owner = batch.endpoint
                    return
                for events in in_messages(map(turn_event, batch)):
                    yield turn_pb2.WatchTurnResponse(events=events)
                await self._pause_after(batch)

    async def _at_owner(self) -> AsyncGenerator[turn_pb2.WatchTurnResponse]:
        endpoint, self._owner = self._owner, ""
        request = turn_pb2.WatchTurnRequest()
        request.CopyFrom(self._request)
        request.after_sequence = self._last
        async with aclosing(self._replicas.watch(endpoint, request)) as responses:
            coming = asyncio.ensure_future(anext(responses, None))
            try:
                while await self._comes(coming, endpoint) and (response := coming.result()):
                    yield response
                    coming = asyncio.ensure_future(anext(responses, None))
            finally:
                coming.cancel()
                await asyncio.wait([coming])

    async def _comes(self, coming: asyncio.Future[Any], endpoint: str) -> bool:
        """Whether the owner says something before it is known to be the owner no more."""
        profile = profile_of(self._request.profile)
        while not coming.done():
            await asyncio.wait([coming], timeout=LOOK_S)
            if not coming.done():
                turn = await self._watching.turn(self._request.turn_id, profile)
                if self._replicas.owner_of(turn) != endpoint:
                    return False
        return True

    async def _pause_after(self, batch: list[Recorded]) -> None:
        if self._pause_s and any(isinstance(item.event, TextDelta) for item in batch):
            # What comes meanwhile is merged into one delta by the subscription.
            await asyncio.sleep(self._pause_s)
