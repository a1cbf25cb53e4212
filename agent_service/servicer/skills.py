"""SkillService."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import grpc.aio

from agent_service.convert import skills as convert
from agent_service.convert.common import profile_of
from agent_service.skills.document import BadSkill
from agent_service.skills.files import FileRefused, LibraryBusy
from agent_service.skills.index import UNSORTED
from agent_service.skills.library import Skill
from agent_service.skills.shelf import ProfileSkills, SkillShelves
from hermes.agent.v1 import skill_pb2, skill_pb2_grpc
from services.errors import FailedPrecondition, NotFound, ServiceUnavailable

Context = grpc.aio.ServicerContext[Any, Any]


class SkillServicer(skill_pb2_grpc.SkillServiceServicer):
    """Serves the libraries of skills."""

    def __init__(self, shelves: SkillShelves) -> None:
        self._shelves = shelves

    async def ListSkills(
        self, request: skill_pb2.ListSkillsRequest, context: Context
    ) -> skill_pb2.ListSkillsResponse:
        """Lists skills."""
        with _told():
            found = await self._shelves.of(profile_of(request.profile)).records()
        wanted = request.category
        return skill_pb2.ListSkillsResponse(
            skills=[
                convert.skill(record)
                for record in found
                if not wanted or wanted == (record.skill.category or UNSORTED)
            ]
        )

    async def GetSkill(
        self, request: skill_pb2.GetSkillRequest, context: Context
    ) -> skill_pb2.GetSkillResponse:
        """Returns a skill with its text."""
        skills = self._shelves.of(profile_of(request.profile))
        skill = await _found(skills, request.name)
        with _told():
            text = await skills.text(skill, request.file_path)
            record = await skills.record(skill)
        return skill_pb2.GetSkillResponse(skill=convert.skill(record), text=text)

    async def PinSkill(
        self, request: skill_pb2.PinSkillRequest, context: Context
    ) -> skill_pb2.PinSkillResponse:
        """Pins a skill, or lets it change."""
        skills = self._shelves.of(profile_of(request.profile))
        skill = await _found(skills, request.name)
        with _told():
            await skills.pin(skill, is_pinned=request.is_pinned)
            record = await skills.record(skill)
        return skill_pb2.PinSkillResponse(skill=convert.skill(record))

    async def ArchiveSkill(
        self, request: skill_pb2.ArchiveSkillRequest, context: Context
    ) -> skill_pb2.ArchiveSkillResponse:
        """Puts a skill away."""
        skills = self._shelves.of(profile_of(request.profile))
        skill = await _found(skills, request.name)
        with _told():
            path = await skills.archive(skill)
        return skill_pb2.ArchiveSkillResponse(path=path)

    async def RestoreSkill(
        self, request: skill_pb2.RestoreSkillRequest, context: Context
    ) -> skill_pb2.RestoreSkillResponse:
        """Brings a skill back."""
        skills = self._shelves.of(profile_of(request.profile))
        with _told():
            record = await skills.record(await skills.find(await skills.restore(request.name)))
        return skill_pb2.RestoreSkillResponse(skill=convert.skill(record))


async def _found(skills: ProfileSkills, name: str) -> Skill:
    try:
        return await skills.find(name)
    except BadSkill as error:
        if (await skills.catalogue()).find(name):
            raise NotFound(str(error)) from None
        # What a model is told of it names a tool.
        raise NotFound(f"there is no skill {name!r}; hermes skills list shows them") from None


@contextmanager
def _told() -> Generator[None]:
    try:
        yield
    except LibraryBusy as error:
        raise ServiceUnavailable(str(error)) from None
    except (BadSkill, FileRefused) as error:
        raise FailedPrecondition(str(error)) from None
