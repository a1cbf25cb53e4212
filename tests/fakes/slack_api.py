"""Slack's Web API for tests: what its methods do to the workspace."""

import json
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.fakes.slack_rules import TIME, Refused, checked, visible

ME, TEAM = "UBOT", "T1"
CHANNELS = {"C1": "ops", "C2": "random"}
NAMES = {"U7": "Ada", "U9": "Eve", ME: "hermes"}


@dataclass(slots=True)
class Shown:
    """A message of the bot as people see it now."""

    text: str
    buttons: list[str]
    thread: str = ""
    mrkdwn: str = ""
    versions: list[str] = field(default_factory=list[str])


class WebApi:
    """The workspace's state, and the methods that change it."""

    def __init__(self) -> None:
        self.url = ""
        self.chats: defaultdict[str, dict[str, Shown]] = defaultdict(dict)
        self.history: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.files: dict[str, bytes] = {}
        self.uploaded: list[dict[str, Any]] = []
        self.ephemeral: list[dict[str, Any]] = []
        self.numbers, self._times = count(1), count(int(time.time()) - 1000)

    def time(self) -> str:
        return f"{next(self._times)}.{next(self.numbers):06}"

    def answer(self, method: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The result of a method, or Refused."""
        return getattr(self, f"_{method.replace('.', '_')}")(fields)

    def _auth_test(self, fields: dict[str, Any]) -> Any:
        return {"ok": True, "user_id": ME, "user": "hermes", "team": "Acme", "team_id": TEAM}

    def _apps_connections_open(self, fields: dict[str, Any]) -> Any:
        return {"ok": True, "url": self.url.replace("http", "ws").replace("/api/", "/link")}

    def _chat_postMessage(self, fields: dict[str, Any]) -> Any:
        text, buttons = checked(fields)
        channel, thread, ts = fields["channel"], fields.get("thread_ts", ""), self.time()
        if thread and not TIME.fullmatch(thread):
            raise Refused("invalid_thread_ts")
        if channel[0] in "UW":
            raise Refused("channel_not_found")
        raw = fields["text"]
        self.chats[channel][ts] = Shown(text, buttons, thread, raw, [text])
        self.history[channel].append(
            {"type": "message", "user": ME, "bot_id": "B1", "text": raw, "ts": ts}
            | ({"thread_ts": thread} if thread else {})
        )
        return {"ok": True, "channel": channel, "ts": ts, "message": {"text": raw}}

    def _chat_update(self, fields: dict[str, Any]) -> Any:
        text, buttons = checked(fields, is_update=True)
        shown = self.chats[fields["channel"]].get(fields["ts"])
        if shown is None:
            raise Refused("message_not_found")
        shown.text, shown.buttons, shown.mrkdwn = text, buttons, fields["text"]
        shown.versions.append(text)
        return {"ok": True, "channel": fields["channel"], "ts": fields["ts"], "text": text}

    def _chat_postEphemeral(self, fields: dict[str, Any]) -> Any:
        assert visible(fields["text"])
        self.ephemeral.append(fields)
        return {"ok": True, "message_ts": self.time()}

    def _users_info(self, fields: dict[str, Any]) -> Any:
        if fields["user"] not in NAMES:
            raise Refused("user_not_found")
        profile = {"display_name": NAMES[fields["user"]], "real_name": "Somebody"}
        return {"ok": True, "user": {"id": fields["user"], "name": "x", "profile": profile}}

    def _conversations_info(self, fields: dict[str, Any]) -> Any:
        if fields["channel"] not in CHANNELS:
            raise Refused("channel_not_found")
        return {"ok": True, "channel": {"name": CHANNELS[fields["channel"]]}}

    def _conversations_open(self, fields: dict[str, Any]) -> Any:
        return {"ok": True, "channel": {"id": f"D{fields['users']}"}}

    def _conversations_history(self, fields: dict[str, Any]) -> Any:
        roots = [each for each in self.history[fields["channel"]] if not _is_reply(each)]
        return self._page(fields, list(reversed(roots)))

    def _conversations_replies(self, fields: dict[str, Any]) -> Any:
        root = fields["ts"]
        said = self.history[fields["channel"]]
        thread = [each for each in said if root in (each["ts"], each.get("thread_ts"))]
        if not thread:
            raise Refused("thread_not_found")
        return self._page(fields, thread)

    def _page(self, fields: dict[str, Any], messages: list[dict[str, Any]]) -> Any:
        oldest, limit = fields.get("oldest", "0"), int(fields["limit"])
        found = [each for each in messages if each["ts"] > oldest][:limit]
        return {"ok": True, "messages": found, "has_more": False}

    def _files_info(self, fields: dict[str, Any]) -> Any:
        address = self.url.replace("/api/", f"/files/{fields['file']}")
        if fields["file"] == "elsewhere":
            address = "https://slack.com.example/file"
        return {"ok": True, "file": {"id": fields["file"], "url_private": address}}

    def _files_getUploadURLExternal(self, fields: dict[str, Any]) -> Any:
        file_id = f"F{next(self.numbers)}"
        address = self.url.replace("/api/", f"/files/{file_id}")
        return {"ok": True, "file_id": file_id, "upload_url": address}

    def _files_completeUploadExternal(self, fields: dict[str, Any]) -> Any:
        files: list[dict[str, Any]] = json.loads(fields["files"])
        if any(each["id"] not in self.files for each in files):
            raise Refused("file_not_found")
        self.uploaded.append({**fields, "files": files})
        return {"ok": True, "files": files}


def _is_reply(message: dict[str, Any]) -> bool:
    return message.get("thread_ts", message["ts"]) != message["ts"]
