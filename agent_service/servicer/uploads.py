"""UploadService."""

from collections.abc import AsyncIterator
from functools import partial

from agent_service.servicer.fields import Context
from agent_service.storage import uploads
from hermes.agent.v1 import upload_pb2, upload_pb2_grpc
from services.clock import Clock
from services.database import Database
from services.errors import InvalidArgument
from services.rpc.uploads import read_contents, wrong_contents


class UploadServicer(upload_pb2_grpc.UploadServiceServicer):
    """Stores files of messages."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def UploadFile(
        self, request_iterator: AsyncIterator[upload_pb2.UploadFileRequest], context: Context
    ) -> upload_pb2.UploadFileResponse:
        """Store a whole file, or nothing; a file that is stored already is not read again."""
        first = await anext(request_iterator, upload_pb2.UploadFileRequest())
        if not first.HasField("header"):
            raise InvalidArgument("a file begins with its header", fields={"header": "is missing"})
        length_bytes, sha256 = first.header.length_bytes, first.header.sha256
        if wrong := wrong_contents(length_bytes, sha256):
            fields = {f"header.{field}": problem for field, problem in wrong.items()}
            raise InvalidArgument("this cannot be stored", fields=fields)
        name, now = sha256.hex(), self._clock.now()
        if not await self._database.write(partial(uploads.touch, sha256=name, now=now)):
            data = await read_contents(request_iterator, length_bytes, sha256)
            await self._database.write(partial(uploads.put, sha256=name, data=data, now=now))
        return upload_pb2.UploadFileResponse()
