"""Curation on the wire."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp

from agent_service.convert.common import timestamp
from agent_service.curation.ages import Ages
from agent_service.curation.changes import Done
from agent_service.curation.curation import Order
from agent_service.curation.reports import Report
from agent_service.curation.shelf import Standing
from hermes.agent.v1 import curation_pb2
from hermes.common.v1 import curation_pb2 as report_pb2
from services.errors import InvalidArgument


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


def order(request: curation_pb2.ApplyCurationRequest) -> Order:
    """What is to be done; InvalidArgument where the ages are none."""
    return Order(
        run_id=request.run_id,
        epoch=request.epoch,
        ages=ages(request.ages),
        plan=request.plan,
        plan_failure=request.plan_failure,
        job_skills=frozenset(request.job_skills),
        dry_run=request.dry_run,
    )


def ages(message: curation_pb2.SkillAges) -> Ages:
    """How old skills become; InvalidArgument where they are none."""
    found = Ages(message.stale_after.ToTimedelta(), message.archive_after.ToTimedelta())
    if not timedelta() < found.stale <= found.archived:
        raise InvalidArgument("the ages are none", fields={"ages": "0 < stale <= archive"})
    return found


def report(made: Report) -> report_pb2.CurationReport:
    """A report on the wire."""
    return report_pb2.CurationReport(
        run_id=_text(made.run_id),
        time=_time(made.moment),
        summary=_text(made.summary),
        path=_text(made.path),
        backup_id=_text(made.backup_id),
        dry_run=made.dry_run,
        changes=_changes(made.changes),
        refusals=_changes(made.refusals),
        plan_failure=_text(made.plan_failure),
        restored_backup_id=_text(made.restored_backup_id),
    )


def _changes(done: Sequence[Done]) -> list[report_pb2.CurationChange]:
    return [
        report_pb2.CurationChange(
            kind=each.kind.value,
            name=_text(each.name),
            into=_text(each.into),
            reason=_text(each.reason),
        )
        for each in done
    ]


def _time(moment: datetime | None) -> Timestamp | None:
    return None if moment is None else timestamp(moment)


def _text(text: str) -> str:
    """What a file may hold and the wire may not is replaced."""
    return text.encode(errors="replace").decode()
