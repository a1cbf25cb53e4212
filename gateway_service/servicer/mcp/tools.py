"""The tools of the MCP server; their docstrings are what clients are told."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from pydantic import Field

from gateway_service.messages import API
from hermes.agent.v1 import approval_pb2, memory_pb2, session_pb2, skill_pb2, turn_event_pb2
from hermes.agent.v1.approval_pb2_grpc import ApprovalServiceStub
from hermes.agent.v1.memory_pb2_grpc import MemoryServiceStub
from hermes.agent.v1.session_change_pb2 import DeleteSessionRequest
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.agent.v1.skill_pb2_grpc import SkillServiceStub
from hermes.agent.v1.turn_event_pb2 import TurnEvent
from hermes.agent.v1.turn_pb2 import (
    BUSY_MODE_QUEUE,
    TURN_STATE_WAITING_PERSON,
    GetTurnRequest,
    InterruptTurnRequest,
    StartTurnRequest,
    WatchTurnRequest,
)
from hermes.agent.v1.turn_pb2_grpc import TurnServiceStub
from hermes.common.v1.content_pb2 import MessagePart
from hermes.common.v1.origin_pb2 import TRUST_OWNER, Origin
from hermes.gateway.v1.delivery_pb2 import DeliverRequest, DeliverResponse
from hermes.scheduler.v1 import job_pb2, run_pb2
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.ids import new_id, new_session_id
from services.rpc.channels import Channels
from services.rpc.streams import open_stream

USER = "mcp"
BY = f"{API}:{USER}"
"""Who decides and answers."""
PAGE = 50

Json = dict[str, Any]
Deliver = Callable[[DeliverRequest], Awaitable[DeliverResponse]]
Wait = Annotated[float, Field(ge=0, le=300, description="how many seconds to wait at most")]
Limit = Annotated[int, Field(ge=1, le=100)]
Memory = Literal["memory", "user"]


class HermesTools:
    """Calls the services for clients, in one profile."""

    def __init__(self, channels: Channels, deliver: Deliver, profile: str) -> None:
        agent = channels.to("agent")
        self._turns, self._sessions = TurnServiceStub(agent), SessionServiceStub(agent)
        self._memory, self._skills = MemoryServiceStub(agent), SkillServiceStub(agent)
        self._approvals = ApprovalServiceStub(agent)
        self._channels = channels
        self._deliver = deliver
        self._profile = profile

    @property
    def _jobs(self) -> JobServiceStub:
        return JobServiceStub(self._channels.to("scheduler"))  # which may have no address

    # ---- read

    async def sessions_list(self, limit: Limit = 20) -> Json:
        """List conversations, the one used last first."""
        request = session_pb2.ListSessionsRequest(profile=self._profile, page_size=limit)
        return _json(await self._sessions.ListSessions(request))

    async def sessions_search(self, query: str, limit: Limit = 20) -> Json:
        """Find messages of all conversations by their words; "phrases" and OR work."""
        request = session_pb2.SearchMessagesRequest(
            profile=self._profile, query=query, page_size=limit
        )
        return _json(await self._sessions.SearchMessages(request))

    async def session_read(self, session_id: str, after_sequence: int = 0) -> Json:
        """Read the messages of a conversation, 50 at a time."""
        request = session_pb2.ListMessagesRequest(
            session_id=session_id,
            profile=self._profile,
            after_sequence=after_sequence,
            page_size=PAGE,
        )
        return _json(await self._sessions.ListMessages(request))

    async def memory_read(self) -> Json:
        """Read what Hermes remembers: its own notes, and what it knows of the user."""
        request = memory_pb2.GetMemoryRequest(profile=self._profile)
        return _json(await self._memory.GetMemory(request))

    async def skills_list(self) -> Json:
        """List the skills that Hermes has."""
        request = skill_pb2.ListSkillsRequest(profile=self._profile)
        return _json(await self._skills.ListSkills(request))

    async def skill_read(self, name: str) -> Json:
        """Read a skill."""
        request = skill_pb2.GetSkillRequest(profile=self._profile, name=name)
        return _json(await self._skills.GetSkill(request))

    async def jobs_list(self) -> Json:
        """List the scheduled jobs."""
        return _json(await self._jobs.ListJobs(job_pb2.ListJobsRequest(profile=self._profile)))

    async def approvals_list(self) -> Json:
        """List the tool calls that wait for a person's decision."""
        request = approval_pb2.ListApprovalsRequest(profile=self._profile)
        return _json(await self._approvals.ListApprovals(request))

    async def turn_follow(self, turn_id: str, wait_s: Wait = 60) -> Json:
        """Wait for the answer of a turn, at most so long; returns also what it waits for."""
        named: Any = {"turn_id": turn_id, "profile": self._profile}
        told: Json = {"turn_id": turn_id, "tools": [], "waits_for": {}}
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._watch(named, told)
        turn = (await self._turns.GetTurn(GetTurnRequest(**named))).turn
        return {**told, "session_id": turn.session_id, "state": _json(turn)["state"]}

    async def _watch(self, named: Any, told: Json) -> None:
        """Note the events of a turn until it ends, or waits for a person."""
        call = self._turns.WatchTurn(WatchTurnRequest(**named))
        async with open_stream(call) as batches:
            async for batch in batches:
                for event in batch.events:
                    _note(event, told)
                if told["waits_for"]:
                    turn = (await self._turns.GetTurn(GetTurnRequest(**named))).turn
                    if turn.state == TURN_STATE_WAITING_PERSON:
                        return

    # ---- operate

    async def ask(self, message: str, session_id: str = "", wait_s: Wait = 60) -> Json:
        """Give Hermes a task or a question, in a new conversation or one that exists.

        If it takes longer than you wait, call turn_follow with the turn_id.
        """
        turn_id = new_id("trn")
        session_id = session_id or new_session_id(datetime.now(UTC).astimezone())
        request = StartTurnRequest(
            turn_id=turn_id,
            profile=self._profile,
            session_id=session_id,
            parts=[MessagePart(text=message)],
            origin=Origin(platform=API, chat_id=session_id, user_id=USER, trust=TRUST_OWNER),
            busy_mode=BUSY_MODE_QUEUE,
        )
        await self._turns.StartTurn(request)
        return await self.turn_follow(turn_id, wait_s)

    async def turn_stop(self, turn_id: str) -> Json:
        """Stop a turn and the commands that it runs."""
        request = InterruptTurnRequest(turn_id=turn_id, profile=self._profile)
        return _json(await self._turns.InterruptTurn(request))

    async def question_answer(self, question_id: str, answer: str) -> Json:
        """Answer a question that a turn waits for."""
        request = approval_pb2.AnswerClarificationRequest(
            clarification_id=question_id, profile=self._profile, answer=answer, answered_by=BY
        )
        return _json(await self._approvals.AnswerClarification(request))

    async def job_run(self, job_id: str) -> Json:
        """Run a scheduled job now."""
        request = run_pb2.RunJobRequest(job_id=job_id, profile=self._profile, run_id=new_id("run"))
        return _json(await self._jobs.RunJob(request))

    async def message_send(self, text: str, target: str = "") -> Json:
        """Send a message to a chat: a platform, platform:chat or a channel's name; empty means the
        home channel.
        """
        request = DeliverRequest(
            delivery_id=new_id("dlv"), profile=self._profile, text=text, target=target
        )
        return _json(await self._deliver(request))

    # ---- own

    async def approval_decide(
        self, approval_id: str, decision: Literal["once", "session", "always", "deny"]
    ) -> Json:
        """Allow or deny a tool call that waits: once, for its session, or always."""
        request = approval_pb2.ResolveApprovalRequest(
            approval_id=approval_id,
            profile=self._profile,
            decision=turn_event_pb2.ApprovalDecision.Value(f"APPROVAL_DECISION_{decision.upper()}"),
            decided_by=BY,
        )
        return _json(await self._approvals.ResolveApproval(request))

    async def memory_change(
        self,
        target: Memory,
        action: Literal["add", "replace", "remove"],
        content: str = "",
        old_text: str = "",
    ) -> Json:
        """Change what Hermes remembers; old_text names the entry to replace or remove."""
        operation = memory_pb2.MemoryOperation(
            action=memory_pb2.MemoryAction.Value(f"MEMORY_ACTION_{action.upper()}"),
            content=content,
            old_text=old_text,
        )
        request = memory_pb2.ApplyMemoryRequest(
            request_id=new_id("req"),
            profile=self._profile,
            target=memory_pb2.MemoryTarget.Value(f"MEMORY_TARGET_{target.upper()}"),
            operations=[operation],
        )
        return _json(await self._memory.ApplyMemory(request))

    async def job_add(self, schedule: str, prompt: str, name: str = "") -> Json:
        """Schedule a job: "every 2h", "0 9 * * 1-5", or a time."""
        job = job_pb2.Job(job_id=new_id("job"), name=name, schedule=schedule, prompt=prompt)
        request = job_pb2.CreateJobRequest(job=job, profile=self._profile)
        return _json(await self._jobs.CreateJob(request))

    async def job_remove(self, job_id: str) -> Json:
        """Delete a scheduled job."""
        request = job_pb2.DeleteJobRequest(job_id=job_id, profile=self._profile)
        return _json(await self._jobs.DeleteJob(request))

    async def session_delete(self, session_id: str) -> Json:
        """Delete a conversation for good."""
        request = DeleteSessionRequest(session_id=session_id, profile=self._profile)
        return _json(await self._sessions.DeleteSession(request))


def _note(event: TurnEvent, told: Json) -> None:
    """Note what a client of a turn is told."""
    match event.WhichOneof("kind"):
        case "tool_started":
            told["tools"].append(event.tool_started.name)
        case "approval_requested":
            told["waits_for"][event.approval_requested.approval_id] = _json(event)
        case "approval_resolved":
            told["waits_for"].pop(event.approval_resolved.approval_id, None)
        case "clarification_requested":
            asked = event.clarification_requested
            told["waits_for"][asked.clarification_id] = _json(event)
        case "clarification_answered":
            told["waits_for"].pop(event.clarification_answered.clarification_id, None)
        case "turn_finished":
            usage = event.turn_finished.usage
            counts = {field.name: getattr(usage, field.name) for field in usage.DESCRIPTOR.fields}
            told |= {**_json(event)["turn_finished"], "usage": counts}
        case _:
            pass


def _json(message: Message) -> Json:
    return MessageToDict(message, preserving_proto_field_name=True)
