"""TrajectoryService."""

from collections.abc import AsyncGenerator

import msgspec

from agent_service.servicer.fields import Context, profile_of
from agent_service.sessions.trajectory_format import TrajectoryReader
from hermes.agent.v1 import trajectory_pb2 as pb
from hermes.agent.v1.trajectory_pb2_grpc import TrajectoryServiceServicer
from services.errors import InvalidArgument
from services.home.trajectories.openai_messages import openai_record

MOST_TURNS = 1000
_PIECE_BYTES = 1024 * 1024


class TrajectoryServicer(TrajectoryServiceServicer):
    """Serves turns as data to train with."""

    def __init__(self, reader: TrajectoryReader) -> None:
        self._reader = reader

    async def ExportTrajectories(
        self, request: pb.ExportTrajectoriesRequest, context: Context
    ) -> AsyncGenerator[pb.ExportTrajectoriesResponse]:
        if len(request.turn_ids) > MOST_TURNS:
            raise InvalidArgument("too many turns", fields={"turn_ids": f"at most {MOST_TURNS}"})
        profile, reader = profile_of(request.profile), self._reader.for_many()
        for turn_id in request.turn_ids:
            found = await reader.read(profile, turn_id)
            data = b"" if found is None else msgspec.json.encode(openai_record(found))
            for start in range(0, len(data) or 1, _PIECE_BYTES):
                end = start + _PIECE_BYTES
                yield pb.ExportTrajectoriesResponse(
                    turn_id=turn_id, data=data[start:end], is_last=end >= len(data)
                )
