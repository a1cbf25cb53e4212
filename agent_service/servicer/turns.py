"""TurnService."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec.structs import replace

from agent_service.config.tools import ToolsConfig
from agent_service.curation.shelf import CuratorNews
from agent_service.drafts import SessionDrafts
from agent_service.requests import JOB, REVIEW, TurnInfo, TurnRequest
from agent_service.reviews import Reviews
from agent_service.saying import Screening
from agent_service.servicer.fields import Context, profile_of
from agent_service.servicer.turn_requests import turn, turn_request
from agent_service.servicer.watcher import Watcher
from agent_service.skills.shelf import SkillShelves
from agent_service.skills.viewing import loaded, used
from agent_service.storage.turns import Undrafted
from agent_service.toolsets import FOR_JOBS
from agent_service.turns import Turns
from hermes.agent.v1 import turn_pb2 as pb
from hermes.agent.v1 import turn_pb2_grpc
from services.errors import FailedPrecondition, InvalidArgument
from services.task_groups import ungrouped


class TurnServicer(turn_pb2_grpc.TurnServiceServicer):
    """Serves turns."""

    def __init__(
        self,
        turns: Turns,
        drafts: SessionDrafts,
        toolsets: ToolsConfig,
        news: CuratorNews,
        screening: Screening,
        reviews: Reviews,
        skills: SkillShelves,
    ) -> None:
        self._turns = turns
        self._drafts = drafts
        self._toolsets = toolsets
        self._news = news
        self._screening = screening
        self._reviews = reviews
        self._skills = skills

    async def StartTurn(
        self, request: pb.StartTurnRequest, context: Context
    ) -> pb.StartTurnResponse:
        """Starts or queues a turn."""
        asked = turn_request(request)
        if asked.kind == REVIEW:
            return pb.StartTurnResponse(turn=turn(await self._reviews.last(asked)))
        toolsets = asked.toolsets or (FOR_JOBS if asked.kind == JOB else ())
        # A script is a command, whoever runs it.
        if asked.script is not None and (
            why := self._toolsets.why_off("terminal", asked.profile, asked.platform)
        ):
            raise FailedPrecondition(f"the job's script is not run: the toolset terminal is {why}")
        allowed = self._toolsets.of(asked.profile, asked.platform, toolsets)
        library = self._skills.of(asked.profile)
        skills = await loaded(library, asked.skills)
        texts = tuple(each.text for each in skills)
        wanted = await self._screening.of(replace(asked, allowed=allowed, loaded=texts))
        try:
            info = await self._turns.start(wanted, None)
        except Undrafted:
            # Most turns go on with their session, and need nothing of what one begins with.
            info = await self._begin(wanted)
        if info.is_new:
            await used(library, skills)
        return pb.StartTurnResponse(turn=turn(info))

    async def WatchTurn(
        self, request: pb.WatchTurnRequest, context: Context
    ) -> AsyncGenerator[pb.WatchTurnResponse]:
        """Streams a turn's events."""
        if request.after_sequence < 0:
            raise InvalidArgument("negative", fields={"after_sequence": "0 or more"})
        watcher = Watcher(self._turns.watching, self._turns.replicas, request)
        async with aclosing(watcher.responses()) as responses:
            async for response in responses:
                yield response

    async def GetTurn(self, request: pb.GetTurnRequest, context: Context) -> pb.GetTurnResponse:
        """Returns a turn."""
        info = await self._turns.get(request.turn_id, profile_of(request.profile))
        return pb.GetTurnResponse(turn=turn(info))

    async def InterruptTurn(
        self, request: pb.InterruptTurnRequest, context: Context
    ) -> pb.InterruptTurnResponse:
        """Asks a turn to stop."""
        if not request.turn_id and not request.session_id:
            raise InvalidArgument("nothing named", fields={"turn_id": "or session_id must be set"})
        info = await self._turns.interrupt(
            request.turn_id, request.session_id, profile_of(request.profile)
        )
        return pb.InterruptTurnResponse(turn=None if info is None else turn(info))

    async def _begin(self, request: TurnRequest) -> TurnInfo:
        """Start the first turn of a session."""
        with ungrouped():
            async with asyncio.TaskGroup() as group:
                asked = group.create_task(self._news.notices(request.profile, request.kind))
                draft = await self._drafts.draft(request)
        news = asked.result()
        info = await self._turns.start(request, replace(draft, notices=(*draft.notices, *news)))
        if news:
            await self._news.told(request.profile, request.session_id)
        return info
