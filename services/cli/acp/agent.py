"""The agent that an editor talks to over ACP: a client of the gateway and the agent service."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import acp
import acp.interfaces
import grpc.aio
from acp import schema
from acp.helpers import update_available_commands

from hermes.agent.v1.session_pb2 import (
    BranchSessionRequest,
    GetSessionRequest,
    ListSessionsRequest,
    Session,
)
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.agent.v1.turn_pb2 import GetTurnRequest
from hermes.agent.v1.turn_pb2_grpc import TurnServiceStub
from hermes.common.v1.content_pb2 import ContextFile
from hermes.gateway.v1.conversation_pb2 import ConverseRequest, ListCommandsRequest, SlashCommand
from hermes.gateway.v1.conversation_pb2_grpc import ConversationServiceStub
from services.cli.acp.history import history
from services.cli.acp.prompt import Editor, read_prompt
from services.cli.acp.session import MODES, EditorSession
from services.cli.acp.updates import Folder, answer
from services.cli.chat.attachments import upload
from services.cli.chat.command import why_not_mounted
from services.cli.chat.dialogue import Dialogue
from services.cli.chat.downloads import Downloads
from services.cli.failures import EXPECTED, explain
from services.cli.sessions.messages import last_messages
from services.config.settings import Settings
from services.errors import InvalidArgument
from services.home.message_files import Attachment
from services.home.project_notes import notes_above
from services.ids import new_session_id
from services.lifecycle import Workers
from services.rpc.channels import Channels

CLI = "cli"
"""The platform of conversations at a terminal or in an editor."""
SETUP = schema.AuthMethodAgent(
    id="setup",
    name="Choose a model",
    description="Run `hermes setup` in a terminal, then try again.",
)
OPEN_S = 30.0
"""How long a conversation may take to open."""
_INVALID, _INTERNAL = -32602, -32603


class Connection:
    """Channels to the services, which connect while the editor already talks to us."""

    def __init__(self) -> None:
        self.wanted = asyncio.Event()
        self._outcome = asyncio.Future[Channels]()

    async def channels(self) -> Channels:
        """Return the channels; after a failure, connect again."""
        self.wanted.set()
        return await asyncio.shield(self._outcome)

    @property
    def is_open(self) -> bool:
        return self._outcome.done()

    def succeed(self, channels: Channels) -> None:
        self._outcome.set_result(channels)

    def fail(self, error: acp.RequestError) -> None:
        """Fail those who wait; the next one connects again."""
        failed, self._outcome = self._outcome, asyncio.Future[Channels]()
        self.wanted.clear()
        failed.set_exception(error)
        failed.exception()  # perhaps nobody waits


class HermesAgent:
    """Serves one editor."""

    def __init__(self, settings: Settings, profile: str, workers: Workers) -> None:
        self.connection = Connection()
        self._settings = settings
        self._profile = profile
        self._workers = workers
        self._client: acp.interfaces.Client | None = None
        self._capabilities = schema.ClientCapabilities()
        self._sessions: dict[str, EditorSession] = {}

    def on_connect(self, conn: acp.interfaces.Client) -> None:
        self._client = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        **kwargs: Any,
    ) -> schema.InitializeResponse:
        self._capabilities = client_capabilities or self._capabilities
        release = await asyncio.to_thread(version, "hermes-services")
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="hermes", title="Hermes", version=release),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(
                    image=True, audio=True, embedded_context=True
                ),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[SETUP],
        )

    async def authenticate(self, method_id: str, **kwargs: Any) -> None:
        await self.connection.channels()

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[Any] | None = None, **kwargs: Any
    ) -> schema.NewSessionResponse:
        async with _reported():
            folder = _absolute(cwd)
            why = await asyncio.to_thread(why_not_mounted, self._settings, folder)
            session = await self._open(Folder(folder, is_mounted=not why, why_not=why))
            session_id = session.editor.session_id
            if names := ", ".join(server.name for server in mcp_servers or ()):
                text = f"Hermes does not use the MCP servers of your editor ({names}). Add them "
                text += "with `hermes mcp add`, which runs them in sandboxes.\n\n"
                self._workers.start("notice", self._tell(session, text))
            return schema.NewSessionResponse(session_id=session_id, modes=session.modes())

    async def load_session(
        self, cwd: str, session_id: str, **kwargs: Any
    ) -> schema.LoadSessionResponse:
        async with _reported():
            session = await self._resume(session_id, cwd, replays=True)
            return schema.LoadSessionResponse(modes=session.modes())

    async def resume_session(
        self, session_id: str, cwd: str, **kwargs: Any
    ) -> schema.ResumeSessionResponse:
        async with _reported():
            session = await self._resume(session_id, cwd)
            return schema.ResumeSessionResponse(modes=session.modes())

    async def fork_session(
        self, session_id: str, cwd: str, **kwargs: Any
    ) -> schema.ForkSessionResponse:
        async with _reported():
            _absolute(cwd)  # before the branch is made
            known, stub = self._sessions.get(session_id), await self._session_service()
            request = BranchSessionRequest(
                session_id=known.session_id if known else session_id,
                profile=self._profile,
                new_session_id=new_session_id(datetime.now(UTC).astimezone()),
            )
            made = (await stub.BranchSession(request)).session.session_id
            session = await self._resume(made, cwd)
            return schema.ForkSessionResponse(session_id=made, modes=session.modes())

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: Any
    ) -> schema.ListSessionsResponse:
        async with _reported():
            stub = await self._session_service()
            request = ListSessionsRequest(
                profile=self._profile, platform=CLI, page_token=cursor or ""
            )
            page = await stub.ListSessions(request)
            found = [
                schema.SessionInfo(
                    session_id=session.session_id,
                    cwd=session.workdir or cwd or str(Path.home()),
                    title=session.title,
                    updated_at=session.update_time.ToJsonString(),
                )
                for session in page.sessions
                if not cwd or session.workdir in ("", cwd)
            ]
            token = page.next_page_token or None
            return schema.ListSessionsResponse(sessions=found, next_cursor=token)

    async def close_session(self, session_id: str, **kwargs: Any) -> None:
        if session := self._sessions.pop(session_id, None):
            session.close()

    async def set_session_mode(self, mode_id: str, session_id: str, **kwargs: Any) -> None:
        async with _reported():
            if mode_id not in MODES:
                raise InvalidArgument(f"there is no mode {mode_id}; choose {', '.join(MODES)}")
            (await self._session(session_id)).mode = mode_id

    async def prompt(
        self, session_id: str, prompt: list[Any], **kwargs: Any
    ) -> schema.PromptResponse:
        async with _reported():
            session = await self._session(session_id)
            message = await read_prompt(prompt, session.editor, session.folder)
            if message.text.startswith("!") and self._capabilities.terminal:
                reason = await session.run_command(message.text[1:].strip())
                return schema.PromptResponse(stop_reason=reason)
            agent = (await self.connection.channels()).to("agent")
            files = [*message.files]
            if session.said:
                output = "\n".join(session.said).encode()
                files.append(Attachment("terminal.txt", output))
                session.said.clear()
            reason = await session.prompt(message.text, await upload(agent, files))
            with suppress(*EXPECTED):
                await self._show_title(session)
            return schema.PromptResponse(stop_reason=reason)

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        if session := self._sessions.get(session_id):
            session.cancel()

    async def _session_service(self) -> SessionServiceStub:
        return SessionServiceStub((await self.connection.channels()).to("agent"))

    async def _get_session(self, session_id: str) -> Session:
        request = GetSessionRequest(session_id=session_id, profile=self._profile)
        return (await (await self._session_service()).GetSession(request)).session

    async def _session(self, session_id: str) -> EditorSession:
        """Return an open session, opened again if the gateway was away for long."""
        session = self._sessions.get(session_id)
        if session is None:
            raise InvalidArgument(f"the session {session_id} is not open")
        if session.is_over:
            mode, folder = session.mode, str(session.folder.path)
            session = await self._resume(session.session_id, folder, session_id)
            session.mode = mode
        return session

    async def _resume(
        self, session_id: str, cwd: str, name: str = "", *, replays: bool = False
    ) -> EditorSession:
        """Open a session that exists; `name` is what the editor calls it, its id by default."""
        given = _absolute(cwd)
        found = await self._get_session(session_id)
        folder = Folder(Path(found.workdir or given), is_mounted=bool(found.workdir))
        live = await self._live_turn(found)
        if replays:
            agent = (await self.connection.channels()).to("agent")
            async for update in history(agent, found, self._profile, folder, live):
                await self._editor(session_id).update(update)
        return await self._open(folder, session_id, live, name or session_id)

    def _editor(self, session_id: str) -> Editor:
        assert self._client is not None, "the editor calls"
        return Editor(self._client, self._capabilities, session_id)

    async def _live_turn(self, session: Session) -> str:
        """Return the unfinished turn of a session, or empty."""
        agent = (await self.connection.channels()).to("agent")
        messages = await last_messages(SessionServiceStub(agent), session, self._profile)
        for message in messages[-1:]:
            named = GetTurnRequest(turn_id=message.turn_id, profile=self._profile)
            with suppress(grpc.aio.AioRpcError):  # a branch has messages of other sessions' turns
                turn = (await TurnServiceStub(agent).GetTurn(named)).turn
                if not turn.HasField("finish_time") and turn.session_id == session.session_id:
                    return turn.turn_id
        return ""

    async def _open(
        self, folder: Folder, session_id: str = "", live_turn: str = "", name: str = ""
    ) -> EditorSession:
        """Open a conversation, a new one by default; shows all of its unfinished turn."""
        gateway = (await self.connection.channels()).to("gateway")
        opening = ConverseRequest.Open(
            profile=self._profile, session_id=session_id, takes_news=True
        )
        if not session_id and folder.is_mounted:
            opening.workdir = str(folder.path)
            notes = await asyncio.to_thread(notes_above, folder.path, os.geteuid())
            if notes is not None:
                opening.context_file.CopyFrom(ContextFile(path=notes.path, text=notes.text))
        if live_turn:
            opening.watched_turns.add(turn_id=live_turn)
        session = EditorSession(
            self._editor(name),
            Dialogue(gateway, opening),
            Downloads(gateway, self._profile, self._settings.home),
            folder,
            self._workers,
        )
        await session.open(OPEN_S)
        self._sessions[session.editor.session_id] = session
        self._workers.start("introduction", self._introduce(session, gateway))
        return session

    async def _introduce(self, session: EditorSession, gateway: grpc.aio.Channel) -> None:
        """Tell the editor of the slash commands, and where the session does not work."""
        with suppress(*EXPECTED, ConnectionError):
            request = ListCommandsRequest(profile=self._profile)
            known = await ConversationServiceStub(gateway).ListCommands(request)
            await session.editor.update(update_available_commands(map(_command, known.commands)))
        if session.folder.why_not:
            text = f"This session has a workspace of its own: {session.folder.why_not}.\n\n"
            await self._tell(session, text)

    async def _tell(self, session: EditorSession, text: str) -> None:
        with suppress(*EXPECTED, ConnectionError):
            for update in answer(text):
                await session.editor.update(update)

    async def _show_title(self, session: EditorSession) -> None:
        found = await self._get_session(session.session_id)
        await session.editor.update(
            schema.SessionInfoUpdate(
                session_update="session_info_update",
                title=found.title,
                updated_at=found.update_time.ToJsonString(),
            )
        )


def _absolute(cwd: str) -> Path:
    """Return the folder of a session; InvalidArgument unless it is absolute."""
    if not Path(cwd).is_absolute():
        raise InvalidArgument(f"cwd must be an absolute path, not {cwd!r}")
    return Path(cwd)


def _command(command: SlashCommand) -> schema.AvailableCommand:
    hint = schema.UnstructuredCommandInput(hint=" | ".join(command.words) or "…")
    return schema.AvailableCommand(
        name=command.name, description=command.help, input=schema.AvailableCommandInput(hint)
    )


@asynccontextmanager
async def _reported() -> AsyncGenerator[None]:
    """Report failures that are expected to the editor."""
    try:
        yield
    except InvalidArgument as error:
        raise acp.RequestError(_INVALID, error.message) from error
    except EXPECTED as error:
        raise acp.RequestError(_INTERNAL, explain(error)) from error
