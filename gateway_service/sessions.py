"""Sessions of chats: their keys, and which one a chat's messages go to."""

from gateway_service.clients import AgentClient
from gateway_service.messages import CLI
from gateway_service.storage import chats
from services.clock import Clock
from services.database import Database
from services.errors import NotFound
from services.ids import new_session_id


def connected_key(platform: str, session_id: str) -> str:
    """The key of a client that is connected: it has no chat but the session that it began."""
    return f"agent:main:{platform}:dm:{session_id}"


class Sessions:
    """The sessions of clients that are connected."""

    def __init__(self, database: Database, agent: AgentClient, clock: Clock) -> None:
        self._database = database
        self._agent = agent
        self._clock = clock

    async def begin(self, profile: str) -> str:
        """A new session, which the agent gets to know by its first message."""
        session_id = new_session_id(self._clock.now().astimezone())
        await self.remember(profile, session_id)
        return session_id

    async def remember(self, profile: str, session_id: str) -> None:
        """Note that a client was given this session, which the agent need not know yet."""
        key, now = connected_key(CLI, session_id), self._clock.now()
        await self._database.write(lambda conn: chats.put(conn, profile, key, session_id, now))

    async def check(self, profile: str, session_id: str) -> None:
        """NotFound unless the session exists or was given to a client of this profile."""
        if await self._database.read(lambda conn: chats.is_known(conn, profile, session_id)):
            return
        if await self._agent.session(session_id, profile) is None:
            raise NotFound(f"there is no session {session_id}; hermes sessions lists them")

    async def latest(self, profile: str, platform: str) -> str | None:
        """The session of the platform that was used last, if there is one."""
        return await self._agent.latest_session(profile, platform)
