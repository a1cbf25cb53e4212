"""HomeService."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from agent_service.profiles.home.base import Existing, ImportedFiles
from agent_service.profiles.home.mover import HomeMover
from agent_service.servicer.fields import Context, chosen, profile_of
from hermes.agent.v1 import home_pb2 as pb
from hermes.agent.v1.home_pb2_grpc import HomeServiceServicer
from services.errors import InvalidArgument
from services.home.files import HomeFile, SkippedFile
from services.rpc.auth import caller
from services.rpc.messages import message_of

_USUAL_MODE = 0o600


class HomeServicer(HomeServiceServicer):
    """Serves export and import of homes."""

    def __init__(self, moving: HomeMover) -> None:
        self._moving = moving

    async def ExportHome(
        self, request: pb.ExportHomeRequest, context: Context
    ) -> AsyncGenerator[pb.ExportHomeResponse]:
        outgoing = await self._moving.outgoing(request.profiles, with_secrets=request.with_secrets)
        yield pb.ExportHomeResponse(
            summary=pb.ExportHomeSummary(
                profiles=outgoing.profiles,
                file_count=len(outgoing.files),
                size_bytes=sum(file.size_bytes for file in outgoing.files),
                left_out=map(_left_out, outgoing.left_out),
            )
        )
        for file in outgoing.files:
            head = message_of(file, pb.HomeFile)
            async with aclosing(self._moving.read(outgoing, file)) as pieces:
                async for piece in pieces:
                    yield pb.ExportHomeResponse(file=head, data=piece)
                    head = None
            if head is not None:
                yield pb.ExportHomeResponse(file=head)

    async def ImportHome(
        self, request_iterator: AsyncIterator[pb.ImportHomeRequest], context: Context
    ) -> pb.ImportHomeResponse:
        profiles: dict[str, None] = {}
        async with self._moving.incoming() as incoming:
            async for request in request_iterator:
                if request.finish:
                    existing = chosen(
                        Existing, pb.ExistingFiles, request.existing, "existing", Existing.REFUSE
                    )
                    if request.dry_run:
                        planned = await self._moving.plan(incoming, [*profiles], existing)
                        return _import_response(planned, 0)
                    put = self._moving.put(incoming, [*profiles], existing, caller())
                    return _import_response(*await put)
                if request.HasField("file"):
                    file = _file(request.file)
                    profiles[file.profile] = None
                    await incoming.add(file)
                await incoming.write(request.data)
        raise InvalidArgument("the end is missing", fields={"finish": "in the last request"})


def _file(given: pb.HomeFile) -> HomeFile:
    return HomeFile(
        profile_of(given.profile), given.path, given.size_bytes, given.mode or _USUAL_MODE
    )


def _import_response(became: ImportedFiles, session_count: int) -> pb.ImportHomeResponse:
    return pb.ImportHomeResponse(
        added_count=len(became.added),
        replaced_count=len(became.replaced),
        kept_count=len(became.kept),
        unchanged_count=len(became.unchanged),
        left_out=map(_left_out, became.left_out),
        session_count=session_count,
    )


def _left_out(one: SkippedFile) -> pb.HomeFileLeftOut:
    return pb.HomeFileLeftOut(profile=one.profile, path=one.path, reason=one.why)
