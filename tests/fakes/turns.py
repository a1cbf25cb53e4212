"""An agent that is scripted by its prompts, as a real TurnService at the wire.

The prompt says how its turn ends: `answer TEXT`, `fail TEXT`, `refuse TEXT`, `stop TEXT`,
`limit TEXT`, `review TEXT`, or `wait`, which lasts until the test calls `release` or somebody
interrupts it, as `say` does, which first writes its text. `busy TEXT`, `later TEXT` (in an hour)
and `unpaid TEXT` answer at the second attempt of a batch.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import grpc
import grpc.aio

from hermes.agent.v1 import turn_event_pb2 as events
from hermes.agent.v1 import turn_pb2, turn_pb2_grpc, upload_pb2, upload_pb2_grpc
from hermes.common.v1 import error_pb2, usage_pb2
from services.errors import AlreadyExists
from tests.fakes.executor import fail

Context = grpc.aio.ServicerContext[Any, Any]


_REASONS = {
    "fail": error_pb2.ERROR_REASON_MODEL_UNAVAILABLE,
    "refuse": error_pb2.ERROR_REASON_MODEL_CONTENT_POLICY,
    "busy": error_pb2.ERROR_REASON_MODEL_RATE_LIMITED,
    "later": error_pb2.ERROR_REASON_MODEL_RATE_LIMITED,
    "unpaid": error_pb2.ERROR_REASON_MODEL_BILLING,
}


class FakeTurns(turn_pb2_grpc.TurnServiceServicer, upload_pb2_grpc.UploadServiceServicer):
    """Remembers the turns, and can be told to be unreachable or to cut its streams."""

    def __init__(self) -> None:
        self.requests: dict[str, turn_pb2.StartTurnRequest] = {}
        self.uploads: dict[bytes, bytes] = {}
        """Files by digest."""
        self.stopped: list[str] = []
        self.start_calls: Counter[str] = Counter()
        self.missed: set[str] = set()
        """Turns that somebody has wanted to stop before they started."""
        self.watched_after: defaultdict[str, list[int]] = defaultdict(list)
        self.unreachable = False
        self.refused = 0
        """Calls that have not reached it."""
        self.queues = False
        """Turns wait for work in progress."""
        self.tells_nobody = False
        """Turns are started, and whoever has asked for them does not hear of it."""
        self.cuts = 0
        """How many of the next streams end after an event, without the last one."""
        self.refusal: grpc.StatusCode | None = None
        self._released: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._changed = asyncio.Condition()

    def release(self, turn_id: str) -> None:
        """Let a waiting turn end."""
        self._released[turn_id].set()

    async def started(self, count: int) -> list[str]:
        """Return the ids of the turns once there are so many."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)
        return list(self.requests)

    async def sought(self, turn_id: str) -> None:
        """Return once somebody has wanted to stop a turn that has not started."""
        async with self._changed:
            await self._changed.wait_for(lambda: turn_id in self.missed)

    async def watched(self, turn_id: str, count: int) -> None:
        """Return once the turn has been watched so many times."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.watched_after[turn_id]) >= count)

    async def StartTurn(
        self, request: turn_pb2.StartTurnRequest, context: Context
    ) -> turn_pb2.StartTurnResponse:
        await self._check(context)
        self.start_calls[request.turn_id] += 1
        known = self.requests.get(request.turn_id)
        if known is not None and known != request:
            await fail(context, AlreadyExists("another turn has this id"))
        async with self._changed:
            self.requests[request.turn_id] = request
            self._changed.notify_all()
        if self.tells_nobody:
            await asyncio.Event().wait()
        turn = turn_pb2.Turn(turn_id=request.turn_id)
        if self.queues:
            turn.state = turn_pb2.TURN_STATE_QUEUED
        return turn_pb2.StartTurnResponse(turn=turn)

    async def WatchTurn(
        self, request: turn_pb2.WatchTurnRequest, context: Context
    ) -> AsyncIterator[turn_pb2.WatchTurnResponse]:
        await self._check(context)
        if request.turn_id not in self.requests:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such turn")
        async with self._changed:
            self.watched_after[request.turn_id].append(request.after_sequence)
            self._changed.notify_all()
        started = events.TurnStarted(session_id=self.requests[request.turn_id].session_id)
        if request.after_sequence < 1:
            yield _response(events.TurnEvent(sequence=1, turn_started=started))
        how, _, text = self._prompt(request).partition(" ")
        shown = text if how == "say" else "…"
        if not request.ended_only:
            yield _response(events.TurnEvent(text_delta=events.TextDelta(step=1, text=shown)))
        if self.cuts:
            self.cuts -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was cut")
        yield _response(events.TurnEvent(sequence=2, turn_finished=await self._end(request)))

    async def UploadFile(
        self, request_iterator: AsyncIterator[upload_pb2.UploadFileRequest], context: Context
    ) -> upload_pb2.UploadFileResponse:
        header = (await anext(request_iterator)).header
        data = b"".join([request.chunk async for request in request_iterator])
        assert (len(data), sha256(data).digest()) == (header.length_bytes, header.sha256)
        async with self._changed:
            self.uploads[header.sha256] = data
            self._changed.notify_all()
        return upload_pb2.UploadFileResponse()

    async def uploaded(self, count: int) -> None:
        """Return once there are so many files."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.uploads) >= count)

    async def GetTurn(
        self, request: turn_pb2.GetTurnRequest, context: Context
    ) -> turn_pb2.GetTurnResponse:
        return turn_pb2.GetTurnResponse(turn=turn_pb2.Turn(turn_id=request.turn_id))

    async def InterruptTurn(
        self, request: turn_pb2.InterruptTurnRequest, context: Context
    ) -> turn_pb2.InterruptTurnResponse:
        await self._check(context)
        if request.turn_id not in self.requests:
            async with self._changed:
                self.missed.add(request.turn_id)
                self._changed.notify_all()
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such turn")
        self.stopped.append(request.turn_id)
        self.release(request.turn_id)
        return turn_pb2.InterruptTurnResponse(turn=turn_pb2.Turn(turn_id=request.turn_id))

    def _prompt(self, request: turn_pb2.WatchTurnRequest) -> str:
        parts = self.requests[request.turn_id].parts
        return parts[0].text if parts else ""

    async def _check(self, context: Context) -> None:
        if self.unreachable:
            self.refused += 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the agent is away")
        if self.refusal is not None:
            await context.abort(self.refusal, "no model is configured")

    async def _end(self, request: turn_pb2.WatchTurnRequest) -> events.TurnFinished:
        how, _, text = self._prompt(request).partition(" ")
        match how:
            case "fail" | "refuse" | "busy" | "later" | "unpaid" if how in (
                "fail",
                "refuse",
            ) or not request.turn_id.endswith(".a2"):
                failure = error_pb2.Failure(reason=_REASONS[how], message=text)
                if how == "later":
                    failure.retry_after.FromSeconds(3600)
                return events.TurnFinished(failed=events.Failed(failure=failure))
            case "stop":
                return events.TurnFinished(cancelled=events.Cancelled(partial_answer=text))
            case "limit":
                limit = events.LimitReached(message="too many calls", partial_answer=text)
                return events.TurnFinished(limit_reached=limit)
            case "review":
                return events.TurnFinished(needs_review=events.NeedsReview(message=text))
            case "wait" | "say":
                await self._released[request.turn_id].wait()
                if request.turn_id in self.stopped:
                    return events.TurnFinished(cancelled=events.Cancelled(partial_answer=text))
            case _:
                pass
        usage = usage_pb2.Usage(prompt_tokens=10, completion_tokens=2, cost_micro_usd=500)
        return events.TurnFinished(completed=events.Completed(answer=text), usage=usage)


def _response(event: events.TurnEvent) -> turn_pb2.WatchTurnResponse:
    return turn_pb2.WatchTurnResponse(events=[event])


@asynccontextmanager
async def served_turns(
    *handlers: "grpc.GenericRpcHandler[Any, Any]",
    address: str = "127.0.0.1:0",
    turns: FakeTurns | None = None,
) -> AsyncGenerator[tuple[FakeTurns, str]]:
    """An agent at the wire, with more than turns if there are handlers, and where it is reached."""
    turns, server = turns or FakeTurns(), grpc.aio.server()
    turn_pb2_grpc.add_TurnServiceServicer_to_server(turns, server)
    upload_pb2_grpc.add_UploadServiceServicer_to_server(turns, server)
    server.add_generic_rpc_handlers(handlers)
    port = server.add_insecure_port(address)
    await server.start()
    try:
        yield turns, address.replace(":0", f":{port}")
    finally:
        await server.stop(None)
