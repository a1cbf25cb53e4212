"""SkillService."""

from collections.abc import Generator
from contextlib import contextmanager

from agent_service.servicer.fields import Context, profile_of, sendable
from agent_service.skills.document import BadSkill
from agent_service.skills.files import FileRefused, LibraryBusy
from agent_service.skills.hub.source import HubFailed, HubRefused
from agent_service.skills.index import UNSORTED
from agent_service.skills.library import Skill, Trust
from agent_service.skills.shelf import ProfileSkills, SkillRecord, SkillShelves
from agent_service.skills.usage import Usage
from hermes.agent.v1 import skill_pb2 as pb
from hermes.agent.v1.skill_pb2_grpc import SkillServiceServicer
from services.errors import FailedPrecondition, NotFound, ServiceUnavailable


class SkillServicer(SkillServiceServicer):
    """Serves the libraries of skills."""

    def __init__(self, shelves: SkillShelves) -> None:
        self._shelves = shelves

    async def ListSkills(
        self, request: pb.ListSkillsRequest, context: Context
    ) -> pb.ListSkillsResponse:
        """Lists skills."""
        with telling():
            found = await self._shelves.of(profile_of(request.profile)).records()
        wanted = request.category
        return pb.ListSkillsResponse(
            skills=[
                _skill(record)
                for record in found
                if not wanted or wanted == (record.skill.category or UNSORTED)
            ]
        )

    async def GetSkill(self, request: pb.GetSkillRequest, context: Context) -> pb.GetSkillResponse:
        """Returns a skill with its text."""
        skills = self._shelves.of(profile_of(request.profile))
        skill = await _found(skills, request.name)
        with telling():
            text = await skills.text(skill, request.file_path)
            record = await skills.record(skill)
        return pb.GetSkillResponse(skill=_skill(record), text=text)

    async def PinSkill(self, request: pb.PinSkillRequest, context: Context) -> pb.PinSkillResponse:
        """Pins a skill, or lets it change."""
        skills = self._shelves.of(profile_of(request.profile))
        skill = await _found(skills, request.name)
        with telling():
            await skills.pin(skill, is_pinned=request.is_pinned)
            record = await skills.record(skill)
        return pb.PinSkillResponse(skill=_skill(record))

    async def ArchiveSkill(
        self, request: pb.ArchiveSkillRequest, context: Context
    ) -> pb.ArchiveSkillResponse:
        """Puts a skill away."""
        skills = self._shelves.of(profile_of(request.profile))
        skill = await _found(skills, request.name)
        with telling():
            path = await skills.archive(skill)
        return pb.ArchiveSkillResponse(path=path)

    async def RestoreSkill(
        self, request: pb.RestoreSkillRequest, context: Context
    ) -> pb.RestoreSkillResponse:
        """Brings a skill back."""
        skills = self._shelves.of(profile_of(request.profile))
        with telling():
            record = await skills.record(await skills.find(await skills.restore(request.name)))
        return pb.RestoreSkillResponse(skill=_skill(record))


async def _found(skills: ProfileSkills, name: str) -> Skill:
    try:
        return await skills.find(name)
    except BadSkill as error:
        if (await skills.catalogue()).find(name):
            raise NotFound(str(error)) from None
        # What a model is told of it names a tool.
        raise NotFound(f"there is no skill {name!r}; hermes skills list shows them") from None


@contextmanager
def telling() -> Generator[None]:
    """Errors of libraries and hubs as those of the service."""
    try:
        yield
    except (HubFailed, LibraryBusy) as error:
        raise ServiceUnavailable(str(error)) from None
    except (BadSkill, FileRefused, HubRefused) as error:
        raise FailedPrecondition(str(error)) from None


def trust_number(trust: str) -> pb.SkillTrust.ValueType:
    """Whose word a skill is, on the wire."""
    known = trust in list(Trust)
    return pb.SkillTrust.Value(f"SKILL_TRUST_{Trust(trust).name if known else 'UNSPECIFIED'}")


def _skill(record: SkillRecord) -> pb.Skill:
    return pb.Skill(
        name=sendable(record.skill.name),
        category=sendable(record.skill.category),
        description=sendable(record.skill.description),
        tags=map(sendable, record.skill.tags),
        files=map(sendable, record.skill.files),
        origin=pb.SkillOrigin.Value(f"SKILL_ORIGIN_{record.origin.name}"),
        usage=_usage(record.usage),
        trust=trust_number(record.trust),
        source=sendable(record.note.source),
    )


def _usage(used: Usage) -> pb.SkillUsage:
    return pb.SkillUsage(
        use_count=_count(used.use_count),
        view_count=_count(used.view_count),
        patch_count=_count(used.patch_count),
        last_used_at=sendable(used.last_used_at or ""),
        last_viewed_at=sendable(used.last_viewed_at or ""),
        last_patched_at=sendable(used.last_patched_at or ""),
        created_at=sendable(used.created_at or ""),
        state=pb.SkillState.Value(f"SKILL_STATE_{used.state.name}"),
        is_pinned=used.pinned,
    )


def _count(number: int) -> int:
    return min(max(number, 0), 2**63 - 1)
