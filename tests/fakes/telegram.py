"""A Bot API server for tests: it checks what it is told, and can be as unreliable as the real one.

What people see is in `chats`; `say` and `press` are what people do.
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.fakes import telegram_menus, telegram_webhooks
from tests.fakes.http_server import Cut, bind, serving_routes
from tests.fakes.telegram_faults import REFUSALS, Faults
from tests.fakes.telegram_files import KINDS, File, checked_album, checked_file, found_file, posted
from tests.fakes.telegram_rules import Refused, checked, mentions

TOKEN = "4242:fake-token"
ME = {"id": 4242, "is_bot": True, "first_name": "Hermes", "username": "hermes_bot"}


@dataclass(slots=True)
class Shown:
    """A message of the bot as people see it now."""

    id: int
    text: str
    html: str
    buttons: list[str]
    thread_id: str = ""
    versions: list[str] = field(default_factory=list[str])
    file: File | None = None


class FakeTelegram:
    """The server's state."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.chats: defaultdict[int, dict[int, Shown]] = defaultdict(dict)
        self.actions: Counter[int] = Counter()
        self.acknowledged: dict[str, str] = {}
        self.calls: Counter[str] = Counter()
        self.menus = telegram_menus.Menus()
        self.webhook = telegram_webhooks.Webhook()
        self._others: dict[str, Any] = dict.fromkeys(telegram_menus.METHODS, self.menus)
        self._others |= dict.fromkeys(telegram_webhooks.METHODS, self.webhook)
        self.files: dict[str, bytes] = {}
        """Files that people send, by id."""
        self.conflicts = self.impatient = 0
        self._limited_at = -2.0
        self.url = ""
        self.updates: dict[int, dict[str, Any]] = {}
        self._confirmed: dict[int, dict[str, Any]] = {}
        self._update_ids, self._message_ids = count(100), count(1)
        self._changed = asyncio.Condition()
        self._poll = 0

    async def say(self, chat_id: int, text: str, user_id: int = 7, **message: Any) -> None:
        """Somebody writes to the bot, in a chat of two unless `chat` says otherwise."""
        content = {
            "message_id": next(self._message_ids),
            "date": 1,
            "chat": {"id": chat_id, "type": "private"},
            "from": {"id": user_id, "is_bot": False, "first_name": "Ada"},
            "text": text,
            "entities": mentions(text),
            **message,
        }
        kind = "edited_message" if "edit_date" in message else "message"
        await self._update({kind: {k: v for k, v in content.items() if v is not None}})

    async def react(self, chat_id: int, message_id: int, emoji: str, user_id: int = 7) -> None:
        """Somebody puts an emoji on a message."""
        user, chat = {"id": user_id, "is_bot": False, "first_name": "Ada"}, {"id": chat_id}
        new = {"old_reaction": [], "new_reaction": [{"type": "emoji", "emoji": emoji}]}
        where = {"chat": {**chat, "type": "private"}, "message_id": message_id, "date": 1}
        await self._update({"message_reaction": {**where, **new, "user": user}})

    async def press(self, chat_id: int, message_id: int, data: str, user_id: int = 7) -> None:
        """Somebody presses a button."""
        chat = {"id": chat_id, "type": "private"}
        message = {"message_id": message_id, "date": 1, "chat": chat, "from": ME}
        sender = {"id": user_id, "is_bot": False, "first_name": "Ada"}
        query = {"id": f"press-{next(self._message_ids)}", "from": sender, "chat_instance": "1"}
        await self._update({"callback_query": {**query, "message": message, "data": data}})

    async def until(self, condition: Any, patience_s: float = 30.0) -> None:
        """Return once what was done to the server makes the condition true."""
        try:
            async with asyncio.timeout(patience_s), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            raise AssertionError(
                f"so far: { {chat: self.texts(chat) for chat in self.chats} }"
            ) from None

    def texts(self, chat_id: int) -> list[str]:
        """What the bot's messages in a chat say now, oldest first."""
        return [shown.text for shown in self.chats[chat_id].values()]

    async def _update(self, update: dict[str, Any]) -> None:
        async with self._changed:
            update_id = next(self._update_ids)
            self.updates[update_id] = {"update_id": update_id, **update}
            self._changed.notify_all()

    async def serve(self, request: Request) -> Response:
        """Answer one call, or fail to."""
        method = request.path_params["method"]
        fields, files = await posted(request)
        fault = self.faults.next(method)
        await asyncio.sleep(self.faults.delay_s * self.faults.dice.random())
        if fault == "hang":
            await self.faults.released.wait()
        if fault in ("drop_before", "hang"):
            return Cut()
        refusal = REFUSALS.get(fault) if fault != "unformatted" or "parse_mode" in fields else None
        if request.path_params["token"] != TOKEN:
            refusal = Refused(401, "Unauthorized")
        now = asyncio.get_running_loop().time()
        # What was on its way when the limit was reached is no lack of patience.
        self.impatient += 0.2 < now - self._limited_at < 0.95 and method != "getUpdates"
        if refusal is not None:
            self._limited_at = now if fault == "limited" else self._limited_at
            return JSONResponse(refusal.body, refusal.code)
        try:
            if method in KINDS:
                result = self._show(fields, "caption", checked_file(method, files))
            elif method == "sendMediaGroup":
                album = checked_album(fields, files)
                result = [self._show(own, "caption", file) for own, file in album]
            elif method in self._others:
                result = self._others[method].answer(method, fields)
            else:
                result = await getattr(self, f"_{method}")(fields, request)
        except Refused as error:
            return JSONResponse(error.body, error.code)
        async with self._changed:
            self.calls[method] += 1
            self._changed.notify_all()
        if fault == "silent":
            await request.receive()  # until whoever asked has gone
        return Cut() if fault == "drop_after" else JSONResponse({"ok": True, "result": result})

    async def _getMe(self, fields: dict[str, str], request: Request) -> Any:
        return ME

    async def _getUpdates(self, fields: dict[str, str], request: Request) -> Any:
        self.webhook.check()
        offset, self._poll = int(fields.get("offset", 0)), self._poll + 1
        mine = self._poll
        for update_id in [each for each in self.updates if each < offset]:
            self._confirmed[update_id] = self.updates.pop(update_id)
        if self._confirmed and self.faults.dice.random() < self.faults.redeliver:
            return list(self._confirmed.values())[-5:] + list(self.updates.values())[:95]
        try:
            async with asyncio.timeout(float(fields.get("timeout", 0))), self._changed:
                while not self.updates and self._poll == mine:
                    await self._changed.wait()
        except TimeoutError:
            return []
        if self._poll != mine and not await request.is_disconnected():
            self.conflicts += 1
            raise Refused(409, "Conflict: terminated by other getUpdates request")
        allowed = {"update_id", *json.loads(fields["allowed_updates"])}
        return [each for each in self.updates.values() if each.keys() <= allowed][:100]

    async def _getFile(self, fields: dict[str, str], request: Request) -> Any:
        is_odd = self.faults.next("place") == "odd"
        return True if is_odd else found_file(self.files, fields["file_id"])

    async def serve_file(self, request: Request) -> Response:
        """Give a file that somebody sent."""
        self.calls["file"] += 1
        if self.faults.next("file") == "drop_before":
            return Cut()
        data = self.files.get(request.path_params["file_id"])
        if data is None or request.path_params["token"] != TOKEN:
            return Response(status_code=404)
        return Response(data, media_type="application/octet-stream")

    async def _sendMessage(self, fields: dict[str, str], request: Request) -> Any:
        return self._show(fields, "text")

    def _show(self, fields: dict[str, str], name: str, file: File | None = None) -> Any:
        text, buttons = checked(fields, name)
        message_id = next(self._message_ids)
        html, thread_id = fields.get(name, ""), fields.get("message_thread_id", "")
        shown = Shown(message_id, text, html, buttons, thread_id, [text], file)
        self.chats[int(fields["chat_id"])][message_id] = shown
        return self._message(fields, message_id)

    async def _editMessageText(self, fields: dict[str, str], request: Request) -> Any:
        text, buttons = checked(fields)
        message_id = int(fields["message_id"])
        shown = self.chats[int(fields["chat_id"])].get(message_id)
        if shown is None:
            raise Refused(400, "Bad Request: message to edit not found")
        if (shown.html, shown.buttons) == (fields["text"], buttons):
            raise Refused(400, "Bad Request: message is not modified: it is the same")
        shown.text, shown.html, shown.buttons = text, fields["text"], buttons
        shown.versions.append(text)
        return self._message(fields, message_id)

    async def _sendChatAction(self, fields: dict[str, str], request: Request) -> Any:
        assert fields["action"] == "typing"
        self.actions[int(fields["chat_id"])] += 1
        return True

    async def _answerCallbackQuery(self, fields: dict[str, str], request: Request) -> Any:
        self.acknowledged[fields["callback_query_id"]] = fields.get("text", "")
        return True

    def _message(self, fields: dict[str, str], message_id: int) -> dict[str, Any]:
        chat = {"id": int(fields["chat_id"]), "type": "private"}
        return {"message_id": message_id, "date": 1, "chat": chat, "from": ME, "text": "…"}


@asynccontextmanager
async def fake_telegram() -> AsyncGenerator[FakeTelegram]:
    """A running server; `url` is what a bot's token is appended to."""
    telegram = FakeTelegram()
    routes = [
        Route("/bot{token}/{method}", telegram.serve, methods=["POST"]),
        Route("/file/bot{token}/files/{file_id}", telegram.serve_file),
    ]
    listener, url = bind()
    telegram.url = f"{url}/bot"
    async with serving_routes(listener, routes):
        yield telegram
