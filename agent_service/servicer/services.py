"""The agent's services as a server has them, and who may call which method."""

import grpc.aio

from agent_service.servicer.approvals import ApprovalServicer
from agent_service.servicer.models import ModelCatalogServicer
from agent_service.servicer.sessions import SessionServicer
from agent_service.servicer.turns import TurnServicer
from hermes.agent.v1 import (
    approval_pb2_grpc,
    model_catalog_pb2_grpc,
    session_pb2_grpc,
    turn_pb2_grpc,
)
from services.auth import Identity, Policy, allow

POLICY: Policy = {
    **allow(
        "hermes.agent.v1.TurnService",
        {
            "StartTurn": (Identity.GATEWAY, Identity.SCHEDULER, Identity.OPERATOR),
            "WatchTurn": (Identity.GATEWAY, Identity.SCHEDULER, Identity.AGENT, Identity.OPERATOR),
            "GetTurn": (Identity.GATEWAY, Identity.SCHEDULER, Identity.AGENT, Identity.OPERATOR),
            "InterruptTurn": (Identity.GATEWAY, Identity.AGENT, Identity.OPERATOR),
        },
    ),
    **allow(
        "hermes.agent.v1.SessionService",
        {
            "GetSession": (Identity.GATEWAY, Identity.OPERATOR),
            "ListSessions": (Identity.GATEWAY, Identity.OPERATOR),
            "ListMessages": (Identity.GATEWAY, Identity.OPERATOR),
        },
    ),
    **allow(
        "hermes.agent.v1.ApprovalService",
        {
            "ListApprovals": (Identity.GATEWAY, Identity.OPERATOR),
            "ResolveApproval": (Identity.GATEWAY, Identity.OPERATOR),
        },
    ),
    **allow(
        "hermes.agent.v1.ModelCatalogService",
        {
            "ListModels": (Identity.GATEWAY, Identity.OPERATOR),
            "RefreshModels": (Identity.OPERATOR,),
        },
    ),
}


def register(
    server: grpc.aio.Server,
    turns: TurnServicer,
    sessions: SessionServicer,
    approvals: ApprovalServicer,
    models: ModelCatalogServicer,
) -> None:
    """Adds the servicers to a server."""
    turn_pb2_grpc.add_TurnServiceServicer_to_server(turns, server)
    session_pb2_grpc.add_SessionServiceServicer_to_server(sessions, server)
    model_catalog_pb2_grpc.add_ModelCatalogServiceServicer_to_server(models, server)
    approval_pb2_grpc.add_ApprovalServiceServicer_to_server(approvals, server)
