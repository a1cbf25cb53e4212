"""Which identities may call which methods of the agent's services."""

from collections.abc import Mapping, Sequence

from services.rpc.auth import Identity, Policy, allow

_ALL = (Identity.GATEWAY, Identity.SCHEDULER, Identity.OPERATOR)
_PEOPLE = (Identity.GATEWAY, Identity.OPERATOR)
_OPERATOR = (Identity.OPERATOR,)
_METHODS: Mapping[str, Mapping[Sequence[Identity], Sequence[str]]] = {
    "TurnService": {
        _ALL: ("StartTurn",),
        (*_ALL, Identity.AGENT): ("WatchTurn", "GetTurn", "InterruptTurn"),
    },
    "TrajectoryService": {_OPERATOR: ("ExportTrajectories",)},
    "UploadService": {_PEOPLE: ("UploadFile",)},
    "SessionService": {
        _PEOPLE: (
            *("GetSession", "ListSessions", "ListMessages", "SearchMessages", "RenameSession"),
            *("BranchSession", "UndoTurns", "SetPersonality", "SetSessionModel", "DeleteSession"),
            "ExportSession",
        ),
        _OPERATOR: ("PruneSessions", "ImportSession"),
        (Identity.SCHEDULER, Identity.OPERATOR): ("ReleaseSandbox",),
    },
    "SkillService": {
        _PEOPLE: ("ListSkills", "GetSkill"),
        _OPERATOR: ("PinSkill", "ArchiveSkill", "RestoreSkill"),
    },
    "SkillHubService": {
        _OPERATOR: (
            *("SearchHub", "InstallSkills", "UpdateSkills", "RemoveSkill"),
            *("AuditSkills", "ExportSkills"),
        )
    },
    "CurationService": {
        (Identity.SCHEDULER,): (
            *("ListCurations", "UpdateCuration", "PlanConsolidation"),
            *("ApplyCuration", "RestoreSkills", "ListCurationReports"),
        )
    },
    "ApprovalService": {_PEOPLE: ("ListApprovals", "ResolveApproval", "AnswerClarification")},
    "ModelCatalogService": {_PEOPLE: ("ListModels",), _OPERATOR: ("RefreshModels",)},
    "ToolCatalogService": {_PEOPLE: ("ListTools",)},
    "McpService": {_OPERATOR: ("ListMcpServers", "TestMcpServer")},
    "CatalogService": {_PEOPLE: ("ClassifyCommands", "ListPersonalities"), _ALL: ("ScanTexts",)},
    "MemoryService": {
        _PEOPLE: (
            *("GetMemory", "ApplyMemory", "ListMemoryChanges", "UndoMemoryChange"),
            *("GetMemoryProvider", "EndSession"),
        )
    },
    "HomeService": {_OPERATOR: ("ExportHome", "ImportHome")},
    "UsageService": {
        _ALL: ("GetUsage", "GetBudget"),
        (Identity.SCHEDULER, Identity.OPERATOR): ("SetBudget",),
    },
}
POLICY: Policy = {
    path: callers
    for service, methods in _METHODS.items()
    for allowed, names in methods.items()
    for path, callers in allow(f"hermes.agent.v1.{service}", dict.fromkeys(names, allowed)).items()
}
