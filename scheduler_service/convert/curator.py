"""The curator's messages, to the agent and to who asks."""

from collections.abc import Iterable
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from hermes.agent.v1 import curation_pb2, skill_pb2
from hermes.scheduler.v1 import curator_pb2
from scheduler_service.convert.common import timestamp_to_wire
from scheduler_service.curator_desk import Standing
from scheduler_service.curator_records import Curation, CuratorRun, Done, Order, Report, RunState
from scheduler_service.transitions import SkillState, SkillUse

_STATES = {
    SkillState.ACTIVE: skill_pb2.SKILL_STATE_ACTIVE,
    SkillState.STALE: skill_pb2.SKILL_STATE_STALE,
    SkillState.ARCHIVED: skill_pb2.SKILL_STATE_ARCHIVED,
}
_STATE_OF = {number: state for state, number in _STATES.items()}
_RUN_STATES = {
    RunState.OPEN: curator_pb2.CURATOR_RUN_STATE_OPEN,
    RunState.SUCCEEDED: curator_pb2.CURATOR_RUN_STATE_SUCCEEDED,
    RunState.FAILED: curator_pb2.CURATOR_RUN_STATE_FAILED,
}


def curation_of(message: curation_pb2.Curation) -> Curation:
    """Read how curation stands."""
    return Curation(
        profile=message.profile,
        is_paused=message.is_paused,
        last_run_at=_time(message, "last_run_time"),
        run_count=message.run_count,
        last_summary=message.last_summary,
        last_report_path=message.last_report_path,
        idle_since=_time(message, "idle_since"),
        is_busy=message.is_busy,
        backup_ids=tuple(message.backup_ids),
        epoch=message.epoch,
    )


def use_of(message: curation_pb2.UsedSkill) -> SkillUse:
    """Read a skill with its use."""
    return SkillUse(
        name=message.name,
        state=_STATE_OF.get(message.state, SkillState.ACTIVE),
        is_protected=message.is_protected,
        created_at=_time(message, "create_time"),
        last_active_at=_time(message, "last_active_time"),
    )


def order_to_wire(order: Order) -> curation_pb2.ApplyCurationRequest:
    """Return the message of what is to be done."""
    run = order.run
    return curation_pb2.ApplyCurationRequest(
        profile=run.profile,
        run_id=run.id,
        epoch=order.epoch,
        transitions=[
            curation_pb2.SkillTransition(
                name=each.name,
                to=_STATES[each.to],
                why=each.why,
                last_active_time=timestamp_to_wire(order.last_active_at[each.name]),
            )
            for each in order.transitions
        ],
        plan=run.plan or "",
        plan_failure=run.plan_failure,
        job_skills=sorted(order.of_jobs),
        dry_run=run.dry_run,
    )


def report_of(message: curation_pb2.CurationReport) -> Report:
    """Read a report."""
    return Report(
        run_id=message.run_id,
        time=_time(message, "time"),
        summary=message.summary,
        path=message.path,
        backup_id=message.backup_id,
        dry_run=message.dry_run,
        changes=_done(message.changes),
        refusals=_done(message.refusals),
        plan_failure=message.plan_failure,
    )


def standing_to_wire(standing: Standing) -> curator_pb2.Curator:
    """Return the message of how the curator stands."""
    curation, latest = standing.curation, standing.latest_run
    return curator_pb2.Curator(
        is_enabled=standing.is_enabled,
        is_paused=curation.is_paused,
        last_run_time=timestamp_to_wire(curation.last_run_at),
        next_run_time=timestamp_to_wire(standing.next_run_at),
        run_count=curation.run_count,
        last_summary=curation.last_summary,
        last_report_path=curation.last_report_path,
        latest_run=None if latest is None else run_to_wire(latest),
        backup_ids=curation.backup_ids,
    )


def run_to_wire(run: CuratorRun) -> curator_pb2.CuratorRun:
    """Return the message of a run."""
    return curator_pb2.CuratorRun(
        run_id=run.id,
        state=_RUN_STATES[run.state],
        dry_run=run.dry_run,
        create_time=timestamp_to_wire(run.created_at),
        finish_time=timestamp_to_wire(run.finished_at),
        error=run.error,
        report=None if run.report is None else report_to_wire(run.report),
    )


def report_to_wire(report: Report) -> curator_pb2.CuratorReport:
    """Return the message of a report."""
    return curator_pb2.CuratorReport(
        run_id=report.run_id,
        time=timestamp_to_wire(report.time),
        summary=report.summary,
        path=report.path,
        backup_id=report.backup_id,
        dry_run=report.dry_run,
        changes=_changes(report.changes),
        refusals=_changes(report.refusals),
        plan_failure=report.plan_failure,
    )


def _changes(done: Iterable[Done]) -> list[curator_pb2.CuratorChange]:
    return [
        curator_pb2.CuratorChange(
            kind=each.kind, name=each.name, into=each.into, reason=each.reason
        )
        for each in done
    ]


def _done(changes: Iterable[curation_pb2.CurationChange]) -> tuple[Done, ...]:
    return tuple(Done(each.kind, each.name, each.into, each.reason) for each in changes)


def _time(
    message: curation_pb2.Curation | curation_pb2.UsedSkill | curation_pb2.CurationReport,
    field: str,
) -> datetime | None:
    moment: Timestamp = getattr(message, field)
    # Where it is not set, it is the beginning of 1970, when there was no agent.
    return moment.ToDatetime(UTC) if moment.ByteSize() else None
