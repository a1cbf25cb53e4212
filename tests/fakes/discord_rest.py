"""The calls of Discord's API for tests."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.fakes.discord_rules import (
    BOT,
    EPHEMERAL,
    REFUSALS,
    UNAUTHORIZED,
    UNKNOWN_CHANNEL,
    UNKNOWN_INTERACTION,
    UNKNOWN_MESSAGE,
    Posted,
    Refused,
    Shown,
    checked_commands,
    new_id,
    posted,
)
from tests.fakes.http_server import cut

if TYPE_CHECKING:
    from tests.fakes.discord import FakeDiscord

Handler = Callable[..., Awaitable[Any]]


class Rest:
    """Answers requests, or fails to."""

    def __init__(self, discord: "FakeDiscord") -> None:
        self._discord = discord
        number = r"(\d+)"
        self._routes: list[tuple[str, re.Pattern[str], Handler]] = [
            (method, re.compile(path), handler)
            for method, path, handler in (
                ("GET", "/users/@me", self._me),
                ("GET", "/oauth2/applications/@me", self._application),
                ("GET", "/applications/@me", self._application),
                ("GET", "/gateway/bot", self._gateway),
                ("POST", "/users/@me/channels", self._open_direct),
                ("POST", f"/channels/{number}/messages", self._create),
                ("GET", f"/channels/{number}/messages", self._history),
                ("GET", f"/channels/{number}/messages/{number}", self._read),
                ("PATCH", f"/channels/{number}/messages/{number}", self._edit),
                ("POST", f"/channels/{number}/typing", self._type),
                ("POST", f"/interactions/{number}/([^/]+)/callback", self._answer),
                ("POST", f"/webhooks/{number}/([^/]+)", self._follow_up),
                ("GET", f"/applications/{number}/commands", self._commands),
                ("PUT", f"/applications/{number}/commands", self._offer),
            )
        ]

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/gateway":
            return await self._discord.gateway.serve(request)
        if request.path.startswith("/files/"):
            return web.Response(body=self._discord.files[request.path.rpartition("/")[2]])
        path = request.path.removeprefix("/api/v10")
        for method, pattern, handler in self._routes:
            if method == request.method and (found := pattern.fullmatch(path)):
                return await self._call(request, handler, found)
        raise AssertionError(f"Discord has no {request.method} {request.path}")

    async def _call(
        self, request: web.Request, handler: Handler, found: re.Match[str]
    ) -> web.StreamResponse:
        discord = self._discord
        name = handler.__name__.lstrip("_")
        fault = discord.faults.next(name)
        await asyncio.sleep(discord.faults.delay_s * discord.faults.dice.random())
        if fault == "hang":
            await discord.faults.released.wait()
        if fault in ("hang", "drop_before"):
            return cut(request)
        try:
            if request.headers.get("Authorization") != f"Bot {discord.token}":
                raise UNAUTHORIZED
            if fault in REFUSALS:
                raise REFUSALS[fault]
            now = asyncio.get_running_loop().time()
            headers = discord.buckets.take(f"{name} {found[0]}", now)
            result = await handler(request, *found.groups())
        except Refused as error:
            return error.response()
        async with discord.changed:
            discord.calls[name] += 1
            discord.changed.notify_all()
        if fault == "drop_after":
            return cut(request)
        if result is None:
            return web.Response(status=204, headers=headers)
        # Discord names no charset, and its library expects none.
        answer = web.json_response(result, headers=headers)
        answer.headers["Content-Type"] = "application/json"
        return answer

    async def _me(self, _: web.Request) -> Any:
        return self._discord.ready()["user"]

    async def _application(self, _: web.Request) -> Any:
        about = {"name": "Hermes", "description": "", "icon": None, "bot_public": False}
        more = {"bot_require_code_grant": False, "verify_key": "00", "flags": self._discord.flags}
        me = self._discord.ready()["user"]
        return {"id": me["id"], "owner": me, **about, **more}

    async def _gateway(self, _: web.Request) -> Any:
        limit = {"total": 1000, "remaining": self._discord.sessions_left, "reset_after": 9000}
        url = self._discord.origin.replace("http", "ws") + "/gateway"
        return {"url": url, "shards": 1, "session_start_limit": {**limit, "max_concurrency": 1}}

    async def _open_direct(self, request: web.Request) -> Any:
        person = str((await request.json())["recipient_id"])
        for chat_id, other in self._discord.direct.items():
            if other == person:
                return self._discord.channel(chat_id)
        raise REFUSALS["direct closed"]

    async def _create(self, request: web.Request, chat_id: str) -> Any:
        discord, asked = self._discord, await posted(request)
        self._check(chat_id)
        assert not asked.pings, "the bot must not ping people"
        if asked.nonce and (known := discord.nonces.get((chat_id, asked.nonce))):
            return discord.messages[chat_id][known]
        message = discord.write(chat_id, BOT, asked.content or "", {"flags": asked.flags})
        message["nonce"] = asked.nonce
        if asked.nonce:
            discord.nonces[chat_id, asked.nonce] = message["id"]
        shown = Shown(message["id"], message["content"], [], files=asked.files)
        discord.chats[chat_id][shown.id] = shown
        self._show(shown, asked)
        await discord.gateway.tell("MESSAGE_CREATE", discord.told(message))
        return message

    async def _edit(self, request: web.Request, chat_id: str, message_id: str) -> Any:
        asked = await posted(request)
        self._check(chat_id)
        message = self._discord.messages[chat_id].get(message_id)
        if message is None:
            raise UNKNOWN_MESSAGE
        shown = self._discord.chats[chat_id].get(message_id)
        if shown is None:
            raise Refused(403, 50005, "Cannot edit a message authored by another user")
        self._show(shown, asked)
        message["content"] = shown.text
        return message

    def _show(self, shown: Shown, asked: Posted) -> None:
        if asked.content is not None:
            shown.text = asked.content
            shown.versions.append(asked.content)
        if asked.buttons is not None:
            shown.buttons = [each["custom_id"] for each in asked.buttons]
            shown.labels = [each["label"] for each in asked.buttons]

    async def _history(self, request: web.Request, chat_id: str) -> Any:
        self._check(chat_id)
        after, limit = int(request.query.get("after", 0)), int(request.query.get("limit", 50))
        assert 1 <= limit <= 100
        found = [m for m in self._discord.messages[chat_id].values() if int(m["id"]) > after]
        found.sort(key=lambda message: int(message["id"]))
        return list(reversed(found[:limit]))

    async def _read(self, _: web.Request, chat_id: str, message_id: str) -> Any:
        self._check(chat_id)
        try:
            return self._discord.messages[chat_id][message_id]
        except KeyError:
            raise UNKNOWN_MESSAGE from None

    async def _type(self, _: web.Request, chat_id: str) -> None:
        self._check(chat_id)
        self._discord.typed[chat_id] += 1

    async def _answer(self, request: web.Request, interaction_id: str, token: str) -> None:
        interaction = self._discord.interactions.get(token)
        if interaction is None or interaction["id"] != interaction_id:
            raise UNKNOWN_INTERACTION
        if "answer" in interaction:
            raise Refused(400, 40060, "Interaction has already been acknowledged.")
        interaction["answer"] = await request.json()
        assert interaction["answer"]["type"] in (4, 5) if interaction["type"] == 2 else (6, 7)

    async def _follow_up(self, request: web.Request, _: str, token: str) -> Any:
        interaction = self._discord.interactions.get(token)
        if interaction is None or "answer" not in interaction:
            raise UNKNOWN_INTERACTION
        asked = await posted(request)
        assert asked.flags & EPHEMERAL, "only the person who pressed sees it"
        interaction.setdefault("told", []).append(asked.content)
        return {"id": new_id()}

    async def _commands(self, _: web.Request, app_id: str) -> Any:
        return self._discord.commands

    async def _offer(self, request: web.Request, app_id: str) -> Any:
        self._discord.commands = checked_commands(await request.json())
        return self._discord.commands

    def _check(self, chat_id: str) -> None:
        known = self._discord.known_channels()
        if chat_id not in known:
            raise UNKNOWN_CHANNEL
        if chat_id in self._discord.closed:
            raise REFUSALS["forbidden"]
