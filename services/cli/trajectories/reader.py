"""Reads turns as trajectories from the agent."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from hermes.agent.v1 import trajectory_pb2 as pb
from hermes.agent.v1.trajectory_pb2_grpc import TrajectoryServiceStub
from services.home.trajectories.openai_messages import parse_openai
from services.home.trajectories.trajectory import Trajectory
from services.rpc.streams import resume

PATIENCE_S = 60.0
"""How long to wait for an absent agent."""
MOST_TURNS = 1000
"""Turns that a call may ask for."""


async def read_trajectories(
    stub: TrajectoryServiceStub, profile: str, turn_ids: Sequence[str]
) -> AsyncGenerator[Trajectory | None]:
    """Yield each turn; None for one that has said nothing."""
    if not turn_ids:
        return
    read, data = 0, bytearray()

    def request() -> pb.ExportTrajectoriesRequest:
        data.clear()
        return pb.ExportTrajectoriesRequest(
            turn_ids=turn_ids[read : read + MOST_TURNS], profile=profile
        )

    answers = resume(
        lambda: stub.ExportTrajectories(request()),
        lambda answer: answer.is_last and read == len(turn_ids),
        patience_s=PATIENCE_S,
    )
    async with aclosing(answers):
        async for answer in answers:
            data += answer.data
            if answer.is_last:
                read += 1
                yield parse_openai(bytes(data)) if data else None
                data.clear()
