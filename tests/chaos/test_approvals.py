"""A question to a person waits through kills of everything, and is decided once."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import grpc.aio

from hermes.agent.v1.approval_pb2 import ListApprovalsRequest, ResolveApprovalRequest
from hermes.agent.v1.approval_pb2_grpc import ApprovalServiceStub
from hermes.agent.v1.turn_event_pb2 import (
    APPROVAL_DECISION_DENY,
    APPROVAL_DECISION_EXPIRED,
    APPROVAL_DECISION_ONCE,
    ApprovalDecision,
)
from services.errors import Reason, reason_of
from tests.chaos.crashes import Watcher, asked
from tests.e2e.client import channels_of
from tests.e2e.deployment import SERVICES, Deployment

BOTH = {"cli:ada": APPROVAL_DECISION_ONCE, "telegram:7": APPROVAL_DECISION_DENY}
"""Who decides at the same time, and what."""


async def test_a_question_outlives_every_service_and_is_decided_once(four: Deployment) -> None:
    await asyncio.to_thread(four.start)
    async with asked(four, "clean up") as watcher:
        approval_id = await question(watcher)
        for service in SERVICES:
            await asyncio.to_thread(four.servers[service].kill)
            await asyncio.to_thread(four.start)
            assert await waiting(four) == [approval_id]
        clicks = [decide(four, approval_id, who, decision) for who, decision in BOTH.items()]
        outcomes = dict(zip(BOTH, await asyncio.gather(*clicks), strict=True))
        await asyncio.to_thread(four.servers["agent"].kill)
        await asyncio.to_thread(four.start)
    [winner] = [who for who, reason in outcomes.items() if reason is None]
    [loser] = [reason for reason in outcomes.values() if reason is not None]
    assert loser is Reason.FAILED_PRECONDITION
    [resolved] = [e.approval_resolved for e in watcher.events if e.HasField("approval_resolved")]
    assert (resolved.decision, resolved.decided_by) == (BOTH[winner], winner)
    assert await waiting(four) == []
    async with asked(four, "show the log", watcher.session_id) as showing:
        pass
    was_run = BOTH[winner] == APPROVAL_DECISION_ONCE
    assert showing.answer.count("cleaned") == (1 if was_run else 0)


async def test_a_question_that_has_expired_stays_so(four: Deployment) -> None:
    await asyncio.to_thread(four.start)
    database = four.servers["agent"].home.path / "state" / "agent.db"
    async with asked(four, "clean up") as watcher:
        approval_id = await question(watcher)
        await asyncio.to_thread(four.kill)
        await asyncio.to_thread(expire, database, approval_id)
        await asyncio.to_thread(four.start)
    [resolved] = [e.approval_resolved for e in watcher.events if e.HasField("approval_resolved")]
    assert resolved.decision == APPROVAL_DECISION_EXPIRED
    await asyncio.to_thread(four.servers["agent"].kill)
    await asyncio.to_thread(four.start)
    assert await waiting(four) == []
    late = await decide(four, approval_id, "cli:ada", APPROVAL_DECISION_ONCE)
    assert late is Reason.FAILED_PRECONDITION
    async with asked(four, "show the log", watcher.session_id) as showing:
        pass
    assert "cleaned" not in showing.answer


async def question(watcher: Watcher) -> str:
    """What the turn waits for."""
    await watcher.until(lambda: watcher.seen["approval_requested"] > 0)
    return next(
        event.approval_requested.approval_id
        for event in watcher.events
        if event.HasField("approval_requested")
    )


async def waiting(four: Deployment) -> list[str]:
    """The questions that wait for somebody."""
    async with channels_of(four.client) as channels:
        stub = ApprovalServiceStub(channels.to("agent"))
        listed = await stub.ListApprovals(ListApprovalsRequest(), wait_for_ready=True)
    return [approval.approval_id for approval in listed.approvals]


async def decide(
    four: Deployment, approval_id: str, who: str, decision: ApprovalDecision.ValueType
) -> Reason | None:
    """Decide from a place of one's own; returns why that was refused."""
    request = ResolveApprovalRequest(approval_id=approval_id, decision=decision, decided_by=who)
    async with channels_of(four.client) as channels:
        try:
            await ApprovalServiceStub(channels.to("agent")).ResolveApproval(request)
        except grpc.aio.AioRpcError as error:
            return reason_of(error)
    return None


def expire(database: Path, approval_id: str) -> None:
    """Let the time for an answer be over."""
    with closing(sqlite3.connect(database)) as connection, connection:
        changed = "UPDATE approval SET expires_at = created_at WHERE id = ?"
        assert connection.execute(changed, (approval_id,)).rowcount == 1
