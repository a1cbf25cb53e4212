"""For every RPC of every service: how bob may try to reach with it what is ann's.

Each case is the messages of one call, as JSON. A field that is named like one of somebody's things
has its id unless it is given; `$` and a name stand for an id in another field.
"""

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from tests.security.households import CANARY, CANARY_DIGEST, Fields
from tests.support.curation import plan


class Kind(Enum):
    """What bob is to find."""

    ALIKE = "answers what is another's as it answers what is not there"
    APART = "does or lists something of bob's; what another has only makes an id be taken"
    COMMON = "knows no profiles: what it does is the same for all"
    WHOLE = "is about a whole installation, and for operators alone"


Case = tuple[Kind, str, Sequence[Fields]]
"""A kind, the RPC, and the messages of a call."""

_PLAIN: Mapping[Kind, Mapping[str, str]] = {
    Kind.WHOLE: {
        "agent.HomeService": "ExportHome ImportHome",
        "executor.PoolService": "GetPoolStats ResizePool Drain Undrain",
        "gateway.PlatformService": "ListPlatforms",
    },
    Kind.COMMON: {
        "agent.CatalogService": "ClassifyCommands ScanTexts",
        "agent.ModelCatalogService": "ListModels RefreshModels",
        "agent.UploadService": "UploadFile",
        "executor.SandboxService": "GetCapabilities",
    },
    Kind.ALIKE: {
        "agent.CatalogService": "ListPersonalities",
        "agent.McpService": "TestMcpServer",
        "agent.MemoryService": "EndSession UndoMemoryChange",
        "agent.SessionService": (
            "GetSession ListMessages UndoTurns DeleteSession ExportSession ReleaseSandbox"
        ),
        "agent.TurnService": "WatchTurn GetTurn",
        "agent.UsageService": "GetUsage GetBudget",
        "executor.ExecService": "WaitExec SignalExec ListExecs",
        "executor.SandboxService": "RenewLease ReleaseSandbox GetSandbox",
        "executor.WorkspaceService": "DeleteWorkspace ListSnapshots DeleteSnapshot",
        "gateway.DeliveryService": "GetDelivery",
        "scheduler.BatchService": (
            "GetBatch WatchBatch StopBatch ResumeBatch DeleteBatch ListItems"
        ),
        "scheduler.JobService": "GetJob DeleteJob ListRuns PauseJob ResumeJob GetRun WatchRun",
    },
    Kind.APART: {
        "agent.CurationService": "ListCurations ListCurationReports",
        "agent.McpService": "ListMcpServers",
        "agent.MemoryService": "GetMemory GetMemoryProvider ListMemoryChanges",
        "agent.SessionService": "ListSessions PruneSessions",
        "agent.SkillService": "ListSkills",
        "agent.ToolCatalogService": "ListTools",
        "executor.SandboxService": "ListSandboxes",
        "executor.WorkspaceService": "ListWorkspaces",
        "gateway.ConversationService": "ListCommands",
        "gateway.DirectoryService": "ListChannels",
        "gateway.PairingService": "ListPairings",
        "scheduler.BatchService": "ListBatches",
        "scheduler.CuratorService": "GetCurator PauseCurator ResumeCurator ListReports",
        "scheduler.JobService": "ListJobs ExportJobs",
    },
}
"""RPCs whose request has nothing but a profile and ids."""


def _bytes(data: bytes) -> str:
    return b64encode(data).decode()


_X = _bytes(hashlib.sha256(b"x").digest())
_JOBS = b'[{"id": "of-bob", "prompt": "hi", "schedule": "every 24 hours"}]'
_SESSION = b'{"messages": [{"role": "user", "content": "hi"}]}'
_AGES = {"stale_after": "86400s", "archive_after": "86400s"}
_SKILL, _SKILLS = {"name": "$skill"}, {"names": ["$skill"]}
_ROLL_BACK = {"run_id": "run-of-bob", "backup_id": "20260101-000000"}
_NOTE, _RUN = {"path": "/workspace/note"}, {"run_id": "run-of-bob"}

_ALIKE: Sequence[tuple[str, *tuple[dict[str, Any], ...]]] = (
    ("agent.ApprovalService/ListApprovals", {"session_id": "$waiting_session"}),
    (
        "agent.ApprovalService/ResolveApproval",
        {"decision": "APPROVAL_DECISION_ALWAYS", "decided_by": "bob"},
    ),
    (
        "agent.ApprovalService/AnswerClarification",
        {"session_id": None, "answer": "bob's", "answered_by": "bob"},
    ),
    (
        "agent.ApprovalService/AnswerClarification",
        {
            "session_id": "$asking_session",
            "clarification_id": None,
            "answer": "bob's",
            "answered_by": "bob",
        },
    ),
    ("agent.SessionService/SearchMessages", {"query": CANARY}),
    ("agent.TrajectoryService/ExportTrajectories", {"turn_ids": ["$turn_id"]}),
    ("agent.SessionService/RenameSession", {"title": "x"}),
    ("agent.SessionService/BranchSession", {"new_session_id": "branch-of-bob"}),
    ("agent.CurationService/RestoreSkills", _ROLL_BACK),
    ("agent.SkillService/GetSkill", _SKILL),
    ("agent.SkillService/PinSkill", {**_SKILL, "is_pinned": True}),
    ("agent.SkillService/ArchiveSkill", _SKILL),
    ("agent.SkillService/RestoreSkill", _SKILL),
    ("agent.SkillHubService/UpdateSkills", _SKILLS),
    ("agent.SkillHubService/RemoveSkill", _SKILL),
    ("agent.SkillHubService/AuditSkills", _SKILLS),
    ("agent.SkillHubService/ExportSkills", _SKILLS),
    ("agent.TurnService/InterruptTurn", {"session_id": "$waiting_session", "turn_id": None}),
    ("agent.TurnService/InterruptTurn", {"session_id": None, "turn_id": "$waiting_turn"}),
    ("executor.ExecService/StartExec", {"exec_id": "exec-of-bob", "argv": {"arguments": ["id"]}}),
    ("executor.ExecService/AttachExec", {"open": {}}),
    ("executor.ExecService/ReadExecOutput", {"stream": "OUTPUT_STREAM_STDOUT"}),
    (
        "executor.FileService/UploadFile",
        {"header": {**_NOTE, "length_bytes": 1, "sha256": _X}},
        {"chunk": _bytes(b"x")},
    ),
    ("executor.FileService/DownloadFile", _NOTE),
    ("executor.FileService/StatPath", _NOTE),
    ("executor.FileService/ListDirectory", {"path": "/workspace"}),
    (
        "executor.FileService/MovePath",
        {"source_path": "/workspace/note", "target_path": "/workspace/x"},
    ),
    ("executor.FileService/RemovePath", _NOTE),
    ("executor.SandboxService/AcquireSandbox", {"request_id": "$request"}),
    (
        "executor.WorkspaceService/ForkWorkspace",
        {"request_id": "bob-$request", "source_id": "$workspace_id"},
    ),
    ("executor.WorkspaceService/CreateSnapshot", {"request_id": "bob-$request"}),
    ("gateway.ConversationService/Converse", {"open": {}}),
    (
        "gateway.ConversationService/Converse",
        {"open": {"session_id": None}},
        {"approval_answer": {"decision": "APPROVAL_DECISION_ONCE"}},
    ),
    (
        "gateway.ConversationService/Converse",
        {"open": {"session_id": None}},
        {"clarification_answer": {"answer": "bob's"}},
    ),
    (
        "gateway.ConversationService/Converse",
        {"open": {"session_id": None, "watched_turns": [{"turn_id": "$turn_id"}]}},
    ),
    ("gateway.DeliveryService/DownloadAttachment", {"sha256": _bytes(CANARY_DIGEST)}),
    ("gateway.PairingService/ApprovePairing", {"code": "ABCD2345"}),
    ("gateway.PairingService/RevokePairing", {"platform": "telegram", "user_id": "7"}),
    ("scheduler.CuratorService/RollBack", _ROLL_BACK),
    ("scheduler.JobService/UpdateJob", {"job": {"prompt": "hi"}, "update_mask": "prompt"}),
    ("scheduler.JobService/RunJob", _RUN),
)
_APART: Sequence[tuple[str, *tuple[dict[str, Any], ...]]] = (
    (
        "agent.MemoryService/ApplyMemory",
        {
            "request_id": "$change_id",
            "target": "MEMORY_TARGET_USER",
            "operations": [{"action": "MEMORY_ACTION_ADD", "content": "Mine."}],
        },
    ),
    ("agent.SessionService/SetPersonality", {"name": "pirate"}),
    ("agent.SessionService/SetSessionModel", {"model": "other"}),
    ("agent.SessionService/ImportSession", {"data": _bytes(_SESSION)}),
    ("agent.CurationService/UpdateCuration", {"is_paused": True}),
    ("agent.CurationService/PlanConsolidation", {"ages": _AGES}),
    (
        "agent.CurationService/ApplyCuration",
        {"run_id": "$request", "ages": _AGES, "plan": plan(prunings=("$skill",)), "epoch": 1},
    ),
    ("agent.SkillHubService/SearchHub", {"source": "/nowhere"}),
    ("agent.SkillHubService/InstallSkills", {"source": "/nowhere", **_SKILLS}),
    (
        "agent.TurnService/StartTurn",
        {"turn_id": "bob-$turn_id", "parts": [{"text": "hi"}], "origin": {"platform": "cli"}},
    ),
    (
        "agent.UsageService/SetBudget",
        {"scope": "BUDGET_SCOPE_SESSION", "scope_id": "$session_id", "limit": {"tokens": 5}},
    ),
    (
        "executor.SandboxService/AcquireSandbox",
        {"request_id": "$request", "workspace_id": None, "earlier_workspace_id": "$workspace_id"},
    ),
    ("executor.WorkspaceService/CreateWorkspace", {"request_id": "$request"}),
    (
        "gateway.ConversationService/Converse",
        {"open": {"session_id": None}},
        {"user_message": {"text": "hi"}},
    ),
    (
        "gateway.DeliveryService/Deliver",
        {
            "delivery_id": "bob-$delivery_id",
            "origin": {"platform": "cli", "chat_id": "$session_id"},
            "text": "hi",
        },
    ),
    (
        "gateway.DeliveryService/UploadAttachment",
        {"header": {"length_bytes": 1, "sha256": _X}},
        {"chunk": _bytes(b"x")},
    ),
    (
        "scheduler.BatchService/CreateBatch",
        {"header": {"name": "of-bob", "item_count": 1, "digest": _X}},
        {"items": {"items": [{"item_id": "1", "prompt": "hi"}]}},
    ),
    ("scheduler.CuratorService/RunCurator", _RUN),
    ("scheduler.JobService/CreateJob", {"job": {"schedule": "every 24 hours", "prompt": "hi"}}),
    ("scheduler.JobService/PreviewSchedule", {"schedule": "0 9 * * *"}),
    ("scheduler.JobService/ImportJobs", {"document": _bytes(_JOBS)}),
)


def _cases() -> Iterator[Case]:
    for kind, services in _PLAIN.items():
        for service, names in services.items():
            for name in names.split():
                yield kind, f"{service}/{name}", ({},)
    for kind, rows in ((Kind.ALIKE, _ALIKE), (Kind.APART, _APART)):
        for method, *messages in rows:
            yield kind, method, messages


CASES: Sequence[Case] = tuple(_cases())

STATE: Mapping[str, Fields] = {
    "agent.SessionService/GetSession": {},
    "agent.SessionService/ListSessions": {},
    "agent.SessionService/ListMessages": {},
    "agent.TurnService/GetTurn": {"turn_id": "$waiting_turn"},
    "agent.TurnService/WatchTurn": {},
    "agent.ApprovalService/ListApprovals": {"session_id": None},
    "agent.MemoryService/GetMemory": {},
    "agent.MemoryService/ListMemoryChanges": {},
    "agent.SkillService/ListSkills": {},
    "agent.UsageService/GetBudget": {"job_id": None},
    "executor.SandboxService/ListSandboxes": {},
    "executor.ExecService/ReadExecOutput": {"stream": "OUTPUT_STREAM_STDOUT"},
    "executor.FileService/DownloadFile": _NOTE,
    "executor.WorkspaceService/ListSnapshots": {"workspace_id": None},
    "executor.WorkspaceService/ListWorkspaces": {},
    "gateway.DeliveryService/GetDelivery": {},
    "gateway.DeliveryService/DownloadAttachment": {"sha256": _bytes(CANARY_DIGEST)},
    "scheduler.JobService/ListJobs": {},
    "scheduler.JobService/ListRuns": {},
}
"""What ann asks for, to see all that she has."""
