"""The scheduler's curator."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property

from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import Struct

from gateway_service.clients.calls import SCHEDULER_S, ChannelOf, of_scheduler
from hermes.common.v1 import curation_pb2
from hermes.scheduler.v1 import curator_pb2, curator_pb2_grpc

ROLL_BACK_S = 120.0
"""How long a library may take to be restored."""


class CuratorReport(Struct, frozen=True):
    """What came of a run."""

    made_at: datetime | None
    summary: str
    path: str
    backup_id: str
    is_dry_run: bool
    changes: tuple[str, ...]


class CuratorRun(Struct, frozen=True):
    """A run as it is."""

    is_over: bool
    error: str
    report: CuratorReport | None


class CuratorInfo(Struct, frozen=True):
    """How the curator stands in a profile."""

    is_enabled: bool
    is_paused: bool
    run_count: int
    last_run_at: datetime | None
    next_run_at: datetime | None
    last_summary: str
    last_report_path: str
    backup_ids: tuple[str, ...]
    is_running: bool
    error: str


class CuratorsClient:
    """Reads and steers the curator."""

    def __init__(self, channel_of: ChannelOf) -> None:
        self._channel_of = channel_of

    @cached_property
    def _stub(self) -> curator_pb2_grpc.CuratorServiceStub:
        return curator_pb2_grpc.CuratorServiceStub(self._channel_of("scheduler"))

    async def get(self, profile: str) -> CuratorInfo:
        """How it stands."""
        request = curator_pb2.GetCuratorRequest(profile=profile)
        found = await of_scheduler(self._stub.GetCurator(request, timeout=SCHEDULER_S))
        return _info(found.curator)

    async def pause(self, profile: str) -> CuratorInfo:
        """Let it begin by itself no more."""
        request = curator_pb2.PauseCuratorRequest(profile=profile)
        found = await of_scheduler(self._stub.PauseCurator(request, timeout=SCHEDULER_S))
        return _info(found.curator)

    async def resume(self, profile: str) -> CuratorInfo:
        """Let it begin by itself again."""
        request = curator_pb2.ResumeCuratorRequest(profile=profile)
        found = await of_scheduler(self._stub.ResumeCurator(request, timeout=SCHEDULER_S))
        return _info(found.curator)

    async def run(self, profile: str, run_id: str, *, is_dry: bool) -> CuratorRun:
        """Begin a run, or look at the one of this id."""
        request = curator_pb2.RunCuratorRequest(profile=profile, run_id=run_id, dry_run=is_dry)
        found = (await of_scheduler(self._stub.RunCurator(request, timeout=SCHEDULER_S))).run
        return CuratorRun(
            is_over=found.state != curator_pb2.CURATOR_RUN_STATE_OPEN,
            error=found.error,
            report=_report(found.report) if found.HasField("report") else None,
        )

    async def roll_back(self, profile: str, run_id: str, backup_id: str) -> CuratorReport:
        """Give the library what it was before a run; again is the same."""
        request = curator_pb2.RollBackRequest(profile=profile, run_id=run_id, backup_id=backup_id)
        found = await of_scheduler(self._stub.RollBack(request, timeout=ROLL_BACK_S))
        return _report(found.report)

    async def reports(self, profile: str, most: int) -> Sequence[CuratorReport]:
        """What came of its runs, the latest first."""
        request = curator_pb2.ListReportsRequest(profile=profile, page_size=most)
        found = await of_scheduler(self._stub.ListReports(request, timeout=SCHEDULER_S))
        return [_report(report) for report in found.reports]


def _info(found: curator_pb2.Curator) -> CuratorInfo:
    latest = found.latest_run
    return CuratorInfo(
        is_enabled=found.is_enabled,
        is_paused=found.is_paused,
        run_count=found.run_count,
        last_run_at=_moment(found.last_run_time),
        next_run_at=_moment(found.next_run_time),
        last_summary=found.last_summary,
        last_report_path=found.last_report_path,
        backup_ids=tuple(found.backup_ids),
        is_running=latest.state == curator_pb2.CURATOR_RUN_STATE_OPEN,
        error=latest.error,
    )


def _report(found: curation_pb2.CurationReport) -> CuratorReport:
    return CuratorReport(
        made_at=_moment(found.time),
        summary=found.summary,
        path=found.path,
        backup_id=found.backup_id,
        is_dry_run=found.dry_run,
        changes=tuple(
            f"{change.name}: {change.kind}{f' into {change.into}' if change.into else ''}"
            for change in found.changes
        ),
    )


def _moment(time: Timestamp) -> datetime | None:
    return time.ToDatetime(UTC) if time.seconds else None
