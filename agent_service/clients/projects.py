"""Context files of the folders that sessions work in."""

import asyncio
import logging

import grpc.aio
from google.protobuf.duration_pb2 import Duration

from agent_service.clients.commands import OneSandbox
from agent_service.clients.executors import Executors
from agent_service.clients.files import SessionFiles
from agent_service.clients.leases import HeldSandbox
from agent_service.records.requests import TurnRequest
from agent_service.records.sandbox import SandboxUnavailable
from agent_service.security.threats import Screened
from agent_service.tools.context_files import NOTHING, ContextFiles, skips_context_files
from hermes.executor.v1 import sandbox_pb2
from services.errors import message_of
from services.ids import new_id

READ_S = 10.0

_log = logging.getLogger(__name__)


class Projects:
    """Reads context files of new sessions' folders."""

    def __init__(self, executors: Executors, context_files: ContextFiles) -> None:
        self._executors = executors
        self._context_files = context_files

    async def read(self, request: TurnRequest, template: str) -> Screened:
        """Return the context files for the session that a turn creates.

        The sandbox that this claims is the session's: its first tool call uses it.
        """
        skips, asked = skips_context_files(request), request.new_session
        if not asked.workdir or skips:
            return NOTHING
        try:
            async with asyncio.timeout(READ_S):
                files = SessionFiles(OneSandbox(await self._claim(request, template)))
                return await self._context_files.project(files, asked.context_file)
        except (SandboxUnavailable, TimeoutError) as error:
            why = str(error)
        except grpc.aio.AioRpcError as error:
            why = message_of(error)
        _log.warning("the notes of %s cannot be read: %s", asked.workdir, why)
        return NOTHING

    async def _claim(self, request: TurnRequest, template: str) -> HeldSandbox:
        asked = sandbox_pb2.AcquireSandboxRequest(
            request_id=new_id("acq"),
            profile=request.profile,
            session_id=request.session_id,
            template=template,
            workdir=request.new_session.workdir,
            wait=Duration(seconds=round(READ_S)),
        )
        answer = await self._executors.acquire(asked, "", "")
        return HeldSandbox.from_answer(self._executors, asked.profile, answer, asked.workdir)
