"""Honcho as the memory provider: it forms a picture of the user from what is said.

The agent is a peer that observes the user, another one for each profile, so that no profile knows
what another was told.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from pydantic import Field, ValidationError

from agent_service.profiles.memory.provider import ProviderFailed, ProviderTool, Scope, Utterance
from agent_service.records.arguments import ToolArguments

if TYPE_CHECKING:
    from honcho import Honcho, Peer

NAME = "honcho"
CLOUD = "https://api.honcho.dev"
BATCH = 100
"""Honcho takes so many messages at once."""
MESSAGE_CHARS = 25_000
QUERY_CHARS = 2_000
BACKUP_MAX = 10_000
"""A backup has so many conclusions at most, the newest."""

_HEADING = "# What Honcho knows of the user"
_ID = re.compile(r"[^a-zA-Z0-9_-]+")

Reasoning = Literal["minimal", "low", "medium", "high", "max"]


class HonchoSettings(Struct, frozen=True):
    """Where Honcho is and whom it knows."""

    api_key: str = ""
    base_url: str = ""
    workspace: str = "hermes"
    user: str = "user"
    agent: str = "hermes"
    chars: int = 4_000
    """How much the prompt, or a message, gets of it."""
    reasoning: Reasoning = "low"


def lack(settings: HonchoSettings) -> str:
    """Return what Honcho needs to be used; empty if nothing is missing."""
    if not settings.api_key and settings.base_url in ("", CLOUD):
        return "set HONCHO_API_KEY, or HONCHO_BASE_URL for a server of your own"
    return "" if find_spec("honcho") else "hermes-services[honcho] is not installed"


class ContextArguments(ToolArguments):
    """Asks Honcho about the user, and returns its answer in words.

    Honcho reasons about everything it was told, which takes a few seconds. For single facts,
    `honcho_search` is faster.
    """

    query: str = Field(min_length=1, max_length=10_000, description="A question about the user.")


class SearchArguments(ToolArguments):
    """Searches what Honcho has concluded about the user, by meaning."""

    query: str = Field(min_length=1, max_length=10_000, description="What to look for.")
    limit: int = Field(default=10, ge=1, le=50, description="Number of results, at most 50.")


class ConcludeArguments(ToolArguments):
    """Tells Honcho a lasting fact about the user, such as a preference or a correction."""

    conclusion: str = Field(
        min_length=1,
        max_length=10_000,
        description="The fact, in a sentence that stands by itself.",
    )


class HonchoMemory:
    """Honcho's cloud, or a server of one's own, through its SDK."""

    def __init__(self, settings: HonchoSettings, *, has_tools: bool = True) -> None:
        self._settings = settings
        self._has_tools = has_tools
        self._client: Honcho | None = None
        self._peers: dict[str, tuple[Peer, Peer]] = {}

    async def block(self, scope: Scope) -> str:
        return await self._context(scope, _HEADING)

    async def recall(self, scope: Scope, query: str) -> str:
        return await self._context(scope, "", search_query=query[:QUERY_CHARS], search_top_k=10)

    async def sync(self, scope: Scope, said: Sequence[Utterance]) -> None:
        from honcho.api_types import MessageCreateParams, SessionPeerConfig

        async with self._reached(scope) as (agent, user):
            observed = SessionPeerConfig(observe_me=True, observe_others=False)
            observer = SessionPeerConfig(observe_me=False, observe_others=True)
            honcho = await self._connected()
            session = await honcho.aio.session(
                as_id(scope.session_id), peers=[(user, observed), (agent, observer)]
            )
            messages = [
                MessageCreateParams(
                    content=piece, peer_id=(user if each.is_user else agent).id, created_at=each.at
                )
                for each in said
                for piece in _pieces(each.text)
            ]
            for first in range(0, len(messages), BATCH):
                await session.aio.add_messages(messages[first : first + BATCH])

    async def on_session_end(self, scope: Scope) -> None:
        """Ask Honcho to think over what it was told."""
        async with self._reached(scope) as (agent, user):
            honcho = await self._connected()
            await honcho.aio.schedule_dream(agent, as_id(scope.session_id), user)

    def tools(self) -> Sequence[ProviderTool]:
        if not self._has_tools:
            return ()
        return (
            ProviderTool("honcho_context", ContextArguments, self._answer),
            ProviderTool("honcho_search", SearchArguments, self._search),
            ProviderTool("honcho_conclude", ConcludeArguments, self._conclude, saves=True),
        )

    async def backup(self, profile: str) -> bytes:
        async with self._reached(Scope(profile)) as (agent, user):
            card = await agent.aio.get_card(user)
            page = await agent.conclusions_of(user).aio.list(size=100)
            kept: list[dict[str, Any]] = []
            while page is not None and len(kept) < BACKUP_MAX:
                kept += [
                    {"content": c.content, "created_at": str(c.created_at)} for c in page.items
                ]
                page = await page.get_next_page()
        document = {"workspace": self._settings.workspace, "card": card or [], "conclusions": kept}
        return json.dumps(document, ensure_ascii=False, indent=2).encode()

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[None]:
        """Load the SDK, which takes long, and close its connections in the end."""
        client = await self._connected()
        try:
            yield
        finally:
            # The SDK closes its client only with the process.
            await client._async_http_client.close()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    async def _connected(self) -> "Honcho":
        if self._client is None:
            self._client = await asyncio.to_thread(_connect, self._settings)
        return self._client

    async def _context(self, scope: Scope, heading: str, **search: Any) -> str:
        async with self._reached(scope) as (agent, user):
            found = await agent.aio.context(target=user, **search)
        # The card is in the prompt already.
        card = [] if search else [f"- {line}" for line in found.peer_card or ()]
        told = "\n".join((*card, (found.representation or "").strip())).strip()
        return f"{heading}\n{told[: self._settings.chars]}".strip() if told else ""

    async def _answer(self, scope: Scope, arguments: ContextArguments) -> str:
        async with self._reached(scope) as (agent, user):
            level = self._settings.reasoning
            answer = await agent.aio.chat(arguments.query, target=user, reasoning_level=level)
        return answer or "Honcho knows nothing about that yet."

    async def _search(self, scope: Scope, arguments: SearchArguments) -> str:
        async with self._reached(scope) as (agent, user):
            found = await agent.conclusions_of(user).aio.query(arguments.query, arguments.limit)
        lines = [f"- {each.content} ({each.created_at:%Y-%m-%d})" for each in found]
        return "\n".join(lines) or "Nothing was found."

    async def _conclude(self, scope: Scope, arguments: ConcludeArguments) -> str:
        async with self._reached(scope) as (agent, user):
            await agent.conclusions_of(user).aio.create([{"content": arguments.conclusion}])
        return "Honcho remembers it."

    async def _people(self, honcho: "Honcho", scope: Scope) -> "tuple[Peer, Peer]":
        if scope.profile not in self._peers:
            agent = self._settings.agent
            agent = agent if scope.profile == "default" else f"{agent}-{scope.profile}"
            self._peers[scope.profile] = (
                await honcho.aio.peer(as_id(agent)),
                await honcho.aio.peer(as_id(self._settings.user)),
            )
        return self._peers[scope.profile]

    @asynccontextmanager
    async def _reached(self, scope: Scope) -> "AsyncGenerator[tuple[Peer, Peer]]":
        """Yield the agent and the user; errors of the SDK become ProviderFailed."""
        if why := lack(self._settings):
            raise ProviderFailed(why)
        client = await self._connected()
        from honcho.http.exceptions import HonchoError

        try:
            yield await self._people(client, scope)
        except HonchoError as error:
            is_outage = error.status in (0, 401, 403, 429) or error.status >= 500
            why = _explained(error.status, error.message)
            raise ProviderFailed(why, is_outage=is_outage) from error
        except (ValidationError, TypeError, KeyError) as error:
            raise ProviderFailed("Honcho's answer cannot be read", is_outage=True) from error


def _connect(settings: HonchoSettings) -> "Honcho":
    from honcho import Honcho

    return Honcho(
        api_key=settings.api_key or None,
        base_url=settings.base_url or CLOUD,
        workspace_id=as_id(settings.workspace),
        timeout=60.0,
        max_retries=0,
    )


def _explained(status: int, message: str) -> str:
    match status:
        case 401 | 403:
            return "Honcho does not accept the key: check HONCHO_API_KEY"
        case 0:
            return f"Honcho cannot be reached: {message}"
        case _:
            return f"Honcho answered with status {status}: {message[:200]}"


def as_id(text: str) -> str:
    """Return a name as Honcho takes it as an id; different names have different ids."""
    plain = _ID.sub("-", text)
    if plain == text and len(text) <= 100:
        return text
    return f"{plain[:80]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _pieces(text: str) -> Sequence[str]:
    return [text[at : at + MESSAGE_CHARS] for at in range(0, len(text), MESSAGE_CHARS)]
