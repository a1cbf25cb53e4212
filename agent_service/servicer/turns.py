"""TurnService."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from agent_service.clients.replicas import Replicas
from agent_service.config.tools import ToolsConfig
from agent_service.config.toolsets import FOR_JOBS
from agent_service.profiles.skills.shelf import SkillShelves
from agent_service.profiles.skills.views import loaded, used
from agent_service.records.events import Recorded, TurnFinished
from agent_service.records.requests import JOB, REVIEW
from agent_service.servicer.events import in_messages, turn_event
from agent_service.servicer.fields import Context, profile_of
from agent_service.servicer.turn_requests import turn, turn_request
from agent_service.tools.mcp.prompts import CATEGORY, Prompts
from agent_service.turns.event_streams import EventFeed, OwnedElsewhere
from agent_service.turns.message_assembly import Screening
from agent_service.turns.reviews import Reviews
from agent_service.turns.service import Turns
from hermes.agent.v1 import turn_pb2, turn_pb2_grpc
from hermes.agent.v1 import turn_pb2 as pb
from services.errors import FailedPrecondition, InvalidArgument


class TurnServicer(turn_pb2_grpc.TurnServiceServicer):
    """Serves turns."""

    def __init__(
        self,
        turns: Turns,
        toolsets: ToolsConfig,
        screening: Screening,
        reviews: Reviews,
        skills: SkillShelves,
        prompts: Prompts,
    ) -> None:
        self._turns = turns
        self._toolsets = toolsets
        self._screening = screening
        self._reviews = reviews
        self._skills = skills
        self._prompts = prompts

    async def StartTurn(
        self, request: pb.StartTurnRequest, context: Context
    ) -> pb.StartTurnResponse:
        asked = turn_request(request)
        if asked.kind == REVIEW:
            return pb.StartTurnResponse(turn=turn(await self._reviews.last(asked)))
        toolsets = asked.options.toolsets or (FOR_JOBS if asked.kind == JOB else ())
        # A script is a command, no matter who runs it.
        if asked.script is not None and (
            why := self._toolsets.why_off("terminal", asked.profile, asked.platform)
        ):
            raise FailedPrecondition(f"the job's script is not run: the toolset terminal is {why}")
        allowed = self._toolsets.toolsets_for(asked.profile, asked.platform, toolsets)
        library = self._skills.for_profile(asked.profile)
        prompts = [name for name in asked.skills if name.startswith(f"{CATEGORY}/")]
        skills = await loaded(library, [name for name in asked.skills if name not in prompts])
        more = await self._prompts.load(asked.profile, prompts, asked.text)
        texts = tuple(each.text for each in (*skills, *more))
        sources = (*asked.untrusted, *(each.source for each in more if each.source))
        given = replace(asked, allowed=allowed, loaded=texts, untrusted=sources)
        wanted = await self._screening.screen(given)
        info = await self._turns.start(wanted)
        if info.is_new:
            await used(library, skills)
        return pb.StartTurnResponse(turn=turn(info))

    async def WatchTurn(
        self, request: pb.WatchTurnRequest, context: Context
    ) -> AsyncGenerator[pb.WatchTurnResponse]:
        if request.after_sequence < 0:
            raise InvalidArgument("negative", fields={"after_sequence": "0 or more"})
        watcher = Watcher(self._turns.watching, self._turns.replicas, request)
        async with aclosing(watcher.responses()) as responses:
            async for response in responses:
                yield response

    async def GetTurn(self, request: pb.GetTurnRequest, context: Context) -> pb.GetTurnResponse:
        info = await self._turns.get(request.turn_id, profile_of(request.profile))
        return pb.GetTurnResponse(turn=turn(info))

    async def InterruptTurn(
        self, request: pb.InterruptTurnRequest, context: Context
    ) -> pb.InterruptTurnResponse:
        if not request.turn_id and not request.session_id:
            raise InvalidArgument("nothing named", fields={"turn_id": "or session_id must be set"})
        info = await self._turns.interrupt(
            request.turn_id, request.session_id, profile_of(request.profile)
        )
        return pb.InterruptTurnResponse(turn=None if info is None else turn(info))


OWNER_LOOK_S = 1.0
"""How often a watcher checks a turn's owner while that sends nothing."""


class Watcher:
    """One call of WatchTurn."""

    def __init__(
        self, watching: EventFeed, replicas: Replicas, request: turn_pb2.WatchTurnRequest
    ) -> None:
        self._watching = watching
        self._replicas = replicas
        self._request = request
        self._last = request.after_sequence
        self._owner = ""
        rate = request.max_deltas_per_second
        self._pause_s = 1 / rate if rate > 0 else 0.0

    async def responses(self) -> AsyncGenerator[turn_pb2.WatchTurnResponse]:
        """Yield the turn's events to its end, even if its owner changes."""
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
        source = self._watching.watch(self._request.turn_id, profile, self._last, self._pause_s)
        gathered = list[Recorded]()
        async with aclosing(source) as batches:
            async for batch in batches:
                if isinstance(batch, OwnedElsewhere):
                    self._owner = batch.endpoint
                    return
                gathered += batch
                if self._request.ended_only and not isinstance(batch[-1].event, TurnFinished):
                    gathered = [each for each in gathered if each.sequence]
                    continue
                for events in in_messages(map(turn_event, gathered)):
                    yield turn_pb2.WatchTurnResponse(events=events)
                gathered.clear()

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
        """Return whether the owner sends something before it is known to have lost the turn."""
        profile = profile_of(self._request.profile)
        while not coming.done():
            await asyncio.wait([coming], timeout=OWNER_LOOK_S)
            if not coming.done():
                turn = await self._watching.turn(self._request.turn_id, profile)
                if self._replicas.owner_of(turn) != endpoint:
                    return False
        return True
