"""SkillService."""

from collections.abc import Generator
from contextlib import contextmanager

from agent_service.profiles.skills.document import BadSkill
from agent_service.profiles.skills.files import FileRefused, LibraryBusy
from agent_service.profiles.skills.hub.source import HubFailed, HubRefused
from agent_service.profiles.skills.index import UNSORTED
from agent_service.profiles.skills.library import Skill
from agent_service.profiles.skills.shelf import ProfileSkills, SkillRecord, SkillShelves
from agent_service.servicer.fields import Context, profile_of
from agent_service.tools.mcp.prompts import CATEGORY, Prompts
from hermes.agent.v1 import skill_pb2 as pb
from hermes.agent.v1.skill_pb2_grpc import SkillServiceServicer
from services.errors import FailedPrecondition, NotFound, ServiceUnavailable
from services.rpc.messages import message_of


class SkillServicer(SkillServiceServicer):
    """Serves skill libraries."""

    def __init__(self, shelves: SkillShelves, prompts: Prompts) -> None:
        self._shelves = shelves
        self._prompts = prompts

    async def ListSkills(
        self, request: pb.ListSkillsRequest, context: Context
    ) -> pb.ListSkillsResponse:
        with telling():
            found = await self._shelves.for_profile(profile_of(request.profile)).records()
        wanted = request.category
        skills = [
            _skill(record)
            for record in found
            if not wanted or wanted == (record.skill.category or UNSORTED)
        ]
        if request.include_prompts:
            prompts = await self._prompts.list(profile_of(request.profile))
            skills += [
                pb.Skill(name=one.name, category=CATEGORY, description=one.description)
                for one in prompts
            ]
        return pb.ListSkillsResponse(skills=skills)

    async def GetSkill(self, request: pb.GetSkillRequest, context: Context) -> pb.GetSkillResponse:
        skills = self._shelves.for_profile(profile_of(request.profile))
        skill = await _find(skills, request.name)
        with telling():
            text = await skills.text(skill, request.file_path)
            record = await skills.record(skill)
        return pb.GetSkillResponse(skill=_skill(record), text=text)

    async def PinSkill(self, request: pb.PinSkillRequest, context: Context) -> pb.PinSkillResponse:
        skills = self._shelves.for_profile(profile_of(request.profile))
        skill = await _find(skills, request.name)
        with telling():
            await skills.pin(skill, is_pinned=request.is_pinned)
            record = await skills.record(skill)
        return pb.PinSkillResponse(skill=_skill(record))

    async def ArchiveSkill(
        self, request: pb.ArchiveSkillRequest, context: Context
    ) -> pb.ArchiveSkillResponse:
        skills = self._shelves.for_profile(profile_of(request.profile))
        skill = await _find(skills, request.name)
        with telling():
            path = await skills.archive(skill)
        return pb.ArchiveSkillResponse(path=path)

    async def RestoreSkill(
        self, request: pb.RestoreSkillRequest, context: Context
    ) -> pb.RestoreSkillResponse:
        skills = self._shelves.for_profile(profile_of(request.profile))
        with telling():
            record = await skills.record(await skills.find(await skills.restore(request.name)))
        return pb.RestoreSkillResponse(skill=_skill(record))


async def _find(skills: ProfileSkills, name: str) -> Skill:
    try:
        return await skills.find(name)
    except BadSkill as error:
        if (await skills.catalogue()).find(name):
            raise NotFound(str(error)) from None
        # The library's own error is for models, and names a tool.
        raise NotFound(f"there is no skill {name!r}; hermes skills list shows them") from None


@contextmanager
def telling() -> Generator[None]:
    """Map errors of libraries and hubs to the service's errors."""
    try:
        yield
    except (HubFailed, LibraryBusy) as error:
        raise ServiceUnavailable(str(error)) from None
    except (BadSkill, FileRefused, HubRefused) as error:
        raise FailedPrecondition(str(error)) from None


def _skill(record: SkillRecord) -> pb.Skill:
    return message_of(
        record.skill,
        pb.Skill,
        origin=record.origin,
        usage=message_of(record.usage, pb.SkillUsage, is_pinned=record.usage.pinned),
        trust=record.trust,
        source=record.note.source,
    )
