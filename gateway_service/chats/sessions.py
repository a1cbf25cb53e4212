"""Sessions of chats: their keys, and which session a chat's messages go to."""

from msgspec import Struct
from sqlalchemy import Connection

from gateway_service.clients import AgentClient
from gateway_service.config import GatewayConfig
from gateway_service.messages import CLI, Source
from gateway_service.storage import chats
from services.clock import Clock
from services.database import Database
from services.errors import NotFound
from services.ids import new_session_id


def session_key(source: Source) -> str:
    """Return the key of a chat's session; the same for all who share it."""
    thread = (source.thread_id,) if source.thread_id else ()
    parts = ("agent", "main", source.platform, source.chat_type, source.chat_id, *thread)
    is_own = source.chat_type != "dm" and not source.is_shared
    return ":".join((*parts, source.user_id) if is_own else parts)


def is_shared(source: Source, config: GatewayConfig) -> bool:
    """Return whether several people may share the chat's session."""
    if source.chat_type == "dm":
        return False
    per_user = (
        config.thread_sessions_per_user if source.thread_id else config.group_sessions_per_user
    )
    return not (per_user and source.user_id)


def client_key(chat_id: str, platform: str = CLI) -> str:
    """Return the key of a connected client, whose chat is the session that it began."""
    return session_key(Source(platform=platform, chat_id=chat_id))


class Sessions(Struct, frozen=True):
    """The sessions of connected clients."""

    _database: Database
    _agent: AgentClient
    _clock: Clock

    async def begin(self, profile: str) -> str:
        """Return a new session, which the agent creates with its first message."""
        session_id = new_session_id(self._clock.now().astimezone())
        await self.remember(profile, session_id)
        return session_id

    async def remember(self, profile: str, session_id: str, after: str = "") -> None:
        """Store a client's session, which the agent may not know yet.

        It inherits the chat settings of the session `after`, if any.
        """
        key, now = client_key(session_id), self._clock.now()

        def write(conn: Connection) -> None:
            chats.put(conn, profile, key, session_id, now)
            if after and (mode := chats.busy_mode(conn, profile, client_key(after))):
                chats.choose_busy_mode(conn, profile, key, session_id, mode, now)

        await self._database.write(write)

    async def find(self, profile: str, named: str) -> str:
        """Return a session by id, or the last used one by title; NotFound if there is none."""
        if await self._database.read(lambda conn: chats.is_known(conn, profile, named)):
            return named
        if await self._agent.session(named, profile) is not None:
            return named
        found = await self._agent.latest_session(profile, title=named)
        if found is None:
            raise NotFound(f"there is no session {named!r}; see hermes sessions list")
        return found.session_id

    async def latest(self, profile: str, platform: str) -> str | None:
        found = await self._agent.latest_session(profile, platform=platform)
        return None if found is None else found.session_id
