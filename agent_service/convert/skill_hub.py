"""Skills of hubs on the wire."""

from agent_service.convert.skills import TRUSTS, text
from agent_service.skills.hub.hubs import Found, Silent
from agent_service.skills.hub.outcomes import Outcome, Status
from agent_service.skills.hub.verdicts import Finding, Verdict
from hermes.agent.v1 import skill_hub_pb2 as pb
from hermes.agent.v1 import skill_pb2

_VERDICTS = {
    Verdict.SAFE: pb.SKILL_VERDICT_SAFE,
    Verdict.CAUTION: pb.SKILL_VERDICT_CAUTION,
    Verdict.DANGEROUS: pb.SKILL_VERDICT_DANGEROUS,
}
_STATUSES = {
    Status.INSTALLED: pb.SKILL_OUTCOME_STATUS_INSTALLED,
    Status.UPDATED: pb.SKILL_OUTCOME_STATUS_UPDATED,
    Status.UNCHANGED: pb.SKILL_OUTCOME_STATUS_UNCHANGED,
    Status.ASKS: pb.SKILL_OUTCOME_STATUS_ASKS,
    Status.REFUSED: pb.SKILL_OUTCOME_STATUS_REFUSED,
    Status.FAILED: pb.SKILL_OUTCOME_STATUS_FAILED,
}


def outcome(made: Outcome) -> pb.SkillOutcome:
    """What became of a skill."""
    return pb.SkillOutcome(
        name=text(made.name),
        status=_STATUSES[made.status],
        message=text(made.message),
        source=text(made.source),
        version=text(made.version),
        digest=made.digest,
        trust=TRUSTS.get(made.trust, skill_pb2.SKILL_TRUST_UNSPECIFIED),
        verdict=_VERDICTS[made.review.verdict] if made.review else pb.SKILL_VERDICT_UNSPECIFIED,
        findings=map(_finding, made.review.findings if made.review else ()),
        files=map(text, made.files),
        consent=made.consent,
    )


def search(found: list[Found | Silent], most: int) -> pb.SearchHubResponse:
    """What was found."""
    return pb.SearchHubResponse(
        skills=[_skill(each) for each in found if isinstance(each, Found)][:most],
        silent=[
            pb.SilentHub(name=each.hub, reason=text(each.why))
            for each in found
            if isinstance(each, Silent)
        ],
    )


def _skill(found: Found) -> pb.HubSkill:
    return pb.HubSkill(
        name=text(found.offer.name),
        description=text(found.offer.description),
        hub=text(found.hub),
        trust=TRUSTS[found.trust.value],
        is_installed=found.is_installed,
    )


def _finding(found: Finding) -> pb.SkillFinding:
    return pb.SkillFinding(
        verdict=_VERDICTS[found.verdict],
        family=found.family,
        about=found.about,
        path=text(found.path),
        line=found.line,
        text=text(found.text),
    )
