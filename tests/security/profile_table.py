"""For every RPC of every service: how bob may try to reach with it what is ann's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from google.protobuf.message import Message

from hermes.agent.v1 import (
    approval_pb2,
    curation_pb2,
    memory_pb2,
    session_change_pb2,
    session_pb2,
    skill_hub_pb2,
    skill_pb2,
    tool_catalog_pb2,
    turn_pb2,
    usage_pb2,
)
from hermes.agent.v1 import catalog_pb2 as catalog
from hermes.executor.v1 import exec_pb2, file_pb2, sandbox_pb2, workspace_pb2
from hermes.gateway.v1 import conversation_pb2, delivery_pb2
from hermes.scheduler.v1 import curator_pb2, job_file_pb2, job_pb2, run_pb2, schedule_pb2
from tests.curation import plan
from tests.security import profile_requests as requests
from tests.security.households import BOB, CANARY, CANARY_DIGEST, Things

AGENT, EXECUTOR = "/hermes.agent.v1.", "/hermes.executor.v1."
GATEWAY, SCHEDULER = "/hermes.gateway.v1.", "/hermes.scheduler.v1."
Make = Callable[[Things], Message | Sequence[Message]]
"""Requests for bob that name somebody's things."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Answers what is another's as it answers what is not there."""

    make: Make
    also: Sequence[Make] = ()
    """Other requests of which the same is true."""
    apart: Sequence[Make] = ()
    """Requests as of `Apart`."""


@dataclass(frozen=True, slots=True)
class Apart:
    """Does something of bob's own, or lists it; what another has makes no difference to it but that
    an id may be taken."""

    make: Make

    @property
    def apart(self) -> Sequence[Make]:
        """The request."""
        return (self.make,)


@dataclass(frozen=True, slots=True)
class Common:
    """Knows no profiles: what it does is the same for all."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Is about a whole installation, and for operators alone."""


Row = Alike | Apart | Common | Whole

ROWS: Mapping[str, Row] = {
    AGENT + "ApprovalService/ListApprovals": Alike(
        lambda t: approval_pb2.ListApprovalsRequest(profile=BOB, session_id=t.waiting_session)
    ),
    AGENT + "ApprovalService/ResolveApproval": Alike(requests.decision),
    AGENT + "ApprovalService/AnswerClarification": Alike(
        requests.answer,
        also=(
            lambda t: approval_pb2.AnswerClarificationRequest(
                session_id=t.asking_session, profile=BOB, answer="bob's", answered_by="bob"
            ),
        ),
    ),
    AGENT + "CatalogService/ClassifyCommands": Common(),
    AGENT + "CatalogService/ScanTexts": Common(),
    AGENT + "CatalogService/ListPersonalities": Alike(
        lambda t: catalog.ListPersonalitiesRequest(profile=BOB, session_id=t.session)
    ),
    AGENT + "HomeService/ExportHome": Whole(),
    AGENT + "HomeService/ImportHome": Whole(),
    AGENT + "MemoryService/GetMemory": Apart(lambda _: memory_pb2.GetMemoryRequest(profile=BOB)),
    AGENT + "MemoryService/ApplyMemory": Apart(requests.memory),
    AGENT + "MemoryService/ListMemoryChanges": Apart(
        lambda _: memory_pb2.ListMemoryChangesRequest(profile=BOB)
    ),
    AGENT + "MemoryService/UndoMemoryChange": Alike(
        lambda t: memory_pb2.UndoMemoryChangeRequest(profile=BOB, change_id=t.change)
    ),
    AGENT + "ModelCatalogService/ListModels": Common(),
    AGENT + "ModelCatalogService/RefreshModels": Common(),
    AGENT + "SessionService/GetSession": Alike(
        lambda t: session_pb2.GetSessionRequest(profile=BOB, session_id=t.session)
    ),
    AGENT + "SessionService/ListSessions": Apart(
        lambda _: session_pb2.ListSessionsRequest(profile=BOB)
    ),
    AGENT + "SessionService/ListMessages": Alike(
        lambda t: session_pb2.ListMessagesRequest(profile=BOB, session_id=t.session)
    ),
    AGENT + "SessionService/SearchMessages": Alike(
        lambda t: session_pb2.SearchMessagesRequest(profile=BOB, session_id=t.session, query=CANARY)
    ),
    AGENT + "SessionService/RenameSession": Alike(
        lambda t: session_pb2.RenameSessionRequest(profile=BOB, session_id=t.session, title="x")
    ),
    AGENT + "SessionService/BranchSession": Alike(
        lambda t: session_pb2.BranchSessionRequest(
            profile=BOB, session_id=t.session, new_session_id="branch-of-bob"
        )
    ),
    AGENT + "SessionService/UndoTurns": Alike(
        lambda t: session_change_pb2.UndoTurnsRequest(profile=BOB, session_id=t.session)
    ),
    AGENT + "SessionService/SetPersonality": Apart(
        lambda t: session_change_pb2.SetPersonalityRequest(
            profile=BOB, session_id=t.session, name="pirate"
        )
    ),
    AGENT + "SessionService/SetSessionModel": Apart(
        lambda t: session_change_pb2.SetSessionModelRequest(
            profile=BOB, session_id=t.session, model="other"
        )
    ),
    AGENT + "SessionService/DeleteSession": Alike(
        lambda t: session_change_pb2.DeleteSessionRequest(profile=BOB, session_id=t.session)
    ),
    AGENT + "SessionService/PruneSessions": Apart(
        lambda _: session_change_pb2.PruneSessionsRequest(profile=BOB)
    ),
    AGENT + "SessionService/ExportSession": Alike(
        lambda t: session_change_pb2.ExportSessionRequest(profile=BOB, session_id=t.session)
    ),
    AGENT + "SessionService/ImportSession": Apart(
        lambda t: [
            session_change_pb2.ImportSessionRequest(
                profile=BOB,
                session_id=t.session,
                data=b'{"messages": [{"role": "user", "content": "hi"}]}',
            )
        ]
    ),
    AGENT + "CurationService/ListCurations": Apart(
        lambda _: curation_pb2.ListCurationsRequest(profile=BOB)
    ),
    AGENT + "CurationService/UpdateCuration": Apart(
        lambda _: curation_pb2.UpdateCurationRequest(profile=BOB, is_paused=True)
    ),
    AGENT + "CurationService/PlanConsolidation": Apart(
        lambda _: curation_pb2.PlanConsolidationRequest(profile=BOB, ages=requests.AGES)
    ),
    AGENT + "CurationService/ApplyCuration": Apart(
        lambda t: curation_pb2.ApplyCurationRequest(
            profile=BOB,
            run_id=t.request,
            ages=requests.AGES,
            plan=plan(prunings=(t.skill,)),
            epoch=1,
        )
    ),
    AGENT + "CurationService/RestoreSkills": Alike(
        lambda _: curation_pb2.RestoreSkillsRequest(
            profile=BOB, run_id="run-of-bob", backup_id="20260101-000000"
        )
    ),
    AGENT + "CurationService/ListCurationReports": Apart(
        lambda _: curation_pb2.ListCurationReportsRequest(profile=BOB)
    ),
    AGENT + "SkillService/ListSkills": Apart(lambda _: skill_pb2.ListSkillsRequest(profile=BOB)),
    AGENT + "SkillService/GetSkill": Alike(
        lambda t: skill_pb2.GetSkillRequest(profile=BOB, name=t.skill)
    ),
    AGENT + "SkillService/PinSkill": Alike(
        lambda t: skill_pb2.PinSkillRequest(profile=BOB, name=t.skill, is_pinned=True)
    ),
    AGENT + "SkillService/ArchiveSkill": Alike(
        lambda t: skill_pb2.ArchiveSkillRequest(profile=BOB, name=t.skill)
    ),
    AGENT + "SkillService/RestoreSkill": Alike(
        lambda t: skill_pb2.RestoreSkillRequest(profile=BOB, name=t.skill)
    ),
    AGENT + "SkillHubService/SearchHub": Apart(
        lambda _: skill_hub_pb2.SearchHubRequest(profile=BOB, source="/nowhere")
    ),
    AGENT + "SkillHubService/InstallSkills": Apart(
        lambda t: skill_hub_pb2.InstallSkillsRequest(
            profile=BOB, source="/nowhere", names=[t.skill]
        )
    ),
    AGENT + "SkillHubService/UpdateSkills": Alike(
        lambda t: skill_hub_pb2.UpdateSkillsRequest(profile=BOB, names=[t.skill])
    ),
    AGENT + "SkillHubService/RemoveSkill": Alike(
        lambda t: skill_hub_pb2.RemoveSkillRequest(profile=BOB, name=t.skill)
    ),
    AGENT + "SkillHubService/AuditSkills": Alike(
        lambda t: skill_hub_pb2.AuditSkillsRequest(profile=BOB, names=[t.skill])
    ),
    AGENT + "SkillHubService/ExportSkills": Alike(
        lambda t: skill_hub_pb2.ExportSkillsRequest(profile=BOB, names=[t.skill])
    ),
    AGENT + "ToolCatalogService/ListTools": Apart(
        lambda _: tool_catalog_pb2.ListToolsRequest(profile=BOB)
    ),
    AGENT + "TurnService/StartTurn": Apart(requests.turn),
    AGENT + "TurnService/WatchTurn": Alike(
        lambda t: turn_pb2.WatchTurnRequest(profile=BOB, turn_id=t.turn)
    ),
    AGENT + "TurnService/GetTurn": Alike(
        lambda t: turn_pb2.GetTurnRequest(profile=BOB, turn_id=t.turn)
    ),
    AGENT + "TurnService/InterruptTurn": Alike(
        lambda t: turn_pb2.InterruptTurnRequest(profile=BOB, session_id=t.waiting_session),
        also=(lambda t: turn_pb2.InterruptTurnRequest(profile=BOB, turn_id=t.waiting_turn),),
    ),
    AGENT + "UsageService/GetUsage": Alike(
        lambda t: usage_pb2.GetUsageRequest(profile=BOB, session_id=t.session)
    ),
    AGENT + "UsageService/GetBudget": Alike(
        lambda t: usage_pb2.GetBudgetRequest(profile=BOB, session_id=t.session, job_id=t.job)
    ),
    AGENT + "UsageService/SetBudget": Apart(requests.budget),
    EXECUTOR + "ExecService/StartExec": Alike(requests.start),
    EXECUTOR + "ExecService/AttachExec": Alike(requests.attach),
    EXECUTOR + "ExecService/GetExec": Alike(
        lambda t: exec_pb2.GetExecRequest(lease=t.lease, profile=BOB, exec_id=t.exec)
    ),
    EXECUTOR + "ExecService/WaitExec": Alike(
        lambda t: exec_pb2.WaitExecRequest(lease=t.lease, profile=BOB, exec_id=t.exec)
    ),
    EXECUTOR + "ExecService/SignalExec": Alike(
        lambda t: exec_pb2.SignalExecRequest(lease=t.lease, profile=BOB, exec_id=t.exec)
    ),
    EXECUTOR + "ExecService/ListExecs": Alike(
        lambda t: exec_pb2.ListExecsRequest(lease=t.lease, profile=BOB)
    ),
    EXECUTOR + "ExecService/ReadExecOutput": Alike(
        lambda t: exec_pb2.ReadExecOutputRequest(
            lease=t.lease, profile=BOB, exec_id=t.exec, stream=exec_pb2.OUTPUT_STREAM_STDOUT
        )
    ),
    EXECUTOR + "FileService/UploadFile": Alike(requests.upload),
    EXECUTOR + "FileService/UploadArchive": Alike(requests.archive),
    EXECUTOR + "FileService/DownloadFile": Alike(
        lambda t: file_pb2.DownloadFileRequest(lease=t.lease, profile=BOB, path="/workspace/note")
    ),
    EXECUTOR + "FileService/StatPath": Alike(
        lambda t: file_pb2.StatPathRequest(lease=t.lease, profile=BOB, path="/workspace/note")
    ),
    EXECUTOR + "FileService/ListDirectory": Alike(
        lambda t: file_pb2.ListDirectoryRequest(lease=t.lease, profile=BOB, path="/workspace")
    ),
    EXECUTOR + "FileService/MovePath": Alike(
        lambda t: file_pb2.MovePathRequest(
            lease=t.lease, profile=BOB, source_path="/workspace/note", target_path="/workspace/x"
        )
    ),
    EXECUTOR + "FileService/RemovePath": Alike(
        lambda t: file_pb2.RemovePathRequest(lease=t.lease, profile=BOB, path="/workspace/note")
    ),
    EXECUTOR + "PoolService/GetPoolStats": Whole(),
    EXECUTOR + "PoolService/ResizePool": Whole(),
    EXECUTOR + "PoolService/Drain": Whole(),
    EXECUTOR + "PoolService/Undrain": Whole(),
    EXECUTOR + "PoolService/ListOrphans": Whole(),
    EXECUTOR + "PoolService/Reap": Whole(),
    EXECUTOR + "SandboxService/GetCapabilities": Common(),
    EXECUTOR + "SandboxService/AcquireSandbox": Alike(
        requests.sandbox, apart=(requests.sandbox_again,)
    ),
    EXECUTOR + "SandboxService/RenewLease": Alike(
        lambda t: sandbox_pb2.RenewLeaseRequest(lease=t.lease, profile=BOB)
    ),
    EXECUTOR + "SandboxService/ReleaseSandbox": Alike(
        lambda t: sandbox_pb2.ReleaseSandboxRequest(lease=t.lease, profile=BOB)
    ),
    EXECUTOR + "SandboxService/GetSandbox": Alike(
        lambda t: sandbox_pb2.GetSandboxRequest(sandbox_id=t.lease_id, profile=BOB)
    ),
    EXECUTOR + "SandboxService/SetNetworkPolicy": Alike(
        lambda t: sandbox_pb2.SetNetworkPolicyRequest(lease=t.lease, profile=BOB)
    ),
    EXECUTOR + "SandboxService/ListSandboxes": Apart(
        lambda _: sandbox_pb2.ListSandboxesRequest(profile=BOB)
    ),
    EXECUTOR + "WorkspaceService/CreateWorkspace": Apart(
        lambda t: workspace_pb2.CreateWorkspaceRequest(request_id=t.request, profile=BOB)
    ),
    EXECUTOR + "WorkspaceService/GetWorkspace": Alike(
        lambda t: workspace_pb2.GetWorkspaceRequest(workspace_id=t.workspace, profile=BOB)
    ),
    EXECUTOR + "WorkspaceService/ListWorkspaces": Apart(
        lambda _: workspace_pb2.ListWorkspacesRequest(profile=BOB)
    ),
    EXECUTOR + "WorkspaceService/DeleteWorkspace": Alike(
        lambda t: workspace_pb2.DeleteWorkspaceRequest(workspace_id=t.workspace, profile=BOB)
    ),
    EXECUTOR + "WorkspaceService/ForkWorkspace": Alike(
        lambda t: workspace_pb2.ForkWorkspaceRequest(
            request_id=f"bob-{t.request}", profile=BOB, source_id=t.workspace
        )
    ),
    EXECUTOR + "WorkspaceService/CreateSnapshot": Alike(
        lambda t: workspace_pb2.CreateSnapshotRequest(
            request_id=f"bob-{t.request}", profile=BOB, workspace_id=t.workspace
        )
    ),
    EXECUTOR + "WorkspaceService/ListSnapshots": Alike(
        lambda t: workspace_pb2.ListSnapshotsRequest(profile=BOB, workspace_id=t.workspace)
    ),
    EXECUTOR + "WorkspaceService/DeleteSnapshot": Alike(
        lambda t: workspace_pb2.DeleteSnapshotRequest(snapshot_id=t.snapshot, profile=BOB)
    ),
    GATEWAY + "ConversationService/ListCommands": Apart(
        lambda _: conversation_pb2.ListCommandsRequest(profile=BOB)
    ),
    GATEWAY + "ConversationService/Converse": Alike(
        requests.converse,
        also=(requests.converse_deciding, requests.converse_answering, requests.converse_watching),
        apart=(requests.converse_repeating,),
    ),
    GATEWAY + "DeliveryService/Deliver": Apart(requests.delivery),
    GATEWAY + "DeliveryService/GetDelivery": Alike(
        lambda t: delivery_pb2.GetDeliveryRequest(profile=BOB, delivery_id=t.delivery)
    ),
    GATEWAY + "DeliveryService/UploadAttachment": Apart(requests.attachment),
    GATEWAY + "DeliveryService/DownloadAttachment": Alike(
        lambda t: delivery_pb2.DownloadAttachmentRequest(
            profile=BOB, delivery_id=t.delivery, sha256=CANARY_DIGEST
        )
    ),
    SCHEDULER + "CuratorService/GetCurator": Apart(
        lambda _: curator_pb2.GetCuratorRequest(profile=BOB)
    ),
    SCHEDULER + "CuratorService/RunCurator": Apart(
        lambda _: curator_pb2.RunCuratorRequest(profile=BOB, run_id="run-of-bob")
    ),
    SCHEDULER + "CuratorService/PauseCurator": Apart(
        lambda _: curator_pb2.PauseCuratorRequest(profile=BOB)
    ),
    SCHEDULER + "CuratorService/ResumeCurator": Apart(
        lambda _: curator_pb2.ResumeCuratorRequest(profile=BOB)
    ),
    SCHEDULER + "CuratorService/ListReports": Apart(
        lambda _: curator_pb2.ListReportsRequest(profile=BOB)
    ),
    SCHEDULER + "CuratorService/RollBack": Alike(
        lambda _: curator_pb2.RollBackRequest(
            profile=BOB, run_id="run-of-bob", backup_id="20260101-000000"
        )
    ),
    SCHEDULER + "JobService/CreateJob": Apart(requests.job),
    SCHEDULER + "JobService/GetJob": Alike(
        lambda t: job_pb2.GetJobRequest(profile=BOB, job_id=t.job)
    ),
    SCHEDULER + "JobService/ListJobs": Apart(lambda _: job_pb2.ListJobsRequest(profile=BOB)),
    SCHEDULER + "JobService/DeleteJob": Alike(
        lambda t: job_pb2.DeleteJobRequest(profile=BOB, job_id=t.job)
    ),
    SCHEDULER + "JobService/ListRuns": Alike(
        lambda t: run_pb2.ListRunsRequest(profile=BOB, job_id=t.job)
    ),
    SCHEDULER + "JobService/UpdateJob": Alike(requests.job_change),
    SCHEDULER + "JobService/PauseJob": Alike(
        lambda t: job_pb2.PauseJobRequest(profile=BOB, job_id=t.job)
    ),
    SCHEDULER + "JobService/ResumeJob": Alike(
        lambda t: job_pb2.ResumeJobRequest(profile=BOB, job_id=t.job)
    ),
    SCHEDULER + "JobService/RunJob": Alike(
        lambda t: run_pb2.RunJobRequest(profile=BOB, job_id=t.job, run_id="run-of-bob")
    ),
    SCHEDULER + "JobService/GetRun": Alike(
        lambda t: run_pb2.GetRunRequest(profile=BOB, run_id=t.run)
    ),
    SCHEDULER + "JobService/WatchRun": Alike(
        lambda t: run_pb2.WatchRunRequest(profile=BOB, run_id=t.run)
    ),
    SCHEDULER + "JobService/PreviewSchedule": Apart(
        lambda _: schedule_pb2.PreviewScheduleRequest(profile=BOB, schedule="0 9 * * *")
    ),
    SCHEDULER + "JobService/ImportJobs": Apart(requests.job_file),
    SCHEDULER + "JobService/ExportJobs": Apart(
        lambda _: job_file_pb2.ExportJobsRequest(profile=BOB)
    ),
}
