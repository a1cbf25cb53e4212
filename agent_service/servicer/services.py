"""The agent's services as a server has them, and who may call which method."""

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

POLICY: Policy = {
    **allow(
        "hermes.agent.v1.TurnService",
        {
            "StartTurn": (Identity.GATEWAY, Identity.SCHEDULER, Identity.OPERATOR),
            "WatchTurn": (Identity.GATEWAY, Identity.SCHEDULER, Identity.AGENT, Identity.OPERATOR),
            "GetTurn": (Identity.GATEWAY, Identity.SCHEDULER, Identity.AGENT, Identity.OPERATOR),
            "InterruptTurn": (
                Identity.GATEWAY,
                Identity.SCHEDULER,
                Identity.AGENT,
                Identity.OPERATOR,
            ),
        },
    ),
    **allow(
        "hermes.agent.v1.SessionService",
        {
            "GetSession": (Identity.GATEWAY, Identity.OPERATOR),
            "ListSessions": (Identity.GATEWAY, Identity.OPERATOR),
            "ListMessages": (Identity.GATEWAY, Identity.OPERATOR),
            "SearchMessages": (Identity.GATEWAY, Identity.OPERATOR),
            "RenameSession": (Identity.GATEWAY, Identity.OPERATOR),
            "BranchSession": (Identity.GATEWAY, Identity.OPERATOR),
            "UndoTurns": (Identity.GATEWAY, Identity.OPERATOR),
            "SetPersonality": (Identity.GATEWAY, Identity.OPERATOR),
            "SetSessionModel": (Identity.GATEWAY, Identity.OPERATOR),
            "DeleteSession": (Identity.GATEWAY, Identity.OPERATOR),
            "PruneSessions": (Identity.OPERATOR,),
            "ExportSession": (Identity.GATEWAY, Identity.OPERATOR),
            "ImportSession": (Identity.OPERATOR,),
        },
    ),
    **allow(
        "hermes.agent.v1.SkillService",
        {
            "ListSkills": (Identity.GATEWAY, Identity.OPERATOR),
            "GetSkill": (Identity.GATEWAY, Identity.OPERATOR),
            "PinSkill": (Identity.OPERATOR,),
            "ArchiveSkill": (Identity.OPERATOR,),
            "RestoreSkill": (Identity.OPERATOR,),
        },
    ),
    **allow(
        "hermes.agent.v1.SkillHubService",
        dict.fromkeys(
            (
                *("SearchHub", "InstallSkills", "UpdateSkills", "RemoveSkill"),
                *("AuditSkills", "ExportSkills"),
            ),
            (Identity.OPERATOR,),
        ),
    ),
    **allow(
        "hermes.agent.v1.CurationService",
        dict.fromkeys(
            (
                *("ListCurations", "UpdateCuration", "PlanConsolidation"),
                *("ApplyCuration", "RestoreSkills", "ListCurationReports"),
            ),
            (Identity.SCHEDULER,),
        ),
    ),
    **allow(
        "hermes.agent.v1.ApprovalService",
        {
            "ListApprovals": (Identity.GATEWAY, Identity.OPERATOR),
            "ResolveApproval": (Identity.GATEWAY, Identity.OPERATOR),
            "AnswerClarification": (Identity.GATEWAY, Identity.OPERATOR),
        },
    ),
    **allow(
        "hermes.agent.v1.ModelCatalogService",
        {
            "ListModels": (Identity.GATEWAY, Identity.OPERATOR),
            "RefreshModels": (Identity.OPERATOR,),
        },
    ),
    **allow(
        "hermes.agent.v1.ToolCatalogService",
        {"ListTools": (Identity.GATEWAY, Identity.OPERATOR)},
    ),
    **allow(
        "hermes.agent.v1.CatalogService",
        {
            "ClassifyCommands": (Identity.GATEWAY, Identity.OPERATOR),
            "ScanTexts": (Identity.GATEWAY, Identity.SCHEDULER, Identity.OPERATOR),
            "ListPersonalities": (Identity.GATEWAY, Identity.OPERATOR),
        },
    ),
    **allow(
        "hermes.agent.v1.MemoryService",
        {
            "GetMemory": (Identity.GATEWAY, Identity.OPERATOR),
            "ApplyMemory": (Identity.GATEWAY, Identity.OPERATOR),
            "ListMemoryChanges": (Identity.GATEWAY, Identity.OPERATOR),
            "UndoMemoryChange": (Identity.GATEWAY, Identity.OPERATOR),
        },
    ),
    **allow(
        "hermes.agent.v1.HomeService",
        {"ExportHome": (Identity.OPERATOR,), "ImportHome": (Identity.OPERATOR,)},
    ),
    **allow(
        "hermes.agent.v1.UsageService",
        {
            "GetUsage": (Identity.GATEWAY, Identity.SCHEDULER, Identity.OPERATOR),
            "GetBudget": (Identity.GATEWAY, Identity.SCHEDULER, Identity.OPERATOR),
            "SetBudget": (Identity.SCHEDULER, Identity.OPERATOR),
        },
    ),
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
