"""The curator's messages, to the agent and to who asks."""

from datetime import UTC, datetime

import msgspec
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.timestamp_pb2 import Timestamp

from hermes.agent.v1 import curation_pb2
from hermes.common.v1 import curation_pb2 as report_pb2
from hermes.scheduler.v1 import curator_pb2
from scheduler_service.convert.common import timestamp_to_wire
from scheduler_service.curation import Curation, Report
from scheduler_service.curator.desk import Standing
from scheduler_service.jobs import OPEN_STATES, Run, RunState
from scheduler_service.storage import curation as stored


def curation_of(message: curation_pb2.Curation) -> Curation:
    """Read how curation stands."""
    return Curation(
        profile=message.profile,
        is_paused=message.is_paused,
        last_run_at=_time(message.last_run_time),
        run_count=message.run_count,
        last_summary=message.last_summary,
        last_report_path=message.last_report_path,
        idle_since=_time(message.idle_since),
        is_busy=message.is_busy,
        backup_ids=tuple(message.backup_ids),
        epoch=message.epoch,
    )


def report_of(message: report_pb2.CurationReport) -> Report:
    """Read a report, whose fields are called the same."""
    return msgspec.convert(MessageToDict(message, preserving_proto_field_name=True), Report)


def report_to_wire(report: Report) -> report_pb2.CurationReport:
    """Return the message of a report."""
    return ParseDict(msgspec.to_builtins(report), report_pb2.CurationReport())


def standing_to_wire(standing: Standing) -> curator_pb2.Curator:
    """Return the message of how the curator stands."""
    found, latest = standing.curation, standing.latest_run
    return curator_pb2.Curator(
        is_enabled=standing.is_enabled,
        is_paused=found.is_paused,
        last_run_time=timestamp_to_wire(found.last_run_at),
        next_run_time=timestamp_to_wire(standing.next_run_at),
        run_count=found.run_count,
        last_summary=found.last_summary,
        last_report_path=found.last_report_path,
        latest_run=None if latest is None else run_to_wire(latest),
        backup_ids=found.backup_ids,
    )


def run_to_wire(run: Run) -> curator_pb2.CuratorRun:
    """Return the message of a run."""
    state, report = curator_pb2.CURATOR_RUN_STATE_OPEN, None
    if run.state not in OPEN_STATES:
        is_done = run.state is RunState.SUCCEEDED
        state = (
            curator_pb2.CURATOR_RUN_STATE_SUCCEEDED
            if is_done
            else curator_pb2.CURATOR_RUN_STATE_FAILED
        )
        report = stored.report_of(run.output)
    return curator_pb2.CuratorRun(
        run_id=run.id,
        state=state,
        dry_run=run.dry_run,
        create_time=timestamp_to_wire(run.claimed_at),
        finish_time=timestamp_to_wire(run.finished_at),
        error=run.error,
        report=None if report is None else report_to_wire(report),
    )


def _time(moment: Timestamp) -> datetime | None:
    # Where it is not set, it is the beginning of 1970, when there was no agent.
    return moment.ToDatetime(UTC) if moment.ByteSize() else None
