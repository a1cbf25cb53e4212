"""The curator's messages to who asks."""

from typing import Any

from hermes.common.v1 import curation_pb2
from hermes.scheduler.v1 import curator_pb2
from scheduler_service.curator.desk import Standing
from scheduler_service.jobs import Run
from scheduler_service.storage import curation as stored
from services.messages import message_of


def standing_to_wire(standing: Standing) -> curator_pb2.Curator:
    """Return the message of how the curator stands."""
    found, latest = standing.curation, standing.latest_run
    values: dict[str, Any] = {
        "is_enabled": standing.is_enabled,
        "is_paused": found.is_paused,
        "last_run_time": found.last_run_time,
        "next_run_time": standing.next_run_at,
        "run_count": found.run_count,
        "last_summary": found.last_summary,
        "last_report_path": found.last_report_path,
        "latest_run": None if latest is None else run_to_wire(latest),
        "backup_ids": found.backup_ids,
    }
    return curator_pb2.Curator(**values)


def run_to_wire(run: Run) -> curator_pb2.CuratorRun:
    """Return the message of a run."""
    report = stored.report_of(run.output) if run.finished_at else None
    values: dict[str, Any] = {
        "run_id": run.id,
        "dry_run": run.dry_run,
        "create_time": run.claimed_at,
        "finish_time": run.finished_at,
        "error": run.error,
        "report": None if report is None else message_of(report, curation_pb2.CurationReport),
    }
    return curator_pb2.CuratorRun(**values)
