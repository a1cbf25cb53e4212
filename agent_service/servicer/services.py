"""The agent's services as a server has them, and who may call which method."""

from collections.abc import Mapping, Sequence

import grpc.aio
from msgspec import Struct

from agent_service.servicer.approvals import ApprovalServicer
from agent_service.servicer.catalog import CatalogServicer
from agent_service.servicer.curation import CurationServicer
from agent_service.servicer.home import HomeServicer
from agent_service.servicer.memory import MemoryServicer
from agent_service.servicer.models import ModelCatalogServicer
from agent_service.servicer.sessions import SessionServicer
from agent_service.servicer.skill_hub import SkillHubServicer
from agent_service.servicer.skills import SkillServicer
from agent_service.servicer.tools import ToolCatalogServicer
from agent_service.servicer.turns import TurnServicer
from agent_service.servicer.usage import UsageServicer
from hermes.agent.v1 import (
    approval_pb2_grpc,
    catalog_pb2_grpc,
    curation_pb2_grpc,
    home_pb2_grpc,
    memory_pb2_grpc,
    model_catalog_pb2_grpc,
    session_pb2_grpc,
    skill_hub_pb2_grpc,
    skill_pb2_grpc,
    tool_catalog_pb2_grpc,
    turn_pb2_grpc,
    usage_pb2_grpc,
)
from services.auth import Identity, Policy, allow

_ALL = (Identity.GATEWAY, Identity.SCHEDULER, Identity.OPERATOR)
_PEOPLE = (Identity.GATEWAY, Identity.OPERATOR)
_OPERATOR = (Identity.OPERATOR,)
_METHODS: Mapping[str, Mapping[Sequence[Identity], Sequence[str]]] = {
    "TurnService": {
        _ALL: ("StartTurn",),
        (*_ALL, Identity.AGENT): ("WatchTurn", "GetTurn", "InterruptTurn"),
    },
    "SessionService": {
        _PEOPLE: (
            *("GetSession", "ListSessions", "ListMessages", "SearchMessages", "RenameSession"),
            *("BranchSession", "UndoTurns", "SetPersonality", "SetSessionModel", "DeleteSession"),
            "ExportSession",
        ),
        _OPERATOR: ("PruneSessions", "ImportSession"),
    },
    "SkillService": {
        _PEOPLE: ("ListSkills", "GetSkill"),
        _OPERATOR: ("PinSkill", "ArchiveSkill", "RestoreSkill"),
    },
    "SkillHubService": {
        _OPERATOR: (
            *("SearchHub", "InstallSkills", "UpdateSkills", "RemoveSkill"),
            *("AuditSkills", "ExportSkills"),
        ),
    },
    "CurationService": {
        (Identity.SCHEDULER,): (
            *("ListCurations", "UpdateCuration", "PlanConsolidation"),
            *("ApplyCuration", "RestoreSkills", "ListCurationReports"),
        ),
    },
    "ApprovalService": {_PEOPLE: ("ListApprovals", "ResolveApproval", "AnswerClarification")},
    "ModelCatalogService": {_PEOPLE: ("ListModels",), _OPERATOR: ("RefreshModels",)},
    "ToolCatalogService": {_PEOPLE: ("ListTools",)},
    "CatalogService": {_PEOPLE: ("ClassifyCommands", "ListPersonalities"), _ALL: ("ScanTexts",)},
    "MemoryService": {
        _PEOPLE: ("GetMemory", "ApplyMemory", "ListMemoryChanges", "UndoMemoryChange"),
    },
    "HomeService": {_OPERATOR: ("ExportHome", "ImportHome")},
    "UsageService": {
        _ALL: ("GetUsage", "GetBudget"),
        (Identity.SCHEDULER, Identity.OPERATOR): ("SetBudget",),
    },
}
"""By service, who may call which methods."""
POLICY: Policy = {
    path: callers
    for service, methods in _METHODS.items()
    for allowed, names in methods.items()
    for path, callers in allow(f"hermes.agent.v1.{service}", dict.fromkeys(names, allowed)).items()
}


class Servicers(Struct, frozen=True, kw_only=True):
    """All of them."""

    turns: TurnServicer
    sessions: SessionServicer
    approvals: ApprovalServicer
    models: ModelCatalogServicer
    memories: MemoryServicer
    skills: SkillServicer
    hub: SkillHubServicer
    curation: CurationServicer
    tools: ToolCatalogServicer
    catalog: CatalogServicer
    usage: UsageServicer
    home: HomeServicer

    def register(self, server: grpc.aio.Server) -> None:
        """Adds them to a server."""
        turn_pb2_grpc.add_TurnServiceServicer_to_server(self.turns, server)
        session_pb2_grpc.add_SessionServiceServicer_to_server(self.sessions, server)
        approval_pb2_grpc.add_ApprovalServiceServicer_to_server(self.approvals, server)
        model_catalog_pb2_grpc.add_ModelCatalogServiceServicer_to_server(self.models, server)
        tool_catalog_pb2_grpc.add_ToolCatalogServiceServicer_to_server(self.tools, server)
        catalog_pb2_grpc.add_CatalogServiceServicer_to_server(self.catalog, server)
        memory_pb2_grpc.add_MemoryServiceServicer_to_server(self.memories, server)
        skill_pb2_grpc.add_SkillServiceServicer_to_server(self.skills, server)
        skill_hub_pb2_grpc.add_SkillHubServiceServicer_to_server(self.hub, server)
        curation_pb2_grpc.add_CurationServiceServicer_to_server(self.curation, server)
        usage_pb2_grpc.add_UsageServiceServicer_to_server(self.usage, server)
        home_pb2_grpc.add_HomeServiceServicer_to_server(self.home, server)
