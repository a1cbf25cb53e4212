"""The services that the scheduler calls."""

from collections.abc import Sequence
from functools import cached_property

import grpc
import grpc.aio

from hermes.agent.v1 import (
    catalog_pb2,
    catalog_pb2_grpc,
    turn_event_pb2,
    turn_pb2,
    turn_pb2_grpc,
    usage_pb2,
    usage_pb2_grpc,
)
from hermes.common.v1 import content_pb2, origin_pb2
from hermes.gateway.v1 import delivery_pb2, delivery_pb2_grpc
from scheduler_service.convert.common import origin_to_wire
from scheduler_service.convert.jobs import unattended_to_wire
from scheduler_service.errors import CallRefused
from scheduler_service.jobs import Claim, Job, Origin
from scheduler_service.runner import Ask, TurnResult
from services.channels import Channels
from services.errors import HermesError, ServiceUnavailable, details_of

_CALL_S = 10.0
# Only how a turn ends matters here.
_DELTAS_PER_SECOND = 1
SKILLS = "skills"
"""The toolset by which skills are loaded."""

# The same call would end in the same way; all else is tried again.
_FINAL = frozenset(
    {
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)


class AgentClient:
    """The agent service, for the turns of runs."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    @cached_property
    def _turns(self) -> turn_pb2_grpc.TurnServiceStub:
        return turn_pb2_grpc.TurnServiceStub(self._channels.to("agent"))

    @cached_property
    def _catalog(self) -> catalog_pb2_grpc.CatalogServiceStub:
        return catalog_pb2_grpc.CatalogServiceStub(self._channels.to("agent"))

    @cached_property
    def _usage(self) -> usage_pb2_grpc.UsageServiceStub:
        return usage_pb2_grpc.UsageServiceStub(self._channels.to("agent"))

    async def scan(self, texts: Sequence[str]) -> Sequence[tuple[str, ...]]:
        """Return for each text the kinds of attacks that it looks like."""
        request = catalog_pb2.ScanTextsRequest(texts=texts)
        try:
            answer = await self._catalog.ScanTexts(request, timeout=_CALL_S)
        except grpc.aio.AioRpcError as error:
            raise _explained(error) from error
        return [
            tuple(dict.fromkeys(threat.family for threat in found.threats))
            for found in answer.findings
        ]

    async def limit(self, job: Job) -> None:
        """Hold the runs of a job to its budget, or to none of its own."""
        options = job.options
        amount = usage_pb2.BudgetAmount(
            micro_usd=options.budget_micro_usd, tokens=options.budget_tokens
        )
        request = usage_pb2.SetBudgetRequest(
            profile=job.profile,
            scope=usage_pb2.BUDGET_SCOPE_JOB,
            scope_id=job.id,
            limit=amount if options.has_budget else None,
        )
        try:
            await self._usage.SetBudget(request, timeout=_CALL_S)
        except grpc.aio.AioRpcError as error:
            raise _explained(error) from error

    async def start(self, claim: Claim, ask: Ask) -> None:
        """Start the attempt's turn, in a session of its own."""
        job, options = claim.job, claim.job.options
        origin = job.origin or Origin(platform="scheduler", chat_id=job.id)
        skills = {SKILLS} if options.toolsets and options.skills else set[str]()
        request = turn_pb2.StartTurnRequest(
            turn_id=claim.turn_id,
            profile=job.profile,
            session_id=claim.session_id,
            parts=[content_pb2.MessagePart(text=text) for text in ask.parts],
            origin=origin_to_wire(origin, origin_pb2.TRUST_SERVICE),
            kind=turn_pb2.TURN_KIND_JOB,
            busy_mode=turn_pb2.BUSY_MODE_QUEUE,
            system_message=ask.instructions,
            model=options.model,
            toolsets=sorted({*options.toolsets, *skills}),
            workdir=options.workdir,
            sandbox_template=job.sandbox_template,
            unattended=unattended_to_wire(job),
        )
        try:
            await self._turns.StartTurn(request, timeout=_CALL_S)
        except grpc.aio.AioRpcError as error:
            # Nobody else starts a turn by this id: it was started before the job was changed, or
            # what its prompt is joined by was another output.
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise _explained(error) from error

    async def stop(self, profile: str, turn_id: str) -> None:
        """Stop a turn, if there is such a one that has not ended."""
        request = turn_pb2.InterruptTurnRequest(turn_id=turn_id, profile=profile)
        try:
            await self._turns.InterruptTurn(request, timeout=_CALL_S)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise _explained(error) from error

    def watch(self, claim: Claim) -> "AgentTurnWatch":
        """Watch the attempt's turn from its beginning."""
        return AgentTurnWatch(self._turns, claim.turn_id, claim.job.profile)


class AgentTurnWatch:
    """A turn of the agent that is being watched, over as many streams as it takes."""

    def __init__(self, turns: turn_pb2_grpc.TurnServiceStub, turn_id: str, profile: str) -> None:
        self._turns = turns
        self._turn_id = turn_id
        self._profile = profile
        self._sequence = 0

    async def result(self) -> TurnResult:
        """Return what the turn came to; after Unavailable, call again to go on from there."""
        request = turn_pb2.WatchTurnRequest(
            turn_id=self._turn_id,
            profile=self._profile,
            after_sequence=self._sequence,
            max_deltas_per_second=_DELTAS_PER_SECOND,
        )
        call = self._turns.WatchTurn(request)
        try:
            async for response in call:
                for event in response.events:
                    if event.HasField("turn_finished"):
                        return _result(event.turn_finished)
                    self._sequence = event.sequence or self._sequence
        except grpc.aio.AioRpcError as error:
            raise _explained(error) from error
        finally:
            call.cancel()
        raise ServiceUnavailable(f"the stream of turn {self._turn_id} ended before the turn did")


class GatewayClient:
    """The gateway service, for the output of runs."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    @cached_property
    def _deliveries(self) -> delivery_pb2_grpc.DeliveryServiceStub:
        return delivery_pb2_grpc.DeliveryServiceStub(self._channels.to("gateway"))

    async def deliver(self, profile: str, delivery_id: str, to: Origin, text: str) -> None:
        """Hand over the text for a chat."""
        request = delivery_pb2.DeliverRequest(
            delivery_id=delivery_id,
            profile=profile,
            destination=origin_to_wire(to, origin_pb2.TRUST_SERVICE),
            text=text,
        )
        try:
            await self._deliveries.Deliver(request, timeout=_CALL_S)
        except grpc.aio.AioRpcError as error:
            raise _explained(error) from error


def _result(finished: turn_event_pb2.TurnFinished) -> TurnResult:
    match finished.WhichOneof("outcome"):
        case "completed":
            return TurnResult(finished.completed.answer)
        case "failed":
            message = finished.failed.failure.message or "the turn failed"
            return TurnResult("", message, may_retry=True)
        case "cancelled":
            return TurnResult(finished.cancelled.partial_answer, "it was stopped")
        case "limit_reached":
            limit = finished.limit_reached
            return TurnResult(limit.partial_answer, limit.message or "a limit was reached")
        case "needs_review":
            return TurnResult("", finished.needs_review.message or "a person has to look at it")
        case _:
            return TurnResult("", "it ended in a way that this version does not know")


def _explained(error: grpc.aio.AioRpcError) -> HermesError:
    details = details_of(error)
    if error.code() in _FINAL:
        return CallRefused(details.message, reason=details.reason, metadata=details.metadata)
    return ServiceUnavailable(details.message, retry_after_s=details.retry_after_s)
