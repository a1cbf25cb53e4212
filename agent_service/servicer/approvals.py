"""ApprovalService."""

from collections.abc import Callable
from typing import Any

import grpc.aio
from msgspec.structs import replace

from agent_service.convert import approvals as convert
from agent_service.convert.common import profile_of
from agent_service.storage import approvals as storage
from agent_service.turns import Turns
from hermes.agent.v1 import approval_pb2, approval_pb2_grpc
from services.database import Database

Context = grpc.aio.ServicerContext[Any, Any]


class ApprovalServicer(approval_pb2_grpc.ApprovalServiceServicer):
    """Serves approvals."""

    def __init__(self, database: Database, turns: Turns, redact: Callable[[str], str]) -> None:
        """`redact` takes secrets out of what persons answer."""
        self._database = database
        self._redact = redact
        self._turns = turns

    async def ListApprovals(
        self, request: approval_pb2.ListApprovalsRequest, context: Context
    ) -> approval_pb2.ListApprovalsResponse:
        """Lists the approvals that wait."""
        profile = profile_of(request.profile)
        found = await self._database.read(
            lambda conn: storage.list_open(conn, profile, request.session_id)
        )
        return approval_pb2.ListApprovalsResponse(
            approvals=[convert.approval(info) for info in found]
        )

    async def ResolveApproval(
        self, request: approval_pb2.ResolveApprovalRequest, context: Context
    ) -> approval_pb2.ResolveApprovalResponse:
        """Decides an approval."""
        info = await self._turns.resolve(
            request.approval_id,
            profile_of(request.profile),
            convert.decision(request.decision),
            request.decided_by,
        )
        return approval_pb2.ResolveApprovalResponse(approval=convert.approval(info))

    async def AnswerClarification(
        self, request: approval_pb2.AnswerClarificationRequest, context: Context
    ) -> approval_pb2.AnswerClarificationResponse:
        """Answers a question."""
        given = convert.answer(request)
        answered = await self._turns.answer(replace(given, text=self._redact(given.text)))
        return approval_pb2.AnswerClarificationResponse(
            clarification_id=answered.clarification_id, turn_id=answered.turn_id
        )
