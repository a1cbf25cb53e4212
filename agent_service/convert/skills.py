"""Skills on the wire."""

from agent_service.skills.library import Origin, Trust
from agent_service.skills.shelf import SkillRecord
from agent_service.skills.usage import SkillState, Usage
from hermes.agent.v1 import skill_pb2

_ORIGINS = {
    Origin.BUNDLED: skill_pb2.SKILL_ORIGIN_BUNDLED,
    Origin.HUB: skill_pb2.SKILL_ORIGIN_HUB,
    Origin.AGENT: skill_pb2.SKILL_ORIGIN_AGENT,
    Origin.USER: skill_pb2.SKILL_ORIGIN_USER,
}
TRUSTS: dict[str, skill_pb2.SkillTrust.ValueType] = {
    Trust.BUNDLED.value: skill_pb2.SKILL_TRUST_BUNDLED,
    Trust.TRUSTED.value: skill_pb2.SKILL_TRUST_TRUSTED,
    Trust.COMMUNITY.value: skill_pb2.SKILL_TRUST_COMMUNITY,
    Trust.AGENT_CREATED.value: skill_pb2.SKILL_TRUST_AGENT_CREATED,
}
_STATES = {
    SkillState.ACTIVE: skill_pb2.SKILL_STATE_ACTIVE,
    SkillState.STALE: skill_pb2.SKILL_STATE_STALE,
    SkillState.ARCHIVED: skill_pb2.SKILL_STATE_ARCHIVED,
}


def skill(record: SkillRecord) -> skill_pb2.Skill:
    """A skill on the wire."""
    return skill_pb2.Skill(
        name=text(record.skill.name),
        category=text(record.skill.category),
        description=text(record.skill.description),
        tags=map(text, record.skill.tags),
        files=map(text, record.skill.files),
        origin=_ORIGINS[record.origin],
        usage=_usage(record.usage),
        trust=TRUSTS.get(record.trust, skill_pb2.SKILL_TRUST_UNSPECIFIED),
        source=text(record.note.source),
    )


def _usage(used: Usage) -> skill_pb2.SkillUsage:
    return skill_pb2.SkillUsage(
        use_count=_count(used.use_count),
        view_count=_count(used.view_count),
        patch_count=_count(used.patch_count),
        last_used_at=text(used.last_used_at or ""),
        last_viewed_at=text(used.last_viewed_at or ""),
        last_patched_at=text(used.last_patched_at or ""),
        created_at=text(used.created_at or ""),
        state=_STATES[used.state],
        is_pinned=used.pinned,
    )


def text(given: str) -> str:
    """What a file or its name may hold and the wire may not is replaced."""
    return given.encode(errors="replace").decode()


def _count(number: int) -> int:
    return min(max(number, 0), 2**63 - 1)
