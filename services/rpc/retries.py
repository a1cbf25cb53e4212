"""Automatic retries of calls by the channel."""

import json
from collections.abc import Mapping

IDEMPOTENT: Mapping[str, tuple[str, ...]] = {
    "hermes.agent.v1.ApprovalService": ("AnswerClarification", "ListApprovals", "ResolveApproval"),
    "hermes.agent.v1.CatalogService": ("ClassifyCommands", "ScanTexts"),
    "hermes.agent.v1.CurationService": (
        *("ApplyCuration", "ListCurationReports", "ListCurations", "RestoreSkills"),
        *("UpdateCuration",),
    ),
    "hermes.agent.v1.SessionService": ("GetSession", "ListMessages", "ListSessions"),
    "hermes.agent.v1.TurnService": ("GetTurn", "InterruptTurn", "StartTurn"),
    "hermes.agent.v1.ToolCatalogService": ("ListTools",),
    "hermes.executor.v1.ExecService": (
        *("ListExecs", "ReadExecOutput", "SignalExec", "StartExec", "WaitExec"),
    ),
    "hermes.executor.v1.FileService": ("ListDirectory", "StatPath"),
    "hermes.executor.v1.SandboxService": (
        *("AcquireSandbox", "GetCapabilities", "GetSandbox", "ListSandboxes", "ReleaseSandbox"),
        *("RenewLease",),
    ),
    "hermes.executor.v1.WorkspaceService": ("ListSnapshots", "ListWorkspaces"),
    "hermes.gateway.v1.ConversationService": ("ListCommands",),
    "hermes.gateway.v1.DeliveryService": ("Deliver", "GetDelivery"),
    "hermes.scheduler.v1.CuratorService": (
        *("GetCurator", "ListReports", "PauseCurator", "ResumeCurator", "RollBack", "RunCurator"),
    ),
    "hermes.scheduler.v1.JobService": (
        *("CreateJob", "DeleteJob", "GetJob", "GetRun", "ListJobs", "ListRuns", "PauseJob"),
        *("PreviewSchedule", "ResumeJob", "RunJob", "UpdateJob"),
    ),
}
"""Unary methods that may be repeated; their protos promise idempotency."""

RETRY_WAITS_S = (0.1, 0.2, 0.4)
"""Doubling, with 20 % jitter."""

_RETRY_POLICY = {
    "maxAttempts": len(RETRY_WAITS_S) + 1,
    "initialBackoff": f"{RETRY_WAITS_S[0]:g}s",
    "maxBackoff": "1s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}


def is_idempotent(method: str) -> bool:
    """Return whether a method such as `/hermes.agent.v1.TurnService/GetTurn` is one of them."""
    service, _, name = method.removeprefix("/").partition("/")
    return name in IDEMPOTENT.get(service, ())


def service_config(*, balanced: bool) -> str:
    """Return gRPC's service config; `balanced` spreads calls over all addresses of a name."""
    names = [
        {"service": service, "method": method}
        for service, methods in IDEMPOTENT.items()
        for method in methods
    ]
    policy: dict[str, object] = {"round_robin" if balanced else "pick_first": {}}
    return json.dumps(
        {
            "loadBalancingConfig": [policy],
            "methodConfig": [{"name": names, "retryPolicy": _RETRY_POLICY}],
        }
    )
