"""discord.py's client without its own retries: what fails is ours to judge."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from gateway_service.errors import (
    AccountRefused,
    MessageGone,
    OutcomeUnknown,
    PlatformError,
    RateLimited,
    Refused,
    Unreachable,
    no_answer,
)

if TYPE_CHECKING:
    from aiohttp import ClientResponse, TraceRequestEndParams, TraceRequestStartParams
    from discord import Client

CALL_S = 20.0
REQUESTS_PER_SECOND, BURST = 40, 5
"""Discord refuses more than 50 that arrive in a second."""
LONGEST_WAIT_S = 5.0
DEFAULT_WAIT_S = 5.0
GUILDS_S = 0.5
"""How soon the next of our servers is announced after connecting."""

UNKNOWN_MESSAGE, NO_CONTENT = 10008, 4014
EPHEMERAL = 64
"""The flag of messages that only one person sees."""
_UNLIMITED = "/interactions/"
"""What does not count, as its answer is due within seconds."""
READS_MESSAGES = 1 << 18 | 1 << 19
"""The flags of applications that get the content of messages."""
CHECK_TOKEN = "discord does not know this bot; check DISCORD_BOT_TOKEN"  # noqa: S105 - no token


def make_client(base_url: str, handlers: Mapping[str, Callable[..., None]]) -> "Client":
    """Return a client that gives its events to handlers; the library takes long to load."""
    import discord
    from aiohttp import TraceConfig
    from discord.http import Route

    class Client(discord.Client):
        def dispatch(self, event: str, /, *args: Any, **_: Any) -> None:
            """Handle an event at once and in order; the library would start a task for each."""
            if handle := handlers.get(event):
                handle(*args)

    Route.BASE = base_url
    discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False
    intents = discord.Intents(guilds=True, messages=True, reactions=True, message_content=True)
    trace = TraceConfig()
    trace.on_request_start.append(Pace().keep)
    trace.on_request_end.append(_check)
    return Client(
        intents=intents,
        chunk_guilds_at_startup=False,
        guild_ready_timeout=GUILDS_S,
        http_trace=trace,
        max_messages=None,
        max_ratelimit_timeout=30.0,
        member_cache_flags=discord.MemberCacheFlags.none(),
    )


class Pace:
    """Keeps all requests of a bot together within what Discord allows."""

    def __init__(self) -> None:
        self._next_at = 0.0

    async def keep(
        self, _session: object, _context: object, begun: "TraceRequestStartParams"
    ) -> None:
        """Wait for a request's turn; raises RateLimited if that is far off."""
        if _UNLIMITED in begun.url.path:
            return
        now = asyncio.get_running_loop().time()
        at = max(self._next_at, now - BURST / REQUESTS_PER_SECOND)
        if at - now > LONGEST_WAIT_S:
            raise RateLimited("too much is to be sent to discord at once", at - now)
        self._next_at = at + 1 / REQUESTS_PER_SECOND
        await asyncio.sleep(at - now)


async def _check(_session: object, _context: object, ended: "TraceRequestEndParams") -> None:
    """Raise our error for a refusal, before the library waits and tries again by itself."""
    if ended.response.status >= 400:
        raise await _refusal(ended.response)


async def _refusal(response: "ClientResponse") -> PlatformError:
    status = response.status
    try:
        body = await response.json(content_type=None)
        code, said = int(body.get("code", 0)), str(body["message"])
    except (AttributeError, KeyError, TypeError, ValueError, OSError):
        body, code, said = dict[str, Any](), 0, f"HTTP {status}"
    said = f"discord: {said} ({code or status})"
    if status == 429:
        wait_s = float(body.get("retry_after", response.headers.get("Retry-After", DEFAULT_WAIT_S)))
        return RateLimited(f"discord wants us to wait for {wait_s:g} s", wait_s)
    if status == 401 and not code:
        return AccountRefused(CHECK_TOKEN)
    if status >= 500:
        return OutcomeUnknown(said)
    return MessageGone(said) if code == UNKNOWN_MESSAGE else Refused(said)


@asynccontextmanager
async def translated(limit_s: float | None = CALL_S) -> AsyncGenerator[None]:
    """Turn the library's errors into ours, and a call that takes too long."""
    import aiohttp
    import discord

    try:
        async with asyncio.timeout(limit_s):
            yield
    except discord.RateLimited as error:
        raise RateLimited(f"discord: {error}", error.retry_after) from error
    except discord.ConnectionClosed as error:
        raise AccountRefused(explain_closing(error.code)) from error
    except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
        raise Unreachable("discord cannot be reached; check the network") from error
    except (aiohttp.ClientError, discord.DiscordException, OSError) as error:
        raise no_answer("discord", error) from error


def explain_closing(code: int) -> str:
    """Return what a closed connection means for the account."""
    match code:
        case 4004:
            return CHECK_TOKEN
        case 4014:
            return (
                "discord refuses this bot the content of messages; switch on Message Content "
                "Intent on the page Bot of its application on discord.com/developers"
            )
        case _:
            return f"discord closed the connection for good ({code})"
