"""The agent's skills."""

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from gateway_service.clients.calls import ChannelOf, of_agent
from hermes.agent.v1 import skill_pb2, skill_pb2_grpc


class SkillInfo(Struct, frozen=True):
    """A skill, as a person is shown it."""

    name: str
    category: str
    description: str
    use_count: int = 0
    view_count: int = 0
    files: tuple[str, ...] = ()
    is_stale: bool = False
    is_pinned: bool = False

    @property
    def path(self) -> str:
        """What no other skill is called."""
        return f"{self.category}/{self.name}" if self.category else self.name


class SkillsClient:
    """Reads the libraries of skills."""

    def __init__(self, channel_of: ChannelOf) -> None:
        self._channel_of = channel_of

    @cached_property
    def _stub(self) -> skill_pb2_grpc.SkillServiceStub:
        return skill_pb2_grpc.SkillServiceStub(self._channel_of("agent"))

    async def all(self, profile: str) -> Sequence[SkillInfo]:
        """A profile's skills by category and name."""
        request = skill_pb2.ListSkillsRequest(profile=profile)
        found = await of_agent(self._stub.ListSkills(request))
        return [_info(skill) for skill in found.skills]

    async def one(self, profile: str, name: str) -> tuple[SkillInfo, str]:
        """A skill by its name or path, and its text."""
        request = skill_pb2.GetSkillRequest(profile=profile, name=name)
        found = await of_agent(self._stub.GetSkill(request))
        return _info(found.skill), found.text


def _info(skill: skill_pb2.Skill) -> SkillInfo:
    return SkillInfo(
        name=skill.name,
        category=skill.category,
        description=skill.description,
        use_count=skill.usage.use_count,
        view_count=skill.usage.view_count,
        files=tuple(skill.files),
        is_stale=skill.usage.state == skill_pb2.SKILL_STATE_STALE,
        is_pinned=skill.usage.is_pinned,
    )
