"""Curation on the wire."""

from collections.abc import Sequence
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from agent_service.convert.common import timestamp
from agent_service.curation.changes import Done
from agent_service.curation.curation import Order
from agent_service.curation.drafting import Wanted
from agent_service.curation.reports import Report
from agent_service.curation.shelf import Standing
from agent_service.curation.snapshot import Held
from agent_service.skills.usage import SkillState
from hermes.agent.v1 import curation_pb2, skill_pb2
from services.errors import InvalidArgument

_STATES = {
    SkillState.ACTIVE: skill_pb2.SKILL_STATE_ACTIVE,
    SkillState.STALE: skill_pb2.SKILL_STATE_STALE,
    SkillState.ARCHIVED: skill_pb2.SKILL_STATE_ARCHIVED,
}
_OF_WIRE = {number: state for state, number in _STATES.items()}


def curation(standing: Standing) -> curation_pb2.Curation:
    """How curation stands, on the wire."""
    state = standing.state
    return curation_pb2.Curation(
        profile=standing.profile,
        is_paused=state.is_paused,
        last_run_time=_time(state.last_run_at),
        run_count=min(state.run_count, 2**63 - 1),
        last_summary=_text(state.last_summary),
        last_report_path=_text(state.last_report_path),
        idle_since=_time(standing.activity.last_at),
        is_busy=standing.activity.is_busy,
        backup_ids=standing.backup_ids,
        epoch=state.epoch,
    )


def used(held: Held) -> curation_pb2.UsedSkill:
    """A skill with its use, on the wire."""
    return curation_pb2.UsedSkill(
        name=_text(held.skill.name),
        state=_STATES[held.usage.state],
        is_protected=bool(held.protection),
        create_time=_time(held.usage.created_time),
        last_active_time=_time(held.usage.active_time),
    )


def order(request: curation_pb2.ApplyCurationRequest) -> Order:
    """What is to be done; InvalidArgument where a transition goes nowhere."""
    return Order(
        run_id=request.run_id,
        epoch=request.epoch,
        transitions=[_wanted(each) for each in request.transitions],
        plan=request.plan,
        plan_failure=request.plan_failure,
        job_skills=frozenset(request.job_skills),
        dry_run=request.dry_run,
    )


def report(made: Report) -> curation_pb2.CurationReport:
    """A report on the wire."""
    return curation_pb2.CurationReport(
        run_id=_text(made.run_id),
        time=_time(made.moment),
        summary=_text(made.summary),
        path=_text(made.path),
        backup_id=_text(made.backup_id),
        dry_run=made.dry_run,
        changes=_changes(made.changes),
        refusals=_changes(made.refusals),
        plan_failure=_text(made.plan_failure),
    )


def _changes(done: Sequence[Done]) -> list[curation_pb2.CurationChange]:
    return [
        curation_pb2.CurationChange(
            kind=each.kind.value,
            name=_text(each.name),
            into=_text(each.into),
            reason=_text(each.reason),
        )
        for each in done
    ]


def _wanted(message: curation_pb2.SkillTransition) -> Wanted:
    state = _OF_WIRE.get(message.to)
    if state is None:
        raise InvalidArgument("a transition goes nowhere", fields={"transitions.to": "is not set"})
    known = message.HasField("last_active_time")
    last = message.last_active_time.ToDatetime(UTC) if known else None
    return Wanted(message.name, state, message.why, last)


def _time(moment: datetime | None) -> Timestamp | None:
    return None if moment is None else timestamp(moment)


def _text(text: str) -> str:
    """What a file may hold and the wire may not is replaced."""
    return text.encode(errors="replace").decode()
