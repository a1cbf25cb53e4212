"""The services that the scheduler calls."""

from functools import cached_property

import grpc
import grpc.aio

from hermes.agent.v1 import turn_event_pb2, turn_pb2, turn_pb2_grpc
from hermes.common.v1 import content_pb2, origin_pb2
from hermes.gateway.v1 import delivery_pb2, delivery_pb2_grpc
from scheduler_service.convert.common import origin_to_wire
from scheduler_service.convert.jobs import unattended_to_wire
from scheduler_service.errors import CallRefused
from scheduler_service.jobs import Claim, Origin
from scheduler_service.runner import TurnResult
from services.channels import Channels
from services.errors import HermesError, ServiceUnavailable, details_of

_CALL_S = 10.0
# Only how a turn ends matters here.
_DELTAS_PER_SECOND = 1

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

    async def start(self, claim: Claim) -> None:
        """Start the run's turn, in a session of its own."""
        origin = claim.job.origin or Origin(platform="scheduler", chat_id=claim.job.id)
        request = turn_pb2.StartTurnRequest(
            turn_id=claim.run_id,
            profile=claim.job.profile,
            session_id=claim.session_id,
            parts=[content_pb2.MessagePart(text=claim.job.prompt)],
            origin=origin_to_wire(origin, origin_pb2.TRUST_SERVICE),
            kind=turn_pb2.TURN_KIND_JOB,
            busy_mode=turn_pb2.BUSY_MODE_QUEUE,
            sandbox_template=claim.job.sandbox_template,
            unattended=unattended_to_wire(claim.job),
        )
        try:
            await self._turns.StartTurn(request, timeout=_CALL_S)
        except grpc.aio.AioRpcError as error:
            raise _explained(error) from error

    def watch(self, claim: Claim) -> "AgentTurnWatch":
        """Watch the run's turn from its beginning."""
        return AgentTurnWatch(self._turns, claim.run_id, claim.job.profile)


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

    async def deliver(self, claim: Claim, text: str) -> None:
        """Hand over the text for the chat that the job came from."""
        assert claim.job.origin is not None
        request = delivery_pb2.DeliverRequest(
            delivery_id=claim.run_id,
            profile=claim.job.profile,
            destination=origin_to_wire(claim.job.origin, origin_pb2.TRUST_SERVICE),
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
            return TurnResult("", finished.failed.failure.message or "the turn failed")
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
